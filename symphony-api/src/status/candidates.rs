//! Candidates that were not started, and why.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use symphony_core::plain_start;
use symphony_core::snapshot::{CandidatesView, Explanation, Reason, Snapshot, Unstarted, Verdict};
use symphony_core::time::{Now, Wall};

use super::{IssueStage, IssueStatus, MAX_TEXT_BYTES, MAX_TITLE_BYTES, at};
use crate::when;

/// The last list of candidates, judged as of now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CandidatesStatus {
    /// When the list was read; absent before the first.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub read_at: Option<Wall>,
    /// How many it holds.
    pub total: usize,
    /// Whether the tracker had more.
    pub more: bool,
    /// How many are not started, by reason.
    pub reasons: BTreeMap<String, usize>,
    /// How many of those are in no other list, by reason.
    #[serde(default)]
    pub unclaimed: BTreeMap<String, usize>,
    /// The first of those, in the order in which they would start; what another list shows comes
    /// last.
    pub first: Vec<UnstartedStatus>,
}

impl CandidatesStatus {
    pub(super) fn new(view: &CandidatesView, now: Now) -> Self {
        Self {
            read_at: view.read_at.map(|read| at(now, read)),
            total: view.total,
            more: view.more,
            reasons: view.reasons.clone(),
            unclaimed: view.unclaimed.clone(),
            first: view.first.iter().map(|row| UnstartedStatus::new(row, now)).collect(),
        }
    }
}

/// A candidate that is not running, with its one reason (contract 5.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UnstartedStatus {
    /// The tracker's id.
    pub issue_id: String,
    /// The human key.
    pub issue_identifier: String,
    /// What the issue is about.
    #[serde(default)]
    pub title: String,
    /// The state of the issue.
    #[serde(default)]
    pub state: String,
    /// Whether another list has the issue, or its work is over: then it is not waiting to start.
    #[serde(default)]
    pub is_listed_elsewhere: bool,
    /// The reason in one word.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// When it ends, where that is known.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub until: Option<Wall>,
}

impl UnstartedStatus {
    /// Shows a row at this time.
    #[must_use]
    pub fn new(row: &Unstarted, now: Now) -> Self {
        let until = match &row.reason {
            Reason::WaitingUntil(until) | Reason::Hold(until) => Some(at(now, *until)),
            _ => None,
        };
        Self {
            issue_id: row.id.as_str().to_owned(),
            issue_identifier: row.identifier.as_str().to_owned(),
            title: plain_start(&row.title, MAX_TITLE_BYTES),
            state: plain_start(row.state.as_str(), MAX_TITLE_BYTES),
            is_listed_elsewhere: row.is_listed_elsewhere(),
            reason: row.reason.as_str().to_owned(),
            message: plain_start(&row.reason.to_string(), MAX_TEXT_BYTES),
            until,
        }
    }
}

/// Why nothing starts, or that something does: one answer for the whole service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct VerdictStatus {
    /// In one word.
    pub code: String,
    /// For people.
    pub message: String,
}

impl VerdictStatus {
    pub(super) fn new(verdict: &Verdict, issues: &Standing, now: Now) -> Self {
        let message = match verdict {
            Verdict::NothingEligible => issues.to_string(),
            Verdict::Full => format!("{verdict}: {issues}"),
            Verdict::Held(hold) => {
                let until = at(now, hold.until);
                format!("the agent {} refuses until {until}: {}", hold.agent, hold.failure)
            }
            other => other.to_string(),
        };
        Self { code: verdict.as_str().to_owned(), message: plain_start(&message, MAX_TEXT_BYTES) }
    }
}

/// Where the issues of a service stand, as the headline of a service at which nothing is wrong.
#[derive(Debug)]
pub(super) struct Standing {
    running: usize,
    waiting: usize,
    needs_person: usize,
    unclaimed: BTreeMap<String, usize>,
}

impl From<&Snapshot> for Standing {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            running: snapshot.running.len(),
            waiting: snapshot.waiting.len(),
            needs_person: snapshot.blocked.len(),
            unclaimed: snapshot.candidates.unclaimed.clone(),
        }
    }
}

impl Standing {
    /// Counts the candidates; one that runs has no reason, and is not among them.
    fn of_candidates(explanation: &Explanation, running: usize) -> Self {
        let mut standing =
            Self { running, waiting: 0, needs_person: 0, unclaimed: BTreeMap::new() };
        for row in explanation.unstarted.iter().filter(|row| !row.reason.is_over()) {
            match (&row.reason, row.is_claimed) {
                (Reason::NeedsPerson(_), _) => standing.needs_person += 1,
                (Reason::Claimed, _) => {}
                (_, true) => standing.waiting += 1,
                (reason, false) => {
                    *standing.unclaimed.entry(reason.as_str().to_owned()).or_default() += 1;
                }
            }
        }
        standing
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claimed = [
            (self.running, ["runs", "run"]),
            (self.waiting, ["waits", "wait"]),
            (self.needs_person, ["needs a person", "need a person"]),
        ];
        let claimed = claimed.into_iter().filter(|(number, _)| *number > 0);
        let claimed =
            claimed.map(|(n, [one, many])| format!("{n} {}", if n == 1 { one } else { many }));
        let unclaimed =
            self.unclaimed.iter().map(|(reason, n)| format!("{n} {}", reason_in_words(reason)));
        let parts: Vec<String> = claimed.chain(unclaimed).collect();
        if parts.is_empty() {
            return f.write_str("nothing is left to start");
        }
        f.write_str(&parts.join(", "))
    }
}

/// Returns the name of a [`Reason`] in words that follow a number.
#[must_use]
pub fn reason_in_words(reason: &str) -> String {
    match reason {
        "blocked_by" => "blocked by others".to_owned(),
        "missing_label" => "without a required label".to_owned(),
        "no_slot" | "state_slot" | "host_slot" => "without a free slot".to_owned(),
        "next_read" => "about to start".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The whole answer to "why does it do nothing?": what `GET /api/v1/explain` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ExplanationStatus {
    /// In one sentence.
    pub verdict: VerdictStatus,
    /// When the list of candidates was read.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub read_at: Option<Wall>,
    /// Every candidate that is not running, in the order in which they would start.
    pub unstarted: Vec<UnstartedStatus>,
}

impl ExplanationStatus {
    /// Shows an explanation that was given at this time, while so many agents ran.
    #[must_use]
    pub fn new(explanation: &Explanation, running: usize, now: Now) -> Self {
        let unstarted = explanation.unstarted.iter();
        let issues = Standing::of_candidates(explanation, running);
        Self {
            verdict: VerdictStatus::new(&explanation.verdict, &issues, now),
            read_at: explanation.read_at.map(|read| at(now, read)),
            unstarted: unstarted.map(|row| UnstartedStatus::new(row, now)).collect(),
        }
    }
}

/// Why one issue is not running, or that it is: what `GET /api/v1/explain/<identifier>` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct IssueExplanation {
    /// The human key.
    pub issue_identifier: String,
    /// Where it stands.
    pub status: IssueStage,
    /// In one sentence.
    pub message: String,
    /// Its one reason, if it is a candidate that is not running.
    pub unstarted: Option<UnstartedStatus>,
}

impl IssueExplanation {
    /// Explains an issue by its reason as a candidate, or else by where it stands.
    #[must_use]
    pub fn new(issue: &IssueStatus, unstarted: Option<UnstartedStatus>) -> Self {
        let message = match &unstarted {
            // What it waits after is known here, and is not in the list of candidates.
            Some(row) if issue.status != IssueStage::Retrying || row.reason != "waiting_until" => {
                row.message.clone()
            }
            _ => standing(issue),
        };
        let issue_identifier = issue.issue_identifier.clone();
        Self { issue_identifier, status: issue.status, message, unstarted }
    }
}

fn standing(issue: &IssueStatus) -> String {
    let error = || issue.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    match issue.status {
        IssueStage::Running => "an agent works on it".to_owned(),
        IssueStage::Retrying => format!("waits for its next attempt{}", error()),
        IssueStage::Blocked => match issue.blocked.as_ref().and_then(|row| row.question.as_ref()) {
            Some(question) => format!("asks: {question}"),
            None => "stopped by an operator".to_owned(),
        },
        IssueStage::Checking => "is being read before it starts".to_owned(),
        IssueStage::Cleaning => "its workspace is being removed".to_owned(),
        IssueStage::Candidate => "has not been started".to_owned(),
        IssueStage::Released => "is not a candidate any more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::time::Mono;

    use super::*;

    #[test]
    fn rule_5_5_the_headline_counts_where_the_issues_stand() {
        let unclaimed = [("blocked_by", 3), ("not_dispatchable", 1)];
        let unclaimed = unclaimed.map(|(reason, number)| (reason.to_owned(), number));
        let standing =
            Standing { running: 2, waiting: 1, needs_person: 1, unclaimed: unclaimed.into() };
        let text = "2 run, 1 waits, 1 needs a person, 3 blocked by others, 1 not dispatchable";
        assert_eq!(standing.to_string(), text);
        let now = Now { mono: Mono::from_millis(0), wall: Wall::from_unix_millis(0) };
        let full = VerdictStatus::new(&Verdict::Full, &standing, now);
        assert_eq!(full.message, format!("every slot is taken: {text}"));
        let none = Standing { running: 0, waiting: 0, needs_person: 0, unclaimed: BTreeMap::new() };
        assert_eq!(none.to_string(), "nothing is left to start", "each is over");
    }
}
