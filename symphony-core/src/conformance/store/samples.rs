//! Rows to keep: bare ones, full ones, and some with all that is hard to keep.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::agent::{
    AgentErrorKind, Question, QuestionItem, QuestionKind, QuestionOption, Tokens, Usage, UsdMicros,
};
use crate::budget::Spent;
use crate::failure::{Failure, FailureKind};
use crate::issue::{Blocker, Issue, Label, StateKind};
use crate::orchestrator::{Job, Outcome, TurnText};
use crate::run::RunId;
use crate::snapshot::Totals;
use crate::store::{
    AskedTurn, ClaimRow, ClaimStage, DueTime, HeldAgentRow, OperatorRow, PollRow, RunRow, Write,
};
use crate::time::Wall;
use crate::workspace::{HostId, Scope, WorkspaceKey};

/// Text that ends early, ends a statement, looks like an escape, or turns around what follows.
pub(super) const HOSTILE: &str = "a\0b'\"`; DROP TABLE claim; -- \\u0000 %s \r\n\t\u{1b}[2J \u{202e}\u{fffe}\u{10ffff} e\u{301} 🦀";

/// Scopes that are easily taken for one another.
pub(super) const SCOPES: [&str; 8] =
    ["linear:team", "Linear:team", "linear:team ", "linear:team\0x", "", "%", HOSTILE, "🦀"];

/// The scope that a trial is about.
pub(super) fn here() -> Scope {
    Scope::from(SCOPES[0])
}

/// Another scope.
pub(super) fn there() -> Scope {
    Scope::from(SCOPES[1])
}

pub(super) fn at(seconds: i64) -> Wall {
    Wall::from_unix_millis(seconds * 1000)
}

fn issue(id: &str) -> Issue {
    Issue {
        id: id.into(),
        identifier: id.into(),
        title: "Mend the gate".to_owned(),
        state: "Todo".into(),
        state_kind: None,
        priority: None,
        created_at: None,
        updated_at: None,
        dispatchable: true,
        kept_back_by: None,
        labels: Vec::new(),
        blocked_by: Vec::new(),
        description: None,
        branch_name: None,
        url: None,
        assignee_id: None,
        native_ref: None,
    }
}

/// The folder of an issue.
fn key(id: &str) -> WorkspaceKey {
    // Neither empty nor dots, so there is one.
    WorkspaceKey::derive(&format!("k{id}")).unwrap_or_else(|error| unreachable!("{error}"))
}

/// A claim with nothing optional.
pub(super) fn claim(scope: &Scope, id: &str) -> ClaimRow {
    ClaimRow {
        scope: scope.clone(),
        issue: issue(id),
        key: key(id),
        host: HostId::local(),
        stage: ClaimStage::Waiting,
        attempt: None,
        failure: None,
        unchanged_ends: 0,
        interruptions: 0,
        due: None,
        thread: None,
        agent: None,
        unanswered: false,
        asked: None,
        counted: BTreeMap::new(),
        question: None,
        since: None,
        seen: false,
    }
}

/// A claim with everything that a claim can have.
pub(super) fn full_claim(scope: &Scope, id: &str, text: &str) -> ClaimRow {
    let used = Usage { tokens: Some(tokens(u64::MAX)), cost: Some(UsdMicros(u64::MAX)) };
    let client_id = format!("7.1/2 {text}").into();
    let asked = AskedTurn { client_id, number: u32::MAX, text: TurnText::Continue };
    ClaimRow {
        scope: scope.clone(),
        issue: full_issue(id, text),
        key: key(id),
        host: HostId::from(text),
        stage: ClaimStage::Blocked,
        attempt: Some(u32::MAX),
        failure: Some(failure(text)),
        unchanged_ends: u32::MAX,
        interruptions: 2,
        due: Some(DueTime { at: Wall::from_unix_millis(i64::MAX), span_ms: u64::MAX }),
        thread: Some(text.into()),
        agent: Some(text.to_owned()),
        unanswered: true,
        asked: Some(asked),
        counted: [(text.into(), used), ("other".into(), Usage::default())].into(),
        question: Some(question(text)),
        since: Some(Wall::from_unix_millis(i64::MIN)),
        seen: true,
    }
}

fn full_issue(id: &str, text: &str) -> Issue {
    let blocker = Blocker {
        id: Some(text.into()),
        identifier: Some("MT-0".into()),
        state: Some("In Progress".into()),
        state_kind: Some(StateKind::Started),
    };
    Issue {
        id: id.into(),
        identifier: text.into(),
        title: text.to_owned(),
        state: " In PROGRESS ".into(),
        state_kind: Some(StateKind::Cancelled),
        priority: Some(i64::MIN),
        created_at: Some(Wall::from_unix_millis(-1)),
        updated_at: Some(Wall::from_unix_millis(i64::MAX)),
        dispatchable: false,
        kept_back_by: Some(text.to_owned()),
        labels: Label::list(["bug", text]),
        blocked_by: vec![blocker, Blocker::default()],
        description: Some(text.to_owned()),
        branch_name: Some(text.to_owned()),
        url: Some(String::new()),
        assignee_id: Some(text.to_owned()),
        native_ref: Some(native_ref(text)),
    }
}

/// What JSON can hold, with numbers that are rounded where they are read carelessly.
fn native_ref(text: &str) -> Map<String, Value> {
    let value = json!({
        "null": null,
        "numbers": [u64::MAX, i64::MIN, -0.0, 0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 2.638_344_616_030_823e-256],
        "nested": {"": {"list": [[], {}, null, false]}},
        text: text,
    });
    value.as_object().cloned().unwrap_or_default()
}

fn tokens(most: u64) -> Tokens {
    Tokens { input: most, cached_input: 1, output: 0, reasoning_output: most - 1, total: most }
}

fn failure(text: &str) -> Failure {
    Failure::new(FailureKind::Agent(AgentErrorKind::UsageLimit), text)
        .with_retry_after(Some(Duration::new(u64::MAX, 999_999_999)))
}

fn question(text: &str) -> Question {
    let options = [QuestionOption::new(text, Some(text.to_owned())), QuestionOption::from("")];
    let mut item = QuestionItem::new(text, text).with_options(options);
    (item.accepts_other, item.is_secret) = (true, true);
    Question::new(text, QuestionKind::Choice, vec![item, QuestionItem::new("", "")])
}

/// A run of one second, with nothing optional but its end.
pub(super) fn run(boot: u64, number: u64, began: Wall) -> RunRow {
    RunRow {
        run: RunId { boot, number },
        scope: here(),
        issue: "id-1".into(),
        identifier: "MT-1".into(),
        title: String::new(),
        state: None,
        attempt: None,
        agent: "codex".to_owned(),
        host: HostId::local(),
        began,
        ended: Some(began + Duration::from_secs(1)),
        outcome: None,
        failure: None,
        turns: 0,
        model: None,
        effort: None,
        thread: None,
        tokens: Tokens::default(),
        cost: None,
    }
}

/// A run with everything that a run can have.
pub(super) fn full_run(scope: &Scope, run: RunId, text: &str) -> RunRow {
    RunRow {
        run,
        scope: scope.clone(),
        issue: text.into(),
        identifier: text.into(),
        title: text.to_owned(),
        state: Some(" In PROGRESS ".into()),
        attempt: Some(u32::MAX),
        agent: text.to_owned(),
        host: HostId::from(text),
        began: Wall::from_unix_millis(-1),
        ended: Some(Wall::from_unix_millis(i64::MAX)),
        outcome: Some(Outcome::OutOfTurns),
        failure: Some(failure(text)),
        turns: u32::MAX,
        model: Some(text.to_owned()),
        effort: Some(text.to_owned()),
        thread: Some(text.into()),
        tokens: tokens(u64::MAX),
        cost: Some(UsdMicros(u64::MAX)),
    }
}

/// The last reads of a scope.
pub(super) fn polls(scope: &Scope, text: &str) -> PollRow {
    let spent = Spent { day: i64::MIN, requests: [(text.to_owned(), u64::MAX)].into() };
    let jobs = [Job::Candidates, Job::Refresh, Job::Sweep, Job::Custom(text.into())];
    PollRow {
        scope: scope.clone(),
        last_runs: jobs.into_iter().map(|job| (job, Wall::from_unix_millis(i64::MIN))).collect(),
        spent,
    }
}

/// Sums that are all as great as can be.
pub(super) fn totals() -> Totals {
    Totals {
        tokens: tokens(u64::MAX),
        cost: Some(UsdMicros(u64::MAX)),
        runtime: Duration::MAX,
        started: u64::MAX,
        done: 1,
        succeeded: 2,
        out_of_turns: 3,
        failed: 4,
        cancelled: 5,
        input_required: 6,
        interrupted: u64::MAX,
    }
}

/// A kind of agent to which starts are held.
pub(super) fn hold(agent: &str) -> HeldAgentRow {
    let due = DueTime { at: Wall::from_unix_millis(i64::MIN), span_ms: u64::MAX };
    HeldAgentRow { agent: agent.to_owned(), due, failure: failure(agent) }
}

/// Every kind of row, full, with this text wherever there is one.
pub(super) fn one_of_each(scope: &Scope, text: &str) -> Vec<Write> {
    let open = RunRow { ended: None, ..full_run(scope, RunId { boot: 1, number: 1 }, text) };
    vec![
        Write::Operator(OperatorRow { paused: true, ..OperatorRow::default() }),
        Write::Polls(polls(scope, text)),
        Write::Totals(totals()),
        Write::Claim(Box::new(full_claim(scope, text, text))),
        Write::Claim(Box::new(claim(scope, "bare"))),
        Write::Run(Box::new(open)),
        Write::Hold(hold(text)),
    ]
}
