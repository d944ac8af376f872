//! The pieces of the overview that change by themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use symphony_api::{
    BlockedStatus, RetryStatus, RunningStatus, Summary, UnstartedStatus, obstacle, reason_in_words,
};
use symphony_core::orchestrator::Phase;
use symphony_core::snapshot::{Explanation, Snapshot};
use symphony_core::time::Wall;
use symphony_core::{Issue, plain};

use super::RunsChart;

/// How many rows of a list are shown; a search finds the others.
const MAX_ROWS: usize = 200;

/// What time it is, and whether a script will fill in what depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageClock {
    pub(super) now: Wall,
    pub(super) live: bool,
}

impl PageClock {
    /// How long ago that was, for people.
    pub(super) fn ago(self, at: &Wall) -> String {
        if self.live {
            String::new()
        } else {
            span(at.until(self.now).unwrap_or_default().as_secs())
        }
    }

    /// How long it is until then, for people.
    pub(super) fn until(self, at: &Wall) -> String {
        if self.live {
            return String::new();
        }
        match self.now.until(*at).map(|left| left.as_secs()) {
            None | Some(0) => "now".to_owned(),
            Some(left) => span(left),
        }
    }
}

/// Seconds, for people.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// How long something took, for people.
pub(super) fn took(from: &Wall, to: &Wall) -> String {
    span(from.until(*to).unwrap_or_default().as_secs())
}

/// A number with its thousands apart.
pub(super) fn grouped(number: &u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A phase, in words.
pub(super) const fn phase_label(phase: &Phase) -> &'static str {
    match phase {
        Phase::PreparingWorkspace => "preparing the workspace",
        Phase::BuildingPrompt => "building the prompt",
        Phase::LaunchingAgent => "launching the agent",
        Phase::InitializingSession => "greeting the agent",
        Phase::StreamingTurn => "at work",
        Phase::Finishing => "finishing",
        _ => "in another phase",
    }
}

/// All counts together, for people.
fn sum(counts: &BTreeMap<String, u64>) -> String {
    grouped(&counts.values().copied().fold(0, u64::saturating_add))
}

/// An identifier on a page.
pub(super) fn name_of(identifier: &str) -> String {
    plain(identifier, 100)
}

/// An identifier in a path.
pub(super) fn path_of(identifier: &str) -> String {
    let mut path = String::new();
    for byte in identifier.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// What a reader of long lists looks for; empty for everything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListQuery<'a> {
    pub(super) text: &'a str,
    /// Every candidate that is not running: a snapshot names the first of them.
    pub(super) candidates: Option<&'a Explanation>,
}

impl ListQuery<'_> {
    /// Whether one of these texts contains it.
    fn is_in(self, texts: &[&str]) -> bool {
        let wanted = self.text.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }

    fn is_about(self, issue: &Issue) -> bool {
        self.is_in(&[issue.identifier.as_str(), &issue.title, issue.state.as_str()])
    }

    /// Returns the first candidates that no other list shows, and how many there are besides.
    fn unstarted(self, snapshot: &Snapshot) -> (Vec<UnstartedStatus>, usize) {
        let candidates = &snapshot.candidates;
        let all = self.candidates.map_or(&candidates.first, |all| &all.unstarted);
        let rows = all.iter().filter(|row| !row.is_listed_elsewhere());
        let rows = rows.map(|row| UnstartedStatus::new(row, snapshot.now)).filter(|row| {
            self.is_in(&[&row.issue_identifier, &row.message, &row.title, &row.state])
        });
        let (rows, more) = first_rows(rows);
        let all: usize = candidates.unclaimed.values().sum();
        let more = if self.text.is_empty() { all.saturating_sub(rows.len()) } else { more };
        (rows, more)
    }
}

/// Each piece as HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    pub(super) alerts: String,
    pub(super) summary: String,
    pub(super) running: String,
    pub(super) retrying: String,
    pub(super) blocked: String,
    pub(super) candidates: String,
    pub(super) polling: String,
}

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts<'a> {
    summary: &'a Summary,
    overdue: Vec<String>,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "summary.html")]
struct Head<'a> {
    summary: &'a Summary,
    runs_failed: u64,
    bars: Vec<(usize, u64)>,
    per_minute: u64,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "running.html")]
struct Running {
    is_search: bool,
    rows: Vec<RunningStatus>,
    more: usize,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "retrying.html")]
struct Retrying {
    is_search: bool,
    rows: Vec<RetryStatus>,
    more: usize,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "blocked.html")]
struct Blocked {
    is_search: bool,
    rows: Vec<BlockedStatus>,
    more: usize,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "candidates.html")]
struct CandidatesPiece<'a> {
    is_search: bool,
    summary: &'a Summary,
    rows: Vec<UnstartedStatus>,
    more: usize,
    clock: PageClock,
}

#[derive(Template)]
#[template(path = "polling.html")]
struct PollingPiece<'a> {
    summary: &'a Summary,
    clock: PageClock,
}

impl Pieces {
    pub(super) fn render(
        snapshot: &Snapshot,
        chart: &RunsChart,
        clock: PageClock,
        query: ListQuery<'_>,
    ) -> Self {
        let is_search = !query.text.is_empty();
        let summary = Summary::from(snapshot);
        let overdue = snapshot.running.iter().filter(|row| row.stop_overdue);
        let (bars, per_minute) = chart.bars(snapshot.totals.tokens.total);
        let running = snapshot.running.iter().filter(|row| query.is_about(&row.issue));
        let (running, running_more) = first_rows(running.map(RunningStatus::from));
        let waiting = snapshot.waiting.iter().filter(|row| query.is_about(&row.issue));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by_key(|row| row.until);
        let why = obstacle(snapshot);
        let waiting = waiting.into_iter().map(|row| RetryStatus::new(row, snapshot.now, why));
        let (waiting, waiting_more) = first_rows(waiting);
        let blocked = snapshot.blocked.iter().filter(|row| query.is_about(&row.issue));
        let (blocked, blocked_more) = first_rows(blocked.map(BlockedStatus::from));
        let (unstarted, unstarted_more) = query.unstarted(snapshot);
        Self {
            alerts: html(&Alerts {
                summary: &summary,
                overdue: overdue.map(|row| name_of(row.issue.identifier.as_str())).collect(),
                clock,
            }),
            summary: html(&Head {
                summary: &summary,
                runs_failed: summary.codex_totals.runs_failed,
                bars,
                per_minute,
                clock,
            }),
            running: html(&Running { is_search, rows: running, more: running_more, clock }),
            retrying: html(&Retrying { is_search, rows: waiting, more: waiting_more, clock }),
            blocked: html(&Blocked { is_search, rows: blocked, more: blocked_more, clock }),
            candidates: html(&CandidatesPiece {
                is_search,
                summary: &summary,
                rows: unstarted,
                more: unstarted_more,
                clock,
            }),
            polling: html(&PollingPiece { summary: &summary, clock }),
        }
    }

    pub(super) fn all(&self) -> [(&'static str, &str); 7] {
        [
            ("alerts", &self.alerts),
            ("summary", &self.summary),
            ("running", &self.running),
            ("retrying", &self.retrying),
            ("blocked", &self.blocked),
            ("candidates", &self.candidates),
            ("polling", &self.polling),
        ]
    }
}

/// The first rows, and how many there are besides.
fn first_rows<T>(mut rows: impl Iterator<Item = T>) -> (Vec<T>, usize) {
    let first: Vec<T> = rows.by_ref().take(MAX_ROWS).collect();
    (first, rows.count())
}

fn html(piece: &impl Template) -> String {
    piece.render().unwrap_or_else(|error| {
        debug_assert!(false, "a piece cannot be made: {error}");
        String::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_for_people() {
        assert_eq!(span(59), "59 s");
        assert_eq!(span(61), "1 min 01 s");
        assert_eq!(span(3_660), "1 h 01 min");
        assert_eq!(span(90_000), "1 d 1 h");
        assert_eq!(grouped(&1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(&999), "999");
    }

    #[test]
    fn rule_13_3_an_identifier_in_a_path_is_percent_encoded() {
        assert_eq!(path_of("MT-1"), "MT-1");
        assert_eq!(path_of("../a b?#%é"), "%2E%2E%2Fa%20b%3F%23%25%C3%A9");
    }
}
