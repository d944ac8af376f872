//! What was said with an agent, as a page: the lines of the file that is kept of a run.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use symphony_core::run::RunId;
use symphony_core::{Identifier, plain, plain_start};

use super::{VERSION, error_page, name_of, page, path_of, service};
use crate::error::Error;
use crate::routes::HttpState;

/// How many lines are shown, the last ones.
const MAX_LINES: usize = 1_000;

/// How much of a line is shown.
const MAX_LINE_BYTES: usize = 4_000;

/// How much of a longer line is shown before it is opened.
const MAX_START_BYTES: usize = 300;

#[derive(Template)]
#[template(path = "transcript.html")]
struct TranscriptPage {
    name: String,
    path: String,
    run: String,
    file: String,
    is_cut: bool,
    lines: Vec<ShownLine>,
    service: Vec<String>,
    version: &'static str,
}

/// One line, ready to be shown.
#[derive(Debug, PartialEq, Eq)]
struct ShownLine {
    at: Option<String>,
    direction: String,
    /// The beginning of a long line.
    start: Option<String>,
    text: String,
}

/// A line of the file (see `docs/operate/logs.md`).
#[derive(Deserialize)]
struct KeptLine<'a> {
    at: Option<String>,
    dir: Option<String>,
    #[serde(borrow)]
    line: Option<&'a RawValue>,
    text: Option<String>,
    note: Option<String>,
}

/// Returns the path of the page of a run.
pub(crate) fn transcript_path(identifier: &str, run: &str) -> String {
    format!("/issues/{}/runs/{run}", path_of(identifier))
}

/// `GET /issues/<identifier>/runs/<run>`
pub(super) async fn transcript(
    State(app): State<Arc<HttpState>>,
    Path((identifier, run)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let name = name_of(&identifier);
    let kept = match RunId::parse(&run) {
        Some(run) => app.handle.transcript(&Identifier::from(identifier.as_str()), run).await,
        None => None,
    };
    let Some(kept) = kept else {
        let message = format!("nothing that was said in run {} of {name} is kept", plain(&run, 60));
        return error_page(&Error::new(StatusCode::NOT_FOUND, "no_transcript", message));
    };
    let skipped = kept.lines.len().saturating_sub(MAX_LINES);
    let shown = TranscriptPage {
        path: path_of(&identifier),
        name,
        run,
        file: plain(&kept.path.display().to_string(), MAX_LINE_BYTES),
        is_cut: kept.is_cut || skipped > 0,
        lines: kept.lines.iter().skip(skipped).map(|line| shown_line(line)).collect(),
        service: service(&app.handle.last_snapshot(), &headers),
        version: VERSION,
    };
    page(StatusCode::OK, &shown)
}

/// Shows a line of the file; one that is not as it should be is shown as it is.
fn shown_line(line: &str) -> ShownLine {
    let Ok(kept) = serde_json::from_str::<KeptLine<'_>>(line) else {
        return ShownLine::new(None, "torn", line);
    };
    let said = kept.line.map(|line| line.get().to_owned()).or(kept.text);
    let (direction, text) = match said {
        Some(text) => (direction_in_words(kept.dir.unwrap_or_default()), text),
        None => ("note".to_owned(), kept.note.unwrap_or_default()),
    };
    ShownLine::new(kept.at.as_deref(), &direction, &text)
}

impl ShownLine {
    fn new(at: Option<&str>, direction: &str, text: &str) -> Self {
        let is_long = text.len() > MAX_START_BYTES;
        Self {
            at: at.map(|at| plain(at, 60)),
            direction: plain(direction, 60),
            start: is_long.then(|| plain_start(text, MAX_START_BYTES)),
            text: plain(text, MAX_LINE_BYTES),
        }
    }
}

/// Names the direction of a line as seen from here.
fn direction_in_words(direction: String) -> String {
    match direction.as_str() {
        "in" => "from agent".to_owned(),
        "out" => "to agent".to_owned(),
        _ => direction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_1_every_line_of_a_transcript_is_shown_as_text() {
        let shown = |line: &str| {
            let line = shown_line(line);
            (line.direction, line.text)
        };
        let word = |direction: &str, text: &str| (direction.to_owned(), text.to_owned());
        let said = r#"{"at":"2026-01-01T00:00:00Z","dir":"in","line":{"method":"x"}}"#;
        assert_eq!(shown(said), word("from agent", r#"{"method":"x"}"#));
        assert_eq!(shown(r#"{"dir":"out","text":"half"}"#), word("to agent", "half"));
        assert_eq!(
            shown(r#"{"note":"3 lines were lost here"}"#),
            word("note", "3 lines were lost here")
        );
        assert_eq!(shown("{\u{1b}"), word("torn", "{\\u{1b}"));
        assert!(shown(&"x".repeat(100_000)).1.len() < 5_000);
        let start = |length: usize| shown_line(&"\u{1b}".repeat(length)).start;
        assert_eq!(start(300), None);
        assert!(
            start(301).is_some_and(|start| start.starts_with("\\u{1b}") && start.ends_with('…'))
        );
    }
}
