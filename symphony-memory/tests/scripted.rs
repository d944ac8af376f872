//! The scripted agent: what it does, what it says, and what it leaves in the journal.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentErrorKind, AgentEvent, AgentFactory, AgentSession, AgentUpdate,
    Question, RateLimits, SessionRequest, SteerNote, ThreadId, Tokens, Turn, TurnEnd, Updates,
};
use symphony_core::run::RunId;
use symphony_core::time::Wall;
use symphony_core::tracker::{ToolResult, Tracker};
use symphony_core::{Issue, Label, Settings, StateSet};
use symphony_memory::{
    AgentScript, BoardClock, Did, Gate, JournalEntry, MemoryTracker, ScriptStep, ScriptedAgent,
    ScriptedFactory,
};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

/// A workspace, and what the agent said.
struct Harness {
    workspace: TempDir,
    said: Arc<Mutex<Vec<AgentUpdate>>>,
}

impl Harness {
    fn new() -> Self {
        Self { workspace: TempDir::new().unwrap(), said: Arc::default() }
    }

    fn request(&self, issue: Issue) -> SessionRequest {
        let states = StateSet::new(["Todo"]);
        let settings = Settings::new("memory", states.clone(), states, "/work".into());
        let said = Arc::clone(&self.said);
        SessionRequest::new(
            RunId { boot: 1, number: 1 },
            Arc::new(issue),
            self.workspace.path().to_owned(),
            Arc::new(settings),
            Updates::new(move |update| said.lock().unwrap().push(update)),
        )
    }

    async fn open(&self, agent: &ScriptedAgent) -> Box<dyn AgentSession> {
        agent.open(self.request(issue())).await.unwrap()
    }

    fn said(&self) -> Vec<AgentUpdate> {
        std::mem::take(&mut *self.said.lock().unwrap())
    }

    fn file(&self, path: &str) -> String {
        fs::read_to_string(self.workspace.path().join(path)).unwrap()
    }
}

fn issue() -> Issue {
    Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap()
}

fn turn(number: u32) -> Turn {
    Turn::new(RunId { boot: 1, number: 1 }, number, format!("prompt {number}"))
}

fn noon() -> Wall {
    Wall::from_unix_millis(1_772_000_000_000)
}

/// An agent that always follows this script, at noon.
fn agent(script: AgentScript) -> ScriptedAgent {
    ScriptedAgent::with_clock(BoardClock::new(noon), move |_| script.clone())
}

fn event(name: &str, summary: &str) -> AgentUpdate {
    let (name, summary) = (name.to_owned(), summary.to_owned());
    AgentUpdate::Event(Arc::new(AgentEvent { name, summary, at: noon() }))
}

fn kind(error: AgentError) -> (AgentErrorKind, String) {
    (error.kind, error.message)
}

#[tokio::test(start_paused = true)]
async fn rule_10_1_a_session_follows_its_script_turn_by_turn() {
    let harness = Harness::new();
    let script = AgentScript::new()
        .say("looking")
        .wait(Duration::from_secs(3))
        .write("notes/a.md", "one\n")
        .next_turn()
        .event("other_message", "thinking")
        .append("notes/a.md", "two\n");
    let agent = agent(script);
    let began = Instant::now();
    let mut session = harness.open(&agent).await;
    assert_eq!(agent.live_agents(), 1);
    assert_eq!(session.run_turn(turn(1)).await.unwrap(), TurnEnd::Completed);
    let id = |session_id: &str| AgentUpdate::Session {
        thread: ThreadId::from("MT-1-1"),
        session_id: session_id.into(),
        pid: None,
    };
    let completed = || event("turn_completed", "the turn is complete");
    let first = [
        id("MT-1-1-1"),
        event("session_started", "scripted session 1"),
        event("notification", "looking"),
        completed(),
    ];
    assert_eq!(harness.said(), first);
    assert_eq!(session.run_turn(turn(2)).await.unwrap(), TurnEnd::Completed);
    let second = [id("MT-1-1-2"), event("other_message", "thinking"), completed()];
    assert_eq!(harness.said(), second);
    assert_eq!(session.run_turn(turn(3)).await.unwrap(), TurnEnd::Completed);
    assert_eq!(harness.said(), [id("MT-1-1-3"), completed()], "the script has run out");
    session.close().await.unwrap();
    assert_eq!(harness.file("notes/a.md"), "one\ntwo\n");
    assert_eq!(began.elapsed(), Duration::from_secs(3), "virtual time: only the wait took any");

    let started = |number| Did::Turn { number, prompt: format!("prompt {number}") };
    let through = || Did::EndTurn(Ok(TurnEnd::Completed));
    let expected = [
        Did::Begin { workspace: harness.workspace.path().to_owned(), resume: None },
        Did::Open,
        started(1),
        Did::Write(PathBuf::from("notes/a.md")),
        through(),
        started(2),
        Did::Write(PathBuf::from("notes/a.md")),
        through(),
        started(3),
        through(),
        Did::Close,
    ];
    let journal = agent.journal();
    assert_eq!(journal.for_issue("MT-1"), expected);
    assert_eq!(
        journal.entries()[1],
        JournalEntry { issue: "MT-1".into(), session: 1, did: Did::Open }
    );
    assert_eq!((journal.opened(), journal.closed(), journal.live_agents()), (1, 1, 0));
    assert_eq!((journal.most_live(), journal.most_live_in_one_workspace()), (1, 1));
}

#[tokio::test]
async fn rule_10_5_turns_fail_in_every_way() {
    let retry_at = Some(Wall::from_unix_millis(5));
    let limit = ScriptStep::Fail {
        kind: AgentErrorKind::UsageLimit,
        message: "used up".to_owned(),
        retry_at,
    };
    for (script, expected, name) in [
        (
            AgentScript::new().fail(AgentErrorKind::TurnFailed, "no"),
            (AgentErrorKind::TurnFailed, None),
            "turn_failed",
        ),
        (
            AgentScript::new().fail(AgentErrorKind::TurnCancelled, "stopped"),
            (AgentErrorKind::TurnCancelled, None),
            "turn_cancelled",
        ),
        (
            AgentScript::new().then(limit),
            (AgentErrorKind::UsageLimit, retry_at),
            "turn_ended_with_error",
        ),
        (
            AgentScript::new().exit("137"),
            (AgentErrorKind::ProcessExit, None),
            "turn_ended_with_error",
        ),
    ] {
        let harness = Harness::new();
        let agent = agent(script);
        let mut session = harness.open(&agent).await;
        let error = session.run_turn(turn(1)).await.unwrap_err();
        assert_eq!((error.kind, error.retry_at), expected);
        assert_eq!(harness.said().last(), Some(&event(name, &error.message)));
        session.close().await.unwrap();
        assert_eq!(agent.live_agents(), 0);
        let ended = Did::EndTurn(Err(expected.0));
        assert_eq!(agent.journal().count(|did| *did == ended), 1);
    }
}

#[tokio::test]
async fn rule_10_5_a_process_that_has_ended_runs_no_more_turns() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().exit("killed by signal 9").next_turn().say("never"));
    let mut session = harness.open(&agent).await;
    for number in [1, 2] {
        let error = session.run_turn(turn(number)).await.unwrap_err();
        let expected = (AgentErrorKind::ProcessExit, "killed by signal 9".to_owned());
        assert_eq!(kind(error), expected);
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn rule_10_11_a_note_in_a_live_turn_is_written_down() {
    let harness = Harness::new();
    let gate = Gate::new();
    let agent = agent(AgentScript::new().wait_for(&gate));
    let mut session = harness.open(&agent).await;
    let steering = session.steering().unwrap();
    let tell = async {
        agent.wait_until(|journal| journal.count(|did| matches!(did, Did::Turn { .. })) == 1).await;
        steering.steer(SteerNote::new("note-1", "Mind the paint.")).await.unwrap();
        gate.open();
    };
    let (end, ()) = tokio::join!(session.run_turn(turn(1)), tell);
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert!(agent.journal().for_issue("MT-1").contains(&Did::Note("Mind the paint.".to_owned())));
    session.close().await.unwrap();
}

#[tokio::test]
async fn rule_10_6_a_question_ends_the_turn() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().ask("red or blue?").say("never"));
    let mut session = harness.open(&agent).await;
    let asked = TurnEnd::InputRequired { question: Question::text("1.1-1", "red or blue?") };
    assert_eq!(session.run_turn(turn(1)).await.unwrap(), asked);
    assert_eq!(harness.said().last(), Some(&event("turn_input_required", "red or blue?")));
}

#[tokio::test]
async fn rule_10_7_a_tool_is_called_for_the_sessions_own_issue() {
    let harness = Harness::new();
    let board = MemoryTracker::new();
    board.add(issue());
    let agent =
        agent(AgentScript::new().set_state("Done").set_state("Doen").call("dance", json!({})));
    let mut request = harness.request(issue());
    request.tools = board.tools();
    let mut session = agent.open(request).await.unwrap();
    assert_eq!(session.run_turn(turn(1)).await.unwrap(), TurnEnd::Completed);
    assert_eq!(board.issue("1").unwrap().state, "done".into());
    let expected = [
        AgentUpdate::ToolBegan,
        AgentUpdate::ToolEnded { changed_issue: true },
        event("notification", "update_issue: done"),
        AgentUpdate::ToolBegan,
        AgentUpdate::ToolEnded { changed_issue: false },
        event("notification", "update_issue: refused"),
        AgentUpdate::ToolBegan,
        AgentUpdate::ToolEnded { changed_issue: false },
        event("notification", "dance: refused"),
    ];
    assert_eq!(harness.said()[2..11], expected);
    let called = agent.journal().for_issue("MT-1").into_iter().filter_map(|did| match did {
        Did::Call { tool, result, .. } => Some((tool, result.success)),
        _ => None,
    });
    let outcomes: Vec<_> = called.collect();
    let expected = [("update_issue", true), ("update_issue", false), ("dance", false)];
    assert_eq!(outcomes, expected.map(|(tool, success)| (tool.to_owned(), success)));
}

#[tokio::test]
async fn rule_10_7_without_tools_a_call_is_refused_and_the_session_goes_on() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().set_state("Done"));
    let mut session = harness.open(&agent).await;
    assert_eq!(session.run_turn(turn(1)).await.unwrap(), TurnEnd::Completed);
    let refused = Did::Call {
        tool: "update_issue".to_owned(),
        arguments: json!({ "state": "Done" }),
        result: ToolResult::failure("there are no tools"),
    };
    assert_eq!(agent.journal().count(|did| *did == refused), 1);
}

#[tokio::test]
async fn rule_10_8_tokens_are_totals_and_a_resumed_conversation_goes_on() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().spend(10, 5).spend(1, 1));
    let mut session = harness.open(&agent).await;
    session.run_turn(turn(1)).await.unwrap();
    session.close().await.unwrap();
    let totals = |said: Vec<AgentUpdate>| -> Vec<(String, u64, u64, u64)> {
        let total = |update| match update {
            AgentUpdate::Usage { thread, total } => {
                let Tokens { input, output, total, .. } = total.tokens.unwrap();
                Some((thread.to_string(), input, output, total))
            }
            _ => None,
        };
        said.into_iter().filter_map(total).collect()
    };
    let row = |thread: &str, input, output| (thread.to_owned(), input, output, input + output);
    assert_eq!(totals(harness.said()), [row("MT-1-1", 10, 5), row("MT-1-1", 11, 6)]);

    let mut request = harness.request(issue());
    request.resume = Some(ThreadId::from("MT-1-1"));
    let mut session = agent.open(request).await.unwrap();
    session.run_turn(turn(1)).await.unwrap();
    assert_eq!(totals(harness.said()), [row("MT-1-1", 21, 11), row("MT-1-1", 22, 12)]);
    session.close().await.unwrap();

    let mut session = harness.open(&agent).await;
    session.run_turn(turn(1)).await.unwrap();
    assert_eq!(totals(harness.said()), [row("MT-1-3", 10, 5), row("MT-1-3", 11, 6)]);
}

#[tokio::test]
async fn limits_and_signs_of_life_are_passed_on() {
    let harness = Harness::new();
    let limits = RateLimits { plan: Some("pro".to_owned()), ..RateLimits::default() };
    let agent = agent(
        AgentScript::new().then(ScriptStep::Alive).then(ScriptStep::RateLimits(limits.clone())),
    );
    let mut session = harness.open(&agent).await;
    session.run_turn(turn(1)).await.unwrap();
    let expected = [AgentUpdate::Alive, AgentUpdate::RateLimits(Arc::new(limits))];
    assert_eq!(harness.said()[2..4], expected);
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_a_turn_that_never_ends_may_be_dropped_and_is_closed() {
    for (script, alive) in [(AgentScript::new().stall(), 0), (AgentScript::new().hang(), 11)] {
        let harness = Harness::new();
        let agent = agent(script);
        let mut session = harness.open(&agent).await;
        let ten = Duration::from_millis(10_500);
        assert!(timeout(ten, session.run_turn(turn(1))).await.is_err());
        let said = harness.said();
        assert_eq!(said.iter().filter(|update| **update == AgentUpdate::Alive).count(), alive);
        assert_eq!(agent.live_agents(), 1, "until it is closed");
        session.close().await.unwrap();
        assert_eq!(agent.live_agents(), 0);
        let journal = agent.journal().for_issue("MT-1");
        assert_eq!(journal[journal.len() - 2..], [Did::DropTurn, Did::Close]);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_a_dropped_opening_leaves_no_agent() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().on_open(ScriptStep::Stall));
    let second = Duration::from_secs(1);
    assert!(timeout(second, agent.open(harness.request(issue()))).await.is_err());
    assert_eq!(agent.live_agents(), 0);
    assert_eq!(agent.journal().for_issue("MT-1").last(), Some(&Did::DropOpening));
}

#[tokio::test]
async fn a_session_that_cannot_open_leaves_no_agent() {
    let harness = Harness::new();
    let (kind, message) = (AgentErrorKind::NotFound, "no such command".to_owned());
    let agent =
        agent(AgentScript::new().on_open(ScriptStep::Fail { kind, message, retry_at: None }));
    let error = agent.open(harness.request(issue())).await.err().unwrap();
    assert_eq!(error.kind, kind);
    assert_eq!(agent.live_agents(), 0);
    assert_eq!(agent.journal().for_issue("MT-1").last(), Some(&Did::Refuse(kind)));
}

#[tokio::test]
async fn a_session_dropped_without_closing_is_seen() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new());
    drop(harness.open(&agent).await);
    assert_eq!(agent.live_agents(), 0);
    assert_eq!(agent.journal().for_issue("MT-1").last(), Some(&Did::Abandon));
}

#[tokio::test]
async fn rule_10_9_an_agent_that_cannot_be_closed_lives_on() {
    let harness = Harness::new();
    let (kind, message) = (AgentErrorKind::ResponseTimeout, "still there".to_owned());
    let agent =
        agent(AgentScript::new().on_close(ScriptStep::Fail { kind, message, retry_at: None }));
    let session = harness.open(&agent).await;
    assert_eq!(session.close().await.unwrap_err().kind, kind);
    let journal = agent.journal();
    assert_eq!(journal.for_issue("MT-1").last(), Some(&Did::FailToClose(kind)));
    assert_eq!((journal.live_agents(), journal.live_in(harness.workspace.path())), (1, 1));
}

#[tokio::test]
async fn rule_6_2_two_agents_in_one_workspace_are_seen() {
    let harness = Harness::new();
    let other = Harness::new();
    let agent = agent(AgentScript::new());
    let first = harness.open(&agent).await;
    let elsewhere = other.open(&agent).await;
    assert_eq!(agent.journal().most_live_in_one_workspace(), 1);
    let second = harness.open(&agent).await;
    for session in [first, elsewhere, second] {
        session.close().await.unwrap();
    }
    let journal = agent.journal();
    assert_eq!((journal.most_live(), journal.most_live_in_one_workspace()), (3, 2));
    assert_eq!(journal.live_agents(), 0);
}

#[tokio::test]
async fn an_agent_waits_for_a_gate_and_tests_wait_for_the_journal() {
    let harness = Harness::new();
    let gate = Gate::new();
    let agent = agent(AgentScript::new().wait_for(&gate).say("through"));
    let mut session = harness.open(&agent).await;
    let running = tokio::spawn(async move { session.run_turn(turn(1)).await.unwrap() });
    agent.wait_until(|journal| journal.count(|did| matches!(did, Did::Turn { .. })) == 1).await;
    assert!(!harness.said().contains(&event("notification", "through")));
    gate.open();
    assert_eq!(running.await.unwrap(), TurnEnd::Completed);
    assert!(harness.said().contains(&event("notification", "through")));
}

#[tokio::test]
async fn scripts_are_chosen_by_identifier_then_label_then_for_all() {
    let harness = Harness::new();
    let line = |text: &str| AgentScript::new().say(text);
    let agent = ScriptedAgent::choosing(|opening| {
        AgentScript::new().say(format!("{} {}", opening.issue.identifier, opening.session))
    })
    .for_issue("MT-1", [line("by name, first"), line("by name, later")])
    .for_label("Flaky", line("by label"))
    .for_label("slow", line("by the second label"));
    let labelled = |number: &str, labels: &[&str]| {
        let identifier = format!("MT-{number}");
        let mut issue = Issue::new(number, &identifier, "Title", "Todo").unwrap();
        issue.labels = Label::list(labels);
        issue
    };
    let mut heard = Vec::new();
    for issue in [
        labelled("1", &["flaky"]),
        labelled("1", &["flaky"]),
        labelled("1", &[]),
        labelled("2", &["slow", "flaky"]),
        labelled("3", &["slow"]),
        labelled("4", &[]),
        labelled("4", &[]),
    ] {
        let mut session = agent.open(harness.request(issue)).await.unwrap();
        session.run_turn(turn(1)).await.unwrap();
        session.close().await.unwrap();
        heard.extend(harness.said().into_iter().filter_map(|update| match update {
            AgentUpdate::Event(event) if event.name == "notification" => {
                Some(event.summary.clone())
            }
            _ => None,
        }));
    }
    let expected = [
        "by name, first",
        "by name, later",
        "by name, later",
        "by label",
        "by the second label",
        "MT-4 1",
        "MT-4 2",
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn an_agent_writes_only_inside_its_workspace() {
    for path in ["../out", "/tmp/out", "a/../../out", "."] {
        let harness = Harness::new();
        let agent = agent(AgentScript::new().write(path, "x"));
        let mut session = harness.open(&agent).await;
        let error = session.run_turn(turn(1)).await.unwrap_err();
        let expected =
            (AgentErrorKind::InvalidWorkspace, format!("cannot write {path} in the workspace"));
        assert_eq!(kind(error), expected);
        assert_eq!(fs::read_dir(harness.workspace.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn an_agent_does_not_make_its_workspace() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().write("a", "x"));
    let mut request = harness.request(issue());
    request.workspace = harness.workspace.path().join("missing");
    let mut session = agent.open(request).await.unwrap();
    let error = session.run_turn(turn(1)).await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::InvalidWorkspace);
    assert_eq!(fs::read_dir(harness.workspace.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_factory_hands_out_its_agent() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new());
    let factory = ScriptedFactory::new(agent.clone());
    assert_eq!(factory.kind(), "scripted");
    let env = std::collections::BTreeMap::new();
    let request = harness.request(issue());
    let backend = factory.build(&request.settings, &env).unwrap();
    let session = backend.open(request).await.unwrap();
    assert_eq!(agent.live_agents(), 1);
    session.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clock_can_follow_tokios() {
    let clock = BoardClock::tokio(noon());
    assert_eq!(clock.now(), noon());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(clock.now(), noon() + Duration::from_secs(60));
}

#[tokio::test]
async fn an_agent_without_entries_still_counts_live_sessions() {
    let harness = Harness::new();
    let agent = agent(AgentScript::new().say("hello")).without_entries();
    let mut session = harness.open(&agent).await;
    session.run_turn(turn(1)).await.unwrap();
    assert_eq!(agent.live_agents(), 1);
    session.close().await.unwrap();
    assert_eq!((agent.live_agents(), agent.journal().most_live()), (0, 1));
    assert!(agent.journal().entries().is_empty());
}
