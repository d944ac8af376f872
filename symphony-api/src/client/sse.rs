//! Decodes server-sent events from bytes.

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its id, to resume after it.
    pub id: Option<String>,
    /// Its name: see [`StreamEventKind`](crate::StreamEventKind).
    pub name: String,
    /// Its payload, JSON.
    pub data: String,
}

/// Bounds one event: a service sends none that is longer.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Turns bytes into events, however they are cut.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The line that is not complete yet.
    line: Vec<u8>,
    event: SseEvent,
}

/// The stream is not one of a service: an event does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
pub struct EventTooLong;

impl SseDecoder {
    /// Returns the events that are complete with these bytes.
    ///
    /// # Errors
    /// When an event is too long.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLong> {
        let mut events = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            events.extend(self.take(line.trim_end_matches('\r')));
            if self.event.data.len() > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_EVENT_BYTES { Err(EventTooLong) } else { Ok(events) }
    }

    /// Takes one line; an empty one ends an event.
    fn take(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (!event.name.is_empty() || !event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {} // a comment, or something newer
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_their_bytes_arrive() {
        let text = ": hello\n\nid: a-1\nevent: row\ndata: {\"ü\":1}\n\r\nevent: summary\r\n\
                    data:x\ndata: y\nretry: 3\n\nid: a-3\ndata: cut off";
        let wanted = [
            SseEvent { id: Some("a-1".into()), name: "row".into(), data: "{\"ü\":1}".into() },
            SseEvent { id: None, name: "summary".into(), data: "x\ny".into() },
        ];
        for step in 1..=text.len() {
            let mut events = SseDecoder::default();
            let chunks = text.as_bytes().chunks(step);
            let found: Vec<SseEvent> =
                chunks.flat_map(|chunk| events.feed(chunk).unwrap()).collect();
            assert_eq!(found, wanted, "in steps of {step}");
        }
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept_for_ever() {
        let mut events = SseDecoder::default();
        let chunk = vec![b'x'; MAX_EVENT_BYTES / 2];
        assert!(events.feed(&chunk).is_ok());
        assert!(events.feed(&chunk).is_ok());
        assert_eq!(events.feed(&chunk), Err(EventTooLong));
    }
}
