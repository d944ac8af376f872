//! Log lines, for people or for programs. What a line happened within (a run, a turn) gives it its
//! fields, each of them once (contract 13.1).

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use symphony_core::settings::LogFormat;
use symphony_core::{plain, plain_json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::non_blocking::NonBlockingWriter;

/// How much of a text goes into one line.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The format of lines, shared by all writers; it may change at any time.
#[derive(Clone, Debug)]
pub(super) struct LineFormat(Arc<AtomicBool>);

impl LineFormat {
    pub(super) fn new(format: LogFormat) -> Self {
        Self(Arc::new(AtomicBool::new(format == LogFormat::Json)))
    }

    pub(super) fn set(&self, format: LogFormat) {
        self.0.store(format == LogFormat::Json, Ordering::Relaxed);
    }

    fn is_json(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Writes a line for everything that happens.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) screen: NonBlockingWriter,
    /// Whether the screen is one that people watch: there the time of day is enough.
    pub(super) is_terminal: bool,
    /// Whether the screen shows colours.
    pub(super) colours: bool,
    pub(super) file: Option<NonBlockingWriter>,
    pub(super) look: LineFormat,
}

/// The fields of a span or an event, in order.
#[derive(Debug, Default)]
struct LogFields(Vec<(&'static str, Value)>);

impl LogFields {
    fn set(&mut self, field: &Field, value: Value) {
        self.put(field.name(), value);
    }

    /// What is said last counts.
    fn put(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }
}

impl Visit for LogFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        event.record(&mut fields);
        // The nearest first: what an event says of itself outweighs what is around it.
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            for (name, value) in extensions.get::<LogFields>().iter().flat_map(|fields| &fields.0) {
                if fields.0.iter().all(|(known, _)| known != name) {
                    fields.0.push((name, value.clone()));
                }
            }
        }
        let message = fields.take("message");
        let message = message.as_ref().and_then(Value::as_str).unwrap_or_default();
        let told = LogLine { at: now(), event, message, fields: &fields };
        let is_json = self.look.is_json();
        let line = if is_json { told.json() } else { told.screen(self.is_terminal, self.colours) };
        // A writer that cannot take a line loses it, and counts.
        let _ = (&self.screen).write(line.as_bytes());
        if let Some(mut file) = self.file.as_ref() {
            let line = if is_json { line } else { told.text() };
            let _ = file.write(line.as_bytes());
        }
    }
}

/// One event, about to be written.
struct LogLine<'a> {
    at: String,
    event: &'a Event<'a>,
    message: &'a str,
    fields: &'a LogFields,
}

impl LogLine<'_> {
    /// For people who watch: the time of day, which issue, what, and why. A level that is not usual
    /// is named; what only programs need is left to the file.
    fn screen(&self, is_terminal: bool, colours: bool) -> String {
        let style = |style: Style| if colours { style } else { Style::new() };
        let (dim, level) = (style(Style::new().dimmed()), *self.event.metadata().level());
        let loud = style(AnsiColor::on_default(colour(level)));
        let time_of_day = self.at.get(11..19).filter(|_| is_terminal);
        let mut line = format!("{dim}{}{dim:#} ", time_of_day.unwrap_or(&self.at));
        if level != Level::INFO {
            let _ = write!(line, "{loud}{level}{loud:#} ");
        }
        if let Some(name) = self.text_of("issue_identifier") {
            let _ = write!(line, "{} ", plain(name, MAX_TEXT_BYTES));
        }
        line.push_str(&plain(self.message, MAX_TEXT_BYTES));
        if let Some(took) = self.value("took_ms").and_then(Value::as_f64) {
            let _ = write!(line, " after {:.1} s", took / 1_000.0);
        }
        let why = WHY_FIELDS.into_iter().find(|name| self.text_of(name).is_some());
        if let Some(text) = why.and_then(|name| self.text_of(name)) {
            let _ = write!(line, ": {}", plain(text, MAX_TEXT_BYTES));
        }
        let shown = ["issue_identifier", "took_ms"].into_iter().chain(why);
        let shown: Vec<&str> = shown.chain(self.repeated_id()).collect();
        for (name, value) in self.fields.0.iter().filter(|(name, _)| !shown.contains(name)) {
            let _ = write!(line, " {dim}{name}={dim:#}");
            match value {
                Value::String(id) if *name == "session_id" => push_value(&mut line, &short(id)),
                value => push_value(&mut line, value),
            }
        }
        line.push('\n');
        line
    }

    /// For people who search a file: when, how bad, from where, what, and every field.
    fn text(&self) -> String {
        let metadata = self.event.metadata();
        let mut line = format!("{} {:>5} {}: ", self.at, metadata.level(), metadata.target());
        line.push_str(&plain(self.message, MAX_TEXT_BYTES));
        for (name, value) in &self.fields.0 {
            let _ = write!(line, " {name}=");
            push_value(&mut line, value);
        }
        line.push('\n');
        line
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.fields.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn text_of(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_str)
    }

    /// The name of the field with the issue's id, where that says the same as its identifier.
    fn repeated_id(&self) -> Option<&'static str> {
        let is_repeated = self.text_of("issue_id") == self.text_of("issue_identifier");
        is_repeated.then_some("issue_id")
    }

    /// For programs: one object.
    fn json(&self) -> String {
        let metadata = self.event.metadata();
        let (at, level) = (&self.at, metadata.level().as_str());
        let mut line = format!(r#"{{"timestamp":"{at}","level":"{level}","message":"#);
        line.push_str(&Value::from(self.message).to_string());
        for (name, value) in &self.fields.0 {
            let _ = write!(line, r#","{name}":{value}"#);
        }
        let _ = write!(line, r#","target":"{}"}}"#, metadata.target());
        let mut line = plain_json(&line);
        line.push('\n');
        line
    }
}

/// What says why something happened; the first that there is stands behind the message.
const WHY_FIELDS: [&str; 4] = ["error", "question", "why", "warning"];

/// Writes the value of a field, in quotes where it is not one word.
fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::String(text) if is_simple(text) => line.push_str(text),
        Value::String(text) => {
            let text = plain(text, MAX_TEXT_BYTES).replace('"', "\\\"");
            let _ = write!(line, "\"{text}\"");
        }
        value => drop(write!(line, "{value}")),
    }
}

/// Shortens the id of a session: its thread's beginning tells it from others.
fn short(id: &str) -> Value {
    match id.char_indices().nth(SHORT_ID_CHARS) {
        Some((end, _)) => format!("{}..", &id[..end]).into(),
        None => id.into(),
    }
}

/// How much of a session's id people see.
const SHORT_ID_CHARS: usize = 13;

/// Whether a text is one word that needs no quotes.
fn is_simple(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '=' | '\\');
    !text.is_empty() && text.chars().all(is_word)
}

fn now() -> String {
    let mut text = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

const fn colour(level: Level) -> AnsiColor {
    match level {
        Level::ERROR => AnsiColor::Red,
        Level::WARN => AnsiColor::Yellow,
        Level::INFO => AnsiColor::Green,
        Level::DEBUG => AnsiColor::Blue,
        Level::TRACE => AnsiColor::Magenta,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written to a screen with colours and to a file, without the times.
    fn written(format: LogFormat, tell: impl FnOnce(&LineFormat)) -> [Vec<String>; 2] {
        let kept = [Kept::default(), Kept::default()];
        let [screen, file] = kept.clone().map(|kept| NonBlockingWriter::new(kept).unwrap());
        let look = LineFormat::new(format);
        let lines = Lines {
            screen: screen.clone(),
            is_terminal: true,
            colours: true,
            file: Some(file.clone()),
            look: look.clone(),
        };
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || tell(&look));
        screen.finish();
        file.finish();
        kept.map(|kept| {
            let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
            text.lines().map(str::to_owned).collect()
        })
    }

    fn tell() {
        let run = tracing::error_span!(
            "run",
            run = "1.2",
            issue_identifier = "MT-1",
            outcome = tracing::field::Empty
        );
        let _run = run.enter();
        let turn = tracing::error_span!("turn", turn = 3, session_id = tracing::field::Empty);
        turn.record("session_id", "t-3");
        let _turn = turn.enter();
        tracing::warn!(
            run = "of its own",
            error = "it \"broke\"\u{1b}[2J\u{202e}",
            "a hook failed"
        );
    }

    #[test]
    fn rule_13_1_a_line_has_every_field_of_what_it_happened_in_once() {
        let [screen, file] = written(LogFormat::Text, |_| tell());
        let end = r#" a hook failed run="of its own" error="it \"broke\"\u{1b}[2J\u{202e}" turn=3 session_id=t-3 issue_identifier=MT-1"#;
        let target = concat!(" WARN ", module_path!(), ":");
        assert!(file[0].ends_with(&format!("{target}{end}")), "{file:?}");
        assert!(
            screen[0].contains("\u{1b}[33mWARN\u{1b}[0m MT-1 a hook failed: it "),
            "{screen:?}"
        );
        assert_eq!(screen[0].matches("MT-1").count(), 1, "{screen:?}");
        assert!(!file[0].contains('\u{1b}'), "no colours in a file: {file:?}");
    }

    #[test]
    fn rule_13_1_a_line_on_a_screen_says_which_issue_what_and_why() {
        let session = "0199a1b2-c3d4-7000-8000-00000000000a-0199a1b2-c3d4-7000-8000-00000000000b";
        let [screen, file] = written(LogFormat::Text, |_| {
            let (id, took_ms) = ("MT-6", 312_u64);
            tracing::warn!(
                issue_id = id,
                issue_identifier = id,
                run = "1.3",
                session_id = session,
                took_ms,
                error = "process_exit: Codex ended",
                "run failed"
            );
            tracing::info!(issue_id = "7", issue_identifier = "MT-7", "run \u{1b}started");
        });
        let plain = |line: &str| anstream::adapter::strip_str(line).to_string();
        let shown = plain(&screen[0]);
        let (time, line) = shown.split_at(9);
        assert!(time.as_bytes()[2] == b':' && time.ends_with(' '), "{time}");
        let wanted = "WARN MT-6 run failed after 0.3 s: process_exit: Codex ended \
                      run=1.3 session_id=0199a1b2-c3d4..";
        assert_eq!(line, wanted);
        assert!(plain(&screen[1]).ends_with(" MT-7 run \\u{1b}started issue_id=7"), "{screen:?}");
        assert!(file[0].contains("issue_id=MT-6") && file[0].contains(session), "{file:?}");
    }

    #[test]
    fn rule_13_1_json_has_the_fields_of_the_run_at_its_top() {
        let [screen, file] = written(LogFormat::Json, |_| tell());
        assert_eq!(screen, file);
        let mut line: Value = serde_json::from_str(&file[0]).unwrap();
        assert!(line["timestamp"].take().as_str().is_some_and(|at| at.ends_with('Z')));
        let expected = serde_json::json!({
            "timestamp": null, "level": "WARN", "target": module_path!(), "message": "a hook failed",
            "run": "of its own", "error": "it \"broke\"\u{1b}[2J\u{202e}", "turn": 3,
            "session_id": "t-3", "issue_identifier": "MT-1",
        });
        assert_eq!(line, expected);
        assert!(!file[0].contains(['\u{1b}', '\u{202e}']), "{file:?}");
    }

    #[test]
    fn rule_13_1_lines_change_their_looks_in_the_middle_of_a_run() {
        let [_, file] = written(LogFormat::Text, |look| {
            let run = tracing::error_span!("run", issue_identifier = "MT-1");
            let _run = run.enter();
            tracing::info!("one");
            look.set(LogFormat::Json);
            tracing::info!("two");
        });
        assert!(file[0].ends_with(" one issue_identifier=MT-1"), "{file:?}");
        let line: Value = serde_json::from_str(&file[1]).unwrap();
        assert_eq!((&line["message"], &line["issue_identifier"]), (&"two".into(), &"MT-1".into()));
    }
}
