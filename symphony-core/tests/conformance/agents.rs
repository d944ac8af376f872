//! The kit for agents, on a scripted one.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentErrorKind, AgentSession, AgentUpdate, Opened, Question,
    SessionRequest, SteerNote, Tokens, Turn, TurnEnd, TurnSteering, Updates,
};
use symphony_core::conformance::agent::{self, SessionScript};
use symphony_core::conformance::{Able, AgentFixture};
use symphony_core::{Settings, StateSet};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    EndsAfterOneTurn,
    IsSilent,
    BeginsAnewEachTurn,
    TakesFailureForSuccess,
    LosesTheQuestion,
    CountsPerTurn,
    OutlivesADroppedTurn,
    OutlivesADroppedOpen,
    ClosesEverySession,
    OpensAnotherThread,
    TakesNotesBetweenTurns,
}

#[derive(Debug)]
struct Backend {
    mistake: Option<Mistake>,
    script: Mutex<SessionScript>,
    alive: Arc<AtomicUsize>,
    opened: AtomicUsize,
}

/// A live agent: gone when dropped, like a process that is killed.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    }
}

struct Session {
    backend: Arc<Backend>,
    alive: Option<Alive>,
    number: usize,
    turns: u64,
    updates: Updates,
}

/// Notes between turns, which is when the rules send them.
#[derive(Debug)]
struct Notes {
    taken_any_time: bool,
}

#[async_trait]
impl TurnSteering for Notes {
    async fn steer(&self, _: SteerNote) -> Result<(), AgentError> {
        match self.taken_any_time {
            true => Ok(()),
            false => Err(AgentError::new(AgentErrorKind::ResponseError, "no turn is live")),
        }
    }
}

#[derive(Debug)]
struct Shared(Arc<Backend>);

#[async_trait]
impl AgentBackend for Shared {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        let alive = Alive::begin(&self.0.alive);
        if self.0.mistake == Some(Mistake::OutlivesADroppedOpen) {
            std::mem::forget(alive);
            yield_now().await;
            let alive = Alive(Arc::clone(&self.0.alive));
            return Ok(self.session(alive, request.updates));
        }
        yield_now().await;
        Ok(self.session(alive, request.updates))
    }
}

impl Shared {
    fn session(&self, alive: Alive, updates: Updates) -> Box<dyn AgentSession> {
        Box::new(Session {
            backend: Arc::clone(&self.0),
            alive: Some(alive),
            number: self.0.opened.fetch_add(1, Ordering::SeqCst),
            turns: 0,
            updates,
        })
    }
}

impl Session {
    fn makes(&self, mistake: Mistake) -> bool {
        self.backend.mistake == Some(mistake)
    }

    fn report(&self) {
        if self.makes(Mistake::IsSilent) {
            return;
        }
        let thread = match self.makes(Mistake::BeginsAnewEachTurn) {
            true => format!("thread-{}-{}", self.number, self.turns),
            false => format!("thread-{}", self.number),
        };
        self.updates.send(AgentUpdate::Session {
            thread: thread.as_str().into(),
            session_id: format!("{thread}-{}", self.turns).into(),
            pid: None,
        });
        let total = match self.makes(Mistake::CountsPerTurn) {
            true => 100 / self.turns,
            false => 100 * self.turns,
        };
        self.updates.send(AgentUpdate::Usage {
            thread: thread.into(),
            total: Tokens { total, ..Tokens::default() }.into(),
        });
    }
}

#[async_trait]
impl AgentSession for Session {
    fn opened(&self) -> Opened {
        let kind = if self.makes(Mistake::OpensAnotherThread) { "other" } else { "thread" };
        Opened::new(format!("{kind}-{}", self.number).into())
    }

    fn steering(&self) -> Option<Arc<dyn TurnSteering>> {
        Some(Arc::new(Notes { taken_any_time: self.makes(Mistake::TakesNotesBetweenTurns) }))
    }

    async fn run_turn(&mut self, _turn: Turn) -> Result<TurnEnd, AgentError> {
        let gone = self.backend.alive.load(Ordering::SeqCst) == 0;
        if gone || self.turns > 0 && self.makes(Mistake::EndsAfterOneTurn) {
            return Err(AgentError::new(AgentErrorKind::ProcessExit, "gone"));
        }
        self.turns += 1;
        self.report();
        yield_now().await;
        let script = *self.backend.script.lock().unwrap();
        match script {
            SessionScript::Complete => Ok(TurnEnd::Completed),
            SessionScript::Fail if self.makes(Mistake::TakesFailureForSuccess) => {
                Ok(TurnEnd::Completed)
            }
            SessionScript::Fail => Err(AgentError::new(AgentErrorKind::TurnFailed, "out of ideas")),
            SessionScript::Ask => Ok(TurnEnd::InputRequired {
                question: match self.makes(Mistake::LosesTheQuestion) {
                    true => Question::text("q-1", ""),
                    false => Question::text("q-1", "Which gate?"),
                },
            }),
            SessionScript::Hang => {
                if self.makes(Mistake::OutlivesADroppedTurn) {
                    // A child of its own, which is never ended.
                    std::mem::forget(Alive::begin(&self.backend.alive));
                }
                std::future::pending().await
            }
        }
    }

    async fn close(mut self: Box<Self>) -> Result<(), AgentError> {
        yield_now().await;
        self.alive = None;
        if self.makes(Mistake::ClosesEverySession) {
            self.backend.alive.store(0, Ordering::SeqCst);
        }
        Ok(())
    }
}

struct Fixture {
    backend: Arc<Backend>,
    runtime: Runtime,
}

impl Fixture {
    fn new(mistake: Option<Mistake>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Self {
            backend: Arc::new(Backend {
                mistake,
                script: Mutex::new(SessionScript::Complete),
                alive: Arc::default(),
                opened: AtomicUsize::new(0),
            }),
            runtime: runtime.unwrap(),
        }
    }
}

impl AgentFixture for Fixture {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn backend(&self) -> Arc<dyn AgentBackend> {
        Arc::new(Shared(Arc::clone(&self.backend)))
    }

    fn settings(&self) -> Arc<Settings> {
        let states = StateSet::default();
        Arc::new(Settings::new("board", states.clone(), states, self.workspace()))
    }

    fn workspace(&self) -> PathBuf {
        PathBuf::from("/nowhere")
    }

    fn script(&self, turns: SessionScript) -> Able {
        *self.backend.script.lock().unwrap() = turns;
        Ok(())
    }

    fn alive(&self) -> usize {
        self.backend.alive.load(Ordering::SeqCst)
    }
}

mod correct {
    symphony_core::agent_conformance!(super::Fixture::new(None));
}

#[test]
fn rule_11_6_each_wrong_agent_breaks_exactly_the_rules_it_should() {
    let caught: &[(Mistake, &[&str])] = &[
        (
            Mistake::EndsAfterOneTurn,
            &[
                "rule_10_1_a_session_runs_turns_and_is_closed",
                "rule_10_1_every_turn_sends_updates",
                "rule_10_3_turns_share_the_opened_conversation",
                "rule_10_8_token_totals_never_fall",
            ],
        ),
        (
            Mistake::IsSilent,
            &[
                "rule_10_1_every_turn_sends_updates",
                "rule_10_3_turns_share_the_opened_conversation",
            ],
        ),
        (Mistake::BeginsAnewEachTurn, &["rule_10_3_turns_share_the_opened_conversation"]),
        (Mistake::OpensAnotherThread, &["rule_10_3_turns_share_the_opened_conversation"]),
        (Mistake::TakesNotesBetweenTurns, &["rule_10_11_a_note_needs_a_live_turn"]),
        (Mistake::TakesFailureForSuccess, &["rule_10_5_a_failed_turn_is_an_error"]),
        (Mistake::LosesTheQuestion, &["rule_10_6_a_question_ends_the_turn_and_is_kept"]),
        (Mistake::CountsPerTurn, &["rule_10_8_token_totals_never_fall"]),
        (Mistake::OutlivesADroppedTurn, &["rule_10_9_close_ends_a_turn_that_hangs"]),
        (Mistake::OutlivesADroppedOpen, &["rule_10_9_a_dropped_open_leaves_nothing"]),
        (Mistake::ClosesEverySession, &["rule_10_9_closing_one_session_leaves_the_others"]),
    ];
    for (mistake, expected) in caught {
        let found = broken(agent::rules(), || Fixture::new(Some(*mistake)));
        assert_eq!(found, *expected, "{mistake:?}");
    }
}
