//! Keys, from the bytes that a terminal sends.
//!
//! By hand, because the end of a terminal must be seen as such: the reader that comes with the
//! backend spins on it for ever.

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those on the keyboard")]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C
    Interrupt,
    /// Ctrl-L
    Redraw,
    /// Ctrl-U
    Clear,
}

const ESC: u8 = 0x1b;

/// No sequence of a key is longer.
const MAX_SEQUENCE_BYTES: usize = 32;

/// Bytes on their way to becoming keys.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    waiting: Vec<u8>,
    /// Whether the bytes are being pasted: they are no keys, and may hold any text.
    pasting: bool,
}

/// What a terminal puts around text that is pasted.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

impl KeyDecoder {
    /// The keys that are complete with these bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.waiting.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.pasting && !self.skip_pasted() {
                return keys;
            }
            let Some((length, key)) = next(&self.waiting) else { return keys };
            self.pasting = self.waiting.starts_with(PASTE_BEGINS);
            keys.extend(key);
            self.waiting.drain(..length);
        }
    }

    /// Skips what is pasted; says whether that was all of it.
    fn skip_pasted(&mut self) -> bool {
        let end = self.waiting.windows(PASTE_ENDS.len()).position(|bytes| bytes == PASTE_ENDS);
        self.pasting = end.is_none();
        // Its end may have come in part.
        let part = self.waiting.len().saturating_sub(PASTE_ENDS.len() - 1);
        self.waiting.drain(..end.map_or(part, |end| end + PASTE_ENDS.len()));
        !self.pasting
    }

    /// Whether more bytes may belong to the last ones.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Nothing more has come for a while: Escape alone is a key too.
    pub fn pause(&mut self) -> Option<Key> {
        let alone = self.waiting == [ESC] && !self.pasting;
        self.waiting.clear();
        self.pasting = false;
        alone.then_some(Key::Escape)
    }
}

/// The first key and its length; `None` while it may go on. Unknown ones are skipped.
fn next(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match *bytes {
        [] | [ESC] => None,
        [ESC, b'[', ref rest @ ..] => control(rest).map(|(length, key)| (length + 2, key)),
        [ESC, b'O', kind, ..] => Some((3, letter(kind))),
        [ESC, b'O'] => None,
        // Escape, and at once another key.
        [ESC, ..] => Some((1, Some(Key::Escape))),
        [byte @ (0..0x20 | 0x7f), ..] => Some((1, plain_control(byte))),
        _ => character(bytes),
    }
}

const fn plain_control(byte: u8) -> Option<Key> {
    Some(match byte {
        0x03 => Key::Interrupt,
        b'\t' => Key::Tab,
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Backspace,
        0x0c => Key::Redraw,
        0x15 => Key::Clear,
        _ => return None,
    })
}

/// What follows `ESC [`: parameters, then one byte that ends it.
fn control(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let Some(end) = bytes.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (bytes.len() > MAX_SEQUENCE_BYTES).then_some((bytes.len(), None));
    };
    let key = match (&bytes[..end], bytes[end]) {
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        (b"1" | b"7", b'~') => Some(Key::Home),
        (b"4" | b"8", b'~') => Some(Key::End),
        (_, b'~') => None,
        (_, kind) => letter(kind),
    };
    Some((end + 1, key))
}

const fn letter(kind: u8) -> Option<Key> {
    Some(match kind {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let first = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() == 0 => {
            // The beginning of a character waits for its rest; what can be none is skipped.
            return error.error_len().map(|length| (length, None));
        }
        Err(error) => std::str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default(),
    };
    let first = valid.chars().next()?;
    Some((first.len_utf8(), Some(Key::Char(first))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_4_pasted_text_is_not_a_command() {
        let text = [b"j" as &[u8], PASTE_BEGINS, b"sy\x03\x1b[A", PASTE_ENDS, b"k"].concat();
        let expected = [Key::Char('j'), Key::Char('k')];
        assert_eq!(KeyDecoder::default().feed(&text), expected);
        for cut in 0..text.len() {
            let mut keys = KeyDecoder::default();
            let mut all = keys.feed(&text[..cut]);
            all.extend(keys.feed(&text[cut..]));
            assert_eq!(all, expected, "cut at {cut}");
        }
    }

    fn all(bytes: &[u8]) -> Vec<Key> {
        let mut keys = KeyDecoder::default();
        let mut all = keys.feed(bytes);
        all.extend(keys.pause());
        all
    }

    #[test]
    fn keys_are_told_from_the_bytes_of_common_terminals() {
        let text = all("q/ü\r\t\x7f\x03\x0c\x15".as_bytes());
        let wanted = [
            Key::Char('q'),
            Key::Char('/'),
            Key::Char('ü'),
            Key::Enter,
            Key::Tab,
            Key::Backspace,
            Key::Interrupt,
            Key::Redraw,
            Key::Clear,
        ];
        assert_eq!(text, wanted);
        let moves = all(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[1;5C\x1b[H\x1b[4~\x1b[Z\x1b[99~x");
        let wanted = [
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::Right,
            Key::Home,
            Key::End,
            Key::BackTab,
            Key::Char('x'),
        ];
        assert_eq!(moves, wanted);
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows_it() {
        assert_eq!(all(b"\x1b"), [Key::Escape]);
        assert_eq!(all(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(all(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        let mut keys = KeyDecoder::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert!(keys.is_partial());
        assert_eq!(keys.feed(b"["), []);
        assert_eq!(keys.feed(b"B"), [Key::Down]);
        assert!(!keys.is_partial());
    }

    #[test]
    fn any_bytes_are_taken_and_nothing_is_kept_for_ever() {
        let mut keys = KeyDecoder::default();
        for byte in (0..=255).cycle().take(10_000) {
            keys.feed(&[byte, 0xff, ESC, b'[', b'1']);
            assert!(keys.waiting.len() <= 2 * MAX_SEQUENCE_BYTES, "{:?}", keys.waiting);
        }
        keys.pause();
        assert_eq!(keys.feed("ü".as_bytes().get(..1).unwrap()), []);
        assert_eq!(keys.feed(&"ü".as_bytes()[1..]), [Key::Char('ü')]);
    }
}
