//! A line of a transcript as lines for people: what the agent said and ran, and what it cost. What
//! only says that the agent lives is left out; `--json` has all of it.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use serde::Deserialize;
use serde_json::Value;
use symphony_core::{plain, plain_start};
use symphony_tui::text::count;

/// How much of a line is shown.
const MAX_LINE_BYTES: usize = 4_000;

/// How much of a name or a command is shown.
const MAX_WORDS_BYTES: usize = 300;

/// How many lines of a prompt, or of the output of a command that failed.
const MAX_SHOWN_LINES: usize = 10;

/// A line of the file (`docs/operate/logs.md`).
#[derive(Deserialize)]
struct TranscriptLine {
    #[serde(default)]
    at: String,
    #[serde(default)]
    dir: String,
    line: Option<Value>,
    text: Option<String>,
    note: Option<String>,
}

/// Renders the lines of one run, in their order.
#[derive(Debug, Default)]
pub(super) struct TranscriptRenderer {
    /// The tokens of each conversation: the agent's, and its helpers'.
    tokens: BTreeMap<String, (u64, u64, u64)>,
}

/// What one line of the protocol says.
struct ShownText {
    style: Style,
    text: String,
}

fn shown(text: impl Into<String>) -> ShownText {
    ShownText { style: Style::new(), text: text.into() }
}

impl ShownText {
    fn in_style(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

const DIM: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default();
const COMMAND: Style = AnsiColor::Cyan.on_default();

impl TranscriptRenderer {
    /// Returns what is shown of a line, with the time before the first of its lines. Nothing in it
    /// steers a terminal but our own colours.
    pub(super) fn render(&mut self, line: &str) -> Vec<String> {
        let Ok(kept) = serde_json::from_str::<TranscriptLine>(line) else {
            return lines("", &shown(line).in_style(DIM));
        };
        let said = match (&kept.line, &kept.text, &kept.note) {
            (Some(message), _, _) => self.message(&kept.dir, message),
            (None, Some(text), _) if kept.dir == "stderr" => {
                Some(shown(format!("stderr | {text}")).in_style(DIM))
            }
            (None, Some(text), _) => Some(shown(format!("{} | {text}", side(&kept.dir)))),
            (None, None, Some(note)) => Some(shown(format!("-- {note}")).in_style(DIM)),
            (None, None, None) => None,
        };
        let time = kept.at.get(11..19).unwrap_or_default();
        said.map(|said| lines(time, &said)).unwrap_or_default()
    }

    fn message(&mut self, side: &str, message: &Value) -> Option<ShownText> {
        let params = &message["params"];
        match (side, message["method"].as_str()) {
            ("out", Some(method)) => asked(method, params),
            (_, Some("item/started")) => started(&params["item"]),
            (_, Some("item/completed")) => completed(&params["item"]),
            (_, Some("item/tool/call")) => called(params),
            (_, Some("thread/tokenUsage/updated")) => {
                let total = &params["tokenUsage"]["total"];
                let number = |key: &str| total[key].as_u64().unwrap_or_default();
                let spent = (number("totalTokens"), number("inputTokens"), number("outputTokens"));
                self.tokens.insert(words(&params["threadId"]), spent);
                None
            }
            (_, Some("turn/completed" | "turn/failed" | "turn/cancelled")) => {
                Some(self.turn_end(params))
            }
            (_, Some("error")) => {
                let error = &params["error"];
                let text = error["message"].as_str().or(error.as_str()).unwrap_or_default();
                Some(shown(format!("error: {text}")).in_style(BAD))
            }
            (_, Some("warning" | "configWarning" | "deprecationNotice" | "guardianWarning")) => {
                let text = params["message"].as_str().or(params["summary"].as_str());
                Some(shown(format!("warning: {}", text.unwrap_or_default())).in_style(DIM))
            }
            // What the agent asks has an id, and what it tells has none.
            (_, Some(method)) => message.get("id").map(|_| shown(format!("asks: {method}"))),
            ("in", None) => message.get("error").map(refusal).or_else(|| event(message)),
            ("out", None) => message["prompt"].as_str().map(|text| prompt("symphony", text)),
            (_, None) => None,
        }
    }

    fn turn_end(&self, params: &Value) -> ShownText {
        let turn = &params["turn"];
        let status = turn["status"].as_str().unwrap_or("over");
        let error = &turn["error"];
        let error = error["message"].as_str().or(error.as_str()).or(params["message"].as_str());
        let why = error.map(|error| format!(": {error}")).unwrap_or_default();
        let sum = self.tokens.values().fold((0_u64, 0_u64, 0_u64), |sum, spent| {
            let add = u64::saturating_add;
            (add(sum.0, spent.0), add(sum.1, spent.1), add(sum.2, spent.2))
        });
        let (all, input, output) = (count(sum.0), count(sum.1), count(sum.2));
        let tokens = format!("{all} tokens so far (in {input}, out {output})");
        let style = if error.is_some() { BAD } else { DIM };
        shown(format!("turn {status}{why}; {tokens}")).in_style(style)
    }
}

/// What Symphony asks the agent.
fn asked(method: &str, params: &Value) -> Option<ShownText> {
    let who = match method {
        "turn/start" => "symphony",
        "turn/steer" => "symphony adds",
        "turn/interrupt" => return Some(shown("symphony interrupts the turn").in_style(DIM)),
        _ => return None,
    };
    let parts = params["input"].as_array().into_iter().flatten();
    let text: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    Some(prompt(who, &text.join("\n")))
}

fn prompt(who: &str, text: &str) -> ShownText {
    let (text, more) = first_lines(text);
    shown(format!("{who}: {text}{more}")).in_style(DIM)
}

fn refusal(error: &Value) -> ShownText {
    let text = error["message"].as_str().unwrap_or("refused");
    shown(format!("refuses: {text}")).in_style(BAD)
}

/// What an agent without a protocol of its own tells, such as the stand-in.
fn event(message: &Value) -> Option<ShownText> {
    let text = message["summary"].as_str().filter(|text| !text.trim().is_empty())?;
    match message["event"].as_str()? {
        "session_started" => None,
        "notification" => Some(shown(format!("agent: {text}"))),
        _ => Some(shown(text).in_style(DIM)),
    }
}

fn started(item: &Value) -> Option<ShownText> {
    let command = item["command"].as_str()?;
    Some(shown(format!("$ {}", plain_start(command, MAX_WORDS_BYTES))).in_style(COMMAND))
}

fn completed(item: &Value) -> Option<ShownText> {
    let text = || item["text"].as_str().filter(|text| !text.trim().is_empty());
    match item["type"].as_str().unwrap_or_default() {
        "agentMessage" => Some(shown(format!("agent: {}", text()?))),
        "plan" => Some(shown(format!("plan: {}", text()?))),
        "commandExecution" => Some(ran(item)),
        "fileChange" => {
            let changes = item["changes"].as_array().into_iter().flatten();
            let paths: Vec<String> = changes.map(|change| words(&change["path"])).collect();
            Some(shown(format!("changed {}", paths.join(", "))))
        }
        "mcpToolCall" | "collabAgentToolCall" => {
            Some(shown(format!("called {}", words(&item["tool"]))))
        }
        "webSearch" => Some(shown(format!("searched the web: {}", words(&item["query"])))),
        _ => None,
    }
}

/// A command that has ended: of one that failed, the end of its output too.
fn ran(item: &Value) -> ShownText {
    let command = plain_start(item["command"].as_str().unwrap_or_default(), 60);
    let code = item["exitCode"].as_i64();
    let took =
        item["durationMs"].as_u64().map(|ms| format!(" after {}.{} s", ms / 1000, ms % 1000 / 100));
    let took = took.unwrap_or_default();
    match code {
        Some(0) => shown(format!("exit 0{took}: {command}")).in_style(DIM),
        code => {
            let code =
                code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
            let output = item["aggregatedOutput"].as_str().unwrap_or_default();
            let mut last: Vec<&str> = output.lines().rev().take(MAX_SHOWN_LINES).collect();
            last.reverse();
            let output = last.iter().fold(String::new(), |all, line| all + "\n" + line);
            shown(format!("{code}{took}: {command}{output}")).in_style(BAD)
        }
    }
}

/// A tool of the tracker.
fn called(params: &Value) -> Option<ShownText> {
    let arguments = plain_start(&params["arguments"].to_string(), MAX_WORDS_BYTES);
    Some(shown(format!("calls {} {arguments}", words(&params["tool"]))))
}

fn words(value: &Value) -> String {
    plain_start(value.as_str().unwrap_or_default(), MAX_WORDS_BYTES)
}

fn side(direction: &str) -> &'static str {
    match direction {
        "out" => "symphony",
        _ => "agent",
    }
}

/// The beginning of a text, and how much more there is.
fn first_lines(text: &str) -> (String, String) {
    let first: Vec<&str> = text.lines().take(MAX_SHOWN_LINES).collect();
    let more = match text.lines().count().saturating_sub(MAX_SHOWN_LINES) {
        0 => String::new(),
        1 => "\n... and 1 more line".to_owned(),
        more => format!("\n... and {more} more lines"),
    };
    (first.join("\n"), more)
}

/// The lines of a text, the first with its time and the others below it.
fn lines(time: &str, shown: &ShownText) -> Vec<String> {
    let (time, style) = (plain(time, 8), shown.style);
    let text = shown.text.trim_end().lines().enumerate();
    let line = |(number, line): (usize, &str)| {
        let time = if number == 0 { time.as_str() } else { "" };
        let line = plain_start(&line.replace('\t', "    "), MAX_LINE_BYTES);
        format!("{DIM}{time:8}{DIM:#}  {style}{line}{style:#}")
    };
    text.map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(all: &[(&str, Value)]) -> Vec<String> {
        let mut renderer = TranscriptRenderer::default();
        let lines = all.iter().flat_map(|(side, message)| {
            let line = json!({"at": "2026-01-02T03:04:05.678Z", "dir": side, "line": message});
            renderer.render(&line.to_string())
        });
        lines.map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
    }

    fn told(method: &str, params: &Value) -> (&'static str, Value) {
        ("in", json!({"method": method, "params": params}))
    }

    #[test]
    fn rule_14_8_a_transcript_shows_what_was_said_run_and_spent() {
        let item = |item: Value| told("item/completed", &json!({ "item": item }));
        let usage = |thread: &str, all: u64| {
            let total = json!({"totalTokens": all, "inputTokens": all - 1, "outputTokens": 1});
            let params = json!({"threadId": thread, "tokenUsage": {"total": total}});
            told("thread/tokenUsage/updated", &params)
        };
        let prompt: String = (1..=12).map(|line| format!("line {line}\n")).collect();
        let shown = rendered(&[
            ("out", json!({"id": 1, "method": "initialize", "params": {}})),
            ("in", json!({"id": 1, "result": {}})),
            (
                "out",
                json!({"id": 2, "method": "turn/start", "params": {"input": [{"text": prompt}]}}),
            ),
            told("item/started", &json!({"item": {"type": "commandExecution", "command": "make"}})),
            item(json!({"type": "commandExecution", "command": "make", "exitCode": 2,
                "durationMs": 1250, "aggregatedOutput": "a\nno rule"})),
            item(json!({"type": "agentMessage", "text": "two\n\tlines"})),
            item(json!({"type": "fileChange", "changes": [{"path": "a.rs"}, {"path": "b.rs"}]})),
            usage("T", 1_000),
            usage("T", 2_000),
            usage("HELPER", 500),
            told(
                "turn/completed",
                &json!({"turn": {"status": "failed", "error": {"message": "oh"}}}),
            ),
        ]);
        let prompt = shown.iter().position(|line| line.starts_with("03:04:05  $ make")).unwrap();
        assert_eq!(prompt, 11, "ten lines, and how many more: {shown:#?}");
        assert_eq!(shown[10], "          ... and 2 more lines");
        let wanted = [
            "03:04:05  $ make",
            "03:04:05  exit 2 after 1.2 s: make",
            "          a",
            "          no rule",
            "03:04:05  agent: two",
            "              lines",
            "03:04:05  changed a.rs, b.rs",
            "03:04:05  turn failed: oh; 2.5k tokens so far (in 2.5k, out 2)",
        ];
        assert_eq!(shown[11..], wanted);
    }

    #[test]
    fn rule_14_8_so_does_that_of_the_stand_in() {
        let shown = rendered(&[
            ("out", json!({"prompt": "Fix the door.", "turn": 1})),
            ("in", json!({"event": "session_started", "summary": "scripted session 1"})),
            ("in", json!({"event": "notification", "summary": "update_issue: done"})),
            ("in", json!({"event": "turn_completed", "summary": "the turn is complete"})),
        ]);
        let wanted = [
            "03:04:05  symphony: Fix the door.",
            "03:04:05  agent: update_issue: done",
            "03:04:05  the turn is complete",
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn rule_13_1_no_line_of_a_transcript_steers_a_terminal() {
        let nasty = "a\u{1b}[2Jb\u{202e}c\rd";
        let mut all = rendered(&[
            told("item/completed", &json!({"item": {"type": "agentMessage", "text": nasty}})),
            told("item/started", &json!({"item": {"command": nasty}})),
            told("item/tool/call", &json!({"tool": nasty, "arguments": nasty})),
            told("error", &json!({ "error": nasty })),
            ("in", json!({"id": nasty, "method": nasty})),
            ("in", json!({"id": 1, "error": {"message": nasty}})),
            ("out", json!({ "prompt": nasty })),
            ("in", json!({"event": "notification", "summary": nasty})),
        ]);
        let mut renderer = TranscriptRenderer::default();
        for line in [
            json!({"at": nasty, "dir": "stderr", "text": nasty}).to_string(),
            json!({"note": nasty}).to_string(),
            nasty.to_owned(),
        ] {
            let lines = renderer.render(&line);
            assert!(!lines.is_empty(), "{line}");
            all.extend(lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()));
        }
        assert!(all.len() >= 9);
        for line in all {
            assert!(!line.contains(['\u{1b}', '\u{202e}', '\r']), "{line:?}");
        }
    }
}
