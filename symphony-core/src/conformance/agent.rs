//! The rules of contract section 10 that hold for every [`AgentBackend`].

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Able, Deviation, Rule, RuleResult, Unable, abandon, broken, ensure, ensure_eq};
use crate::agent::{
    AgentBackend, AgentError, AgentSession, AgentUpdate, SessionRequest, SteerNote, ThreadId, Turn,
    TurnEnd, Updates,
};
use crate::issue::Issue;
use crate::run::RunId;
use crate::settings::Settings;

/// An agent that does what a test tells it.
///
/// Each rule gets a fresh one.
pub trait AgentFixture {
    /// Runs a future to its end. With a time limit, a backend that hangs fails instead.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// The backend.
    fn backend(&self) -> Arc<dyn AgentBackend>;

    /// The settings that sessions begin with.
    fn settings(&self) -> Arc<Settings>;

    /// A folder to work in.
    fn workspace(&self) -> PathBuf;

    /// What agents do in each of their next turns.
    ///
    /// # Errors
    /// The agent cannot be made to do this.
    fn script(&self, turns: SessionScript) -> Able;

    /// How many agents live. It may wait a moment for those that are on their way out.
    fn alive(&self) -> usize;
}

/// What an agent does in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionScript {
    /// It works and says that it is through.
    Complete,
    /// It says that the turn failed.
    Fail,
    /// It asks something only a person can answer.
    Ask,
    /// It says nothing more and never ends.
    Hang,
}

/// A fixture in use, with everything its agents said.
struct AgentTrial<'f, F> {
    fixture: &'f F,
    backend: Arc<dyn AgentBackend>,
    said: Arc<Mutex<Vec<AgentUpdate>>>,
}

impl<'f, F: AgentFixture> AgentTrial<'f, F> {
    fn new(fixture: &'f F, turns: SessionScript) -> Able<Self> {
        fixture.script(turns)?;
        Ok(Self { fixture, backend: fixture.backend(), said: Arc::default() })
    }

    fn request(&self, number: u64) -> Result<SessionRequest, Deviation> {
        let issue = Issue::new("id-1", "MT-1", "Mend the gate", "Todo");
        let issue = issue.map_err(|error| broken(error.to_string()))?;
        let said = Arc::clone(&self.said);
        let updates = Updates::new(move |update| {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(update);
        });
        Ok(SessionRequest::new(
            RunId { boot: 1, number },
            Arc::new(issue),
            self.fixture.workspace(),
            self.fixture.settings(),
            updates,
        ))
    }

    fn open(&self, number: u64) -> Result<Box<dyn AgentSession>, Deviation> {
        let session = self.fixture.block_on(self.backend.open(self.request(number)?));
        session.map_err(|error| failed("open", &error))
    }

    fn turn(&self, session: &mut dyn AgentSession, number: u32) -> Result<TurnEnd, AgentError> {
        self.fixture.block_on(session.run_turn(turn(number)))
    }

    fn close(&self, session: Box<dyn AgentSession>) -> RuleResult {
        let closed = self.fixture.block_on(session.close());
        closed.map_err(|error| failed("close", &error))?;
        ensure_eq("agents alive after close", self.fixture.alive(), 0)
    }

    /// The conversation of every turn so far.
    fn threads(&self) -> Vec<(ThreadId, Arc<str>)> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = said.iter().filter_map(|update| match update {
            AgentUpdate::Session { thread, session_id, .. } => {
                Some((thread.clone(), Arc::clone(session_id)))
            }
            _ => None,
        });
        sessions.collect()
    }
}

fn turn(number: u32) -> Turn {
    Turn::new(RunId { boot: 1, number: 1 }, number, format!("Turn {number}: mend the gate."))
}

fn failed(what: &str, error: &AgentError) -> Deviation {
    broken(format!("{what} failed: {}: {error}", error.kind.as_str()))
}

fn completes(what: &str, end: Result<TurnEnd, AgentError>) -> RuleResult {
    let end = end.map_err(|error| failed(what, &error))?;
    ensure_eq(what, end, TurnEnd::Completed)
}

/// A session opens, runs more than one turn and is closed.
pub fn rule_10_1_a_session_runs_turns_and_is_closed<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let mut session = trial.open(1)?;
    completes("the first turn", trial.turn(&mut *session, 1))?;
    completes("the second turn", trial.turn(&mut *session, 2))?;
    trial.close(session)
}

/// Every turn shows a sign of life: without one it counts as stalled.
pub fn rule_10_1_every_turn_sends_updates<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let mut session = trial.open(1)?;
    for number in 1..=2 {
        trial.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
        completes("a turn", trial.turn(&mut *session, number))?;
        let said = trial.said.lock().unwrap_or_else(PoisonError::into_inner).len();
        ensure(said > 0, || format!("turn {number} sent no update"))?;
    }
    trial.close(session)
}

/// All turns are of the conversation that was opened, and `session_id` is `<thread>-<turn>`.
pub fn rule_10_3_turns_share_the_opened_conversation<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let mut session = trial.open(1)?;
    completes("the first turn", trial.turn(&mut *session, 1))?;
    completes("the second turn", trial.turn(&mut *session, 2))?;
    let threads = trial.threads();
    let opened = session.opened().thread;
    for (thread, session_id) in &threads {
        ensure_eq("the conversation", thread, opened.as_ref().unwrap_or(&threads[0].0))?;
        ensure(session_id.starts_with(&format!("{thread}-")), || {
            format!("session {session_id} in conversation {thread}")
        })?;
    }
    ensure(!threads.is_empty(), || "no update names the conversation".to_owned())?;
    trial.close(session)
}

/// A turn that failed is not one that completed.
pub fn rule_10_5_a_failed_turn_is_an_error<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Fail)?;
    let mut session = trial.open(1)?;
    if let Ok(end) = trial.turn(&mut *session, 1) {
        return Err(broken(format!("the failed turn ended with {end:?}")));
    }
    trial.close(session)
}

/// The question is kept for the person who will answer it.
pub fn rule_10_6_a_question_ends_the_turn_and_is_kept<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Ask)?;
    let mut session = trial.open(1)?;
    match trial.turn(&mut *session, 1) {
        Ok(TurnEnd::InputRequired { question }) if !question.to_string().trim().is_empty() => {}
        Ok(end) => return Err(broken(format!("the question ended the turn with {end:?}"))),
        Err(error) => return Err(failed("the turn with a question", &error)),
    }
    trial.close(session)
}

/// Totals are absolute, so they never fall within a conversation.
pub fn rule_10_8_token_totals_never_fall<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let mut session = trial.open(1)?;
    for number in 1..=3 {
        completes("a turn", trial.turn(&mut *session, number))?;
    }
    trial.close(session)?;
    let said = trial.said.lock().unwrap_or_else(PoisonError::into_inner);
    let mut highest = BTreeMap::new();
    for update in said.iter() {
        if let AgentUpdate::Usage { thread, total } = update
            && let Some(tokens) = total.tokens
        {
            let before = highest.insert(thread.clone(), tokens.total).unwrap_or(0);
            ensure(before <= tokens.total, || {
                format!("{thread} fell from {before} to {} tokens", tokens.total)
            })?;
        }
    }
    if highest.is_empty() {
        return Err(Unable("the agent reports no tokens").into());
    }
    Ok(())
}

/// A turn may be dropped wherever it is; closing then still ends everything.
pub fn rule_10_9_close_ends_a_turn_that_hangs<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Hang)?;
    for polls in [0, 1, 2, 50] {
        let mut session = trial.open(1)?;
        let hanging = session.run_turn(turn(1));
        if fixture.block_on(abandon(hanging, polls)).is_some() {
            return Err(broken("the turn that should hang ended"));
        }
        trial.close(session)?;
    }
    Ok(())
}

/// A session that is still being opened may be dropped wherever it is.
pub fn rule_10_9_a_dropped_open_leaves_nothing<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    for polls in 0..6 {
        let opening = trial.backend.open(trial.request(1)?);
        match fixture.block_on(abandon(opening, polls)) {
            Some(opened) => trial.close(opened.map_err(|error| failed("open", &error))?)?,
            None => ensure_eq("agents alive after a dropped open", fixture.alive(), 0)?,
        }
    }
    Ok(())
}

/// The end of one session is nothing to another.
pub fn rule_10_9_closing_one_session_leaves_the_others<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let (first, mut second) = (trial.open(1)?, trial.open(2)?);
    let closed = fixture.block_on(first.close());
    closed.map_err(|error| failed("close", &error))?;
    completes("a turn of the other session", trial.turn(&mut *second, 1))?;
    trial.close(second)
}

/// Between turns there is nothing to steer, and a note must not be lost.
pub fn rule_10_11_a_note_needs_a_live_turn<F: AgentFixture>(fixture: &F) -> RuleResult {
    let trial = AgentTrial::new(fixture, SessionScript::Complete)?;
    let mut session = trial.open(1)?;
    let Some(steering) = session.steering() else {
        trial.close(session)?;
        return Err(Unable("the agent takes no notes").into());
    };
    let refuses = |when: &str| {
        let taken = fixture.block_on(steering.steer(SteerNote::new(when, "Mind the paint.")));
        ensure(taken.is_err(), || format!("a note {when} a turn was taken"))
    };
    refuses("before")?;
    completes("a turn", trial.turn(&mut *session, 1))?;
    refuses("after")?;
    trial.close(session)
}

/// Every rule with its name, for a run outside the test harness.
#[must_use]
pub fn rules<F: AgentFixture>() -> Vec<Rule<F>> {
    crate::__agent_rules!(__conformance_list,)
}

/// One test per rule for an agent backend.
///
/// The argument is an expression that makes a fresh `conformance::AgentFixture`; it is evaluated
/// once per test. Rules that the fixture cannot set up follow, each with the reason:
/// `skip: { rule_name: "why", .. }`. Their tests are `#[ignore]`d.
#[macro_export]
macro_rules! agent_conformance {
    ($fixture:expr $(, skip: { $($skipped:ident: $why:literal),* $(,)? })? $(,)?) => {
        $crate::__conformance_skips! { ($) agent; $($($skipped: $why),*)? }
        $crate::__agent_rules!(__conformance_tests, agent, $fixture);
    };
}

#[doc(hidden)]
pub mod names {
    crate::__agent_rules!(__conformance_names,);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __agent_rules {
    ($then:ident, $($args:tt)*) => {
        $crate::$then! { $($args)*;
            rule_10_1_a_session_runs_turns_and_is_closed,
            rule_10_1_every_turn_sends_updates,
            rule_10_3_turns_share_the_opened_conversation,
            rule_10_5_a_failed_turn_is_an_error,
            rule_10_6_a_question_ends_the_turn_and_is_kept,
            rule_10_8_token_totals_never_fall,
            rule_10_9_close_ends_a_turn_that_hangs,
            rule_10_9_a_dropped_open_leaves_nothing,
            rule_10_9_closing_one_session_leaves_the_others,
            rule_10_11_a_note_needs_a_live_turn,
        }
    };
}
