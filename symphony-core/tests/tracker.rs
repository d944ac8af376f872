//! The seam between the scheduler and a tracker (contract 11.1, 11.2).

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use mockall::mock;
use mockall::predicate::eq;
use symphony_core::agent::{AgentError, AgentErrorKind};
use symphony_core::hooks::{Hook, HookError};
use symphony_core::time::Wall;
use symphony_core::tracker::{
    CandidateQuery, Candidates, IssuesById, Poll, Purpose, ReadIssues, Tracker, TrackerError,
    TrackerErrorKind, TwoReads,
};
use symphony_core::{Failure, FailureKind, Issue, IssueId, StateSet};

mock! {
    #[derive(Debug)]
    Board {}

    #[async_trait]
    impl ReadIssues for Board {
        async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError>;
        async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError>;
    }
}

fn issue(id: &str) -> Issue {
    Issue::new(id, id, "Mend the gate", "Todo").expect("complete")
}

fn todo() -> StateSet {
    StateSet::new(["Todo"])
}

fn query(states: StateSet) -> Option<CandidateQuery> {
    Some(CandidateQuery { states, enough: 5 })
}

fn found(id: &str) -> IssuesById {
    IssuesById::new(vec![issue(id)], Vec::new())
}

#[tokio::test]
async fn rule_11_1_a_poll_of_both_makes_each_read_once_and_keeps_the_results_apart() {
    let mut board = MockBoard::new();
    board
        .expect_by_states()
        .with(eq(todo()))
        .times(1)
        .returning(|_| Ok(vec![issue("a"), issue("b")]));
    board
        .expect_by_ids()
        .withf(|ids| ids == ["b".into(), "c".into()])
        .times(1)
        .returning(|_| Ok(found("b")));
    let poll = Poll {
        purpose: Purpose::Candidates,
        candidates: query(todo()),
        ids: vec!["b".into(), "c".into()],
    };
    let polled = TwoReads(board).poll(&poll).await;
    let expected = Candidates::new(vec![issue("a"), issue("b")], false);
    assert_eq!(polled.candidates.unwrap().unwrap(), expected);
    assert_eq!(polled.by_id.unwrap(), found("b"));
    assert_eq!((polled.requests, polled.next_poll, polled.budget), (2, None, None));
}

#[tokio::test]
async fn rule_11_1_a_poll_without_candidates_does_not_read_them() {
    let mut board = MockBoard::new();
    board.expect_by_states().never();
    board.expect_by_ids().times(1).returning(|_| Ok(found("a")));
    let poll = Poll { purpose: Purpose::Refresh, candidates: None, ids: vec!["a".into()] };
    let polled = TwoReads(board).poll(&poll).await;
    assert!(polled.candidates.is_none());
    assert_eq!((polled.by_id.unwrap(), polled.requests), (found("a"), 1));
}

#[tokio::test]
async fn rule_11_1_a_poll_counts_no_request_for_what_is_empty() {
    let mut board = MockBoard::new();
    board.expect_by_states().times(1).returning(|_| Ok(Vec::new()));
    board.expect_by_ids().never();
    let board = TwoReads(board);
    let none = StateSet::default();
    for (candidates, requests) in [(None, 0), (query(none), 0), (query(todo()), 1)] {
        let ids = Vec::new();
        let polled = board.poll(&Poll { purpose: Purpose::Candidates, candidates, ids }).await;
        assert_eq!(polled.requests, requests);
    }
}

#[tokio::test]
async fn rule_11_1_a_failure_of_one_part_leaves_the_other() {
    let mut board = MockBoard::new();
    let refused = |_: &StateSet| Err(TrackerError::new(TrackerErrorKind::RateLimited, "wait"));
    board.expect_by_states().returning(refused);
    board.expect_by_ids().returning(|_| Ok(found("a")));
    let poll =
        Poll { purpose: Purpose::Candidates, candidates: query(todo()), ids: vec!["a".into()] };
    let polled = TwoReads(board).poll(&poll).await;
    let error = polled.candidates.unwrap().unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::RateLimited);
    assert_eq!(polled.by_id.unwrap(), found("a"));
}

/// A cause with a cause.
#[derive(Debug)]
struct Layer(&'static str, Option<Box<Layer>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|layer| layer as &dyn Error)
    }
}

fn cause() -> Layer {
    Layer("connection reset", Some(Box::new(Layer("broken pipe", None))))
}

#[test]
fn rule_11_2_an_error_becomes_one_line_with_its_causes_and_a_span_to_wait() {
    let now = Wall::from_unix_millis(60_000);
    let kind = TrackerErrorKind::Request;
    let error = TrackerError::new(kind, "issues could not be read")
        .with_source(cause())
        .with_retry_at(Some(Wall::from_unix_millis(75_000)));
    assert_eq!(error.to_string(), "issues could not be read", "its own layer only");
    let line = "issues could not be read: connection reset: broken pipe";
    let expected = Failure::new(FailureKind::Tracker(kind), line);
    let expected = expected.with_retry_after(Some(Duration::from_secs(15)));
    assert_eq!(error.to_failure(now), expected);
    assert_eq!(expected.to_string(), format!("tracker_request: {line}"));
}

#[test]
fn rule_11_2_a_retry_time_in_the_past_is_ignored() {
    let now = Wall::from_unix_millis(60_000);
    let failure = |at| {
        let error = TrackerError::new(TrackerErrorKind::RateLimited, "wait");
        error.with_retry_at(at).to_failure(now).retry_after
    };
    assert_eq!(failure(None), None);
    assert_eq!(failure(Some(Wall::from_unix_millis(59_999))), None);
    assert_eq!(failure(Some(now)), Some(Duration::ZERO));
}

#[test]
fn rule_11_2_the_categories_have_the_names_of_the_contract() {
    let names = [
        (TrackerErrorKind::InvalidConfig, "invalid_tracker_config"),
        (TrackerErrorKind::MissingSecret, "missing_tracker_secret"),
        (TrackerErrorKind::Request, "tracker_request"),
        (TrackerErrorKind::Status, "tracker_status"),
        (TrackerErrorKind::Response, "tracker_response"),
        (TrackerErrorKind::Pagination, "tracker_pagination"),
        (TrackerErrorKind::RateLimited, "tracker_rate_limited"),
    ];
    for (kind, name) in names {
        assert_eq!(FailureKind::Tracker(kind).as_str(), name);
    }
}

#[test]
fn rule_10_10_an_agents_error_becomes_one_line_with_its_causes_and_a_span_to_wait() {
    let now = Wall::from_unix_millis(60_000);
    let kind = AgentErrorKind::UsageLimit;
    let error = AgentError::new(kind, "the turn failed")
        .with_source(cause())
        .with_retry_at(Some(Wall::from_unix_millis(61_000)));
    let line = "the turn failed: connection reset: broken pipe";
    let expected = Failure::new(FailureKind::Agent(kind), line);
    let expected = expected.with_retry_after(Some(Duration::from_secs(1)));
    assert_eq!(error.to_failure(now), expected);
    assert!(expected.kind.is_limit());
}

#[test]
fn rule_10_10_the_kinds_have_the_names_of_the_contract() {
    let names = [
        (AgentErrorKind::NotFound, "agent_not_found"),
        (AgentErrorKind::CodexNotFound, "codex_not_found"),
        (AgentErrorKind::InvalidConfig, "invalid_agent_config"),
        (AgentErrorKind::InvalidWorkspace, "invalid_workspace_cwd"),
        (AgentErrorKind::ResponseTimeout, "response_timeout"),
        (AgentErrorKind::TurnTimeout, "turn_timeout"),
        (AgentErrorKind::ProcessExit, "process_exit"),
        (AgentErrorKind::ResponseError, "response_error"),
        (AgentErrorKind::TurnFailed, "turn_failed"),
        (AgentErrorKind::TurnCancelled, "turn_cancelled"),
        (AgentErrorKind::TurnInputRequired, "turn_input_required"),
    ];
    for (kind, name) in names {
        let failure = FailureKind::Agent(kind);
        assert_eq!((failure.as_str(), failure.is_limit()), (name, false));
    }
}

#[test]
fn rule_9_4_a_hooks_failure_says_which_hook_and_how() {
    let hook = Hook::BeforeRun;
    let output = "no such file".to_owned();
    let status = "exit status 2".to_owned();
    let failed = HookError::Failed { hook, status, output };
    let kind = FailureKind::Hook(hook);
    let expected = Failure::new(kind, "before_run ended with exit status 2");
    assert_eq!(Failure::from(&failed), expected);
    let timed_out = HookError::TimedOut { hook, millis: 60_000, output: String::new() };
    let expected = Failure::new(
        kind,
        "before_run did not end within 60000 ms; nothing was heard from it, not even on stderr: it or its login profile may hang",
    );
    assert_eq!(Failure::from(&timed_out), expected);
}
