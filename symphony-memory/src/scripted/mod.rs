//! An agent that follows a script: for tests, and for showing what Symphony does without a model.

mod journal;
mod life;
mod memory;
mod script;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentFactory, AgentSession, LastTurn, SessionRequest, ThreadId,
    Tokens,
};
use symphony_core::env::Env;
use symphony_core::{Identifier, Issue, IssueId, Label, Settings};
use tokio::sync::watch;

pub use journal::{Did, Journal, JournalEntry};
pub use script::{AgentScript, Gate, ScriptStep, Scripts};

use crate::clock::BoardClock;
use memory::Memory;
use session::ScriptedSession;

/// What `agent.kind` calls this agent.
pub const SCRIPTED: &str = "scripted";

/// Agents that do what their script says. Clones share scripts and journal.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use symphony_core::agent::{AgentBackend, SessionRequest, Turn, TurnEnd, Updates};
/// use symphony_core::run::RunId;
/// use symphony_core::{Issue, Settings, StateSet};
/// use symphony_memory::{AgentScript, ScriptedAgent};
///
/// let agent = ScriptedAgent::new(AgentScript::new().say("all is well"))
///     .for_issue("MT-2", AgentScript::new().ask("red or blue?"));
///
/// let issue = Arc::new(Issue::new("2", "MT-2", "Paint the door", "Todo").unwrap());
/// let states = StateSet::new(["Todo"]);
/// let settings = Settings::new("memory", states.clone(), states, "/tmp/work".into());
/// let run = RunId { boot: 1, number: 1 };
/// let request = SessionRequest::new(
///     run,
///     issue,
///     "/tmp/work/MT-2".into(),
///     Arc::new(settings),
///     Updates::new(|update| println!("{update:?}")),
/// );
/// let mut session = agent.open(request).await.unwrap();
/// let end = session.run_turn(Turn::new(run, 1, "go")).await.unwrap();
/// let TurnEnd::InputRequired { question } = end else { panic!("no question") };
/// assert_eq!(question.to_string(), "red or blue?");
/// session.close().await.unwrap();
/// assert_eq!(agent.journal().live_agents(), 0);
/// # });
/// ```
#[derive(Clone)]
pub struct ScriptedAgent {
    shared: Arc<ScriptedState>,
}

struct ScriptedState {
    script_table: Mutex<ScriptTable>,
    /// How many sessions each issue has had.
    sessions: Mutex<BTreeMap<IssueId, u32>>,
    /// What is known of each conversation: one that is resumed goes on from there.
    conversations: Mutex<BTreeMap<ThreadId, Conversation>>,
    /// Where conversations outlive the process, if they do.
    memory: OnceLock<Memory>,
    journal: watch::Sender<Journal>,
    clock: BoardClock,
}

/// A conversation, as a later session remembers it.
#[derive(Default)]
struct Conversation {
    used: Tokens,
    last_turn: Option<LastTurn>,
}

/// Which agent follows which script.
struct ScriptTable {
    by_identifier: BTreeMap<Identifier, Scripts>,
    by_label: Vec<(Label, Scripts)>,
    fallback: Arc<dyn Fn(&Opening<'_>) -> AgentScript + Send + Sync>,
}

/// A session about to open.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The issue it is for.
    pub issue: &'a Issue,
    /// Which session of that issue, counted from one.
    pub session: u32,
    /// The conversation it goes on with.
    pub resume: Option<&'a ThreadId>,
}

impl ScriptedAgent {
    /// Every agent follows this script, or these in turn, unless told otherwise.
    #[must_use]
    pub fn new(scripts: impl Into<Scripts>) -> Self {
        let scripts = scripts.into();
        Self::choosing(move |opening| scripts.of_session(opening.session))
    }

    /// Every agent follows the script that this function gives, unless told otherwise.
    #[must_use]
    pub fn choosing(choose: impl Fn(&Opening<'_>) -> AgentScript + Send + Sync + 'static) -> Self {
        Self::with_clock(BoardClock::system(), choose)
    }

    /// As [`choosing`](Self::choosing), with events that get their time from this clock.
    #[must_use]
    pub fn with_clock(
        clock: BoardClock,
        choose: impl Fn(&Opening<'_>) -> AgentScript + Send + Sync + 'static,
    ) -> Self {
        let script_table = ScriptTable {
            by_identifier: BTreeMap::new(),
            by_label: Vec::new(),
            fallback: Arc::new(choose),
        };
        let shared = ScriptedState {
            script_table: Mutex::new(script_table),
            sessions: Mutex::default(),
            conversations: Mutex::default(),
            memory: OnceLock::new(),
            journal: watch::Sender::default(),
            clock,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The sessions of the issue with this identifier follow this script, or these in turn.
    #[must_use]
    pub fn for_issue(self, identifier: &str, scripts: impl Into<Scripts>) -> Self {
        lock(&self.shared.script_table).by_identifier.insert(identifier.into(), scripts.into());
        self
    }

    /// The sessions of issues with this label follow this script, or these in turn. An issue
    /// named by its identifier, or with an earlier label, does not.
    #[must_use]
    pub fn for_label(self, label: &str, scripts: impl Into<Scripts>) -> Self {
        lock(&self.shared.script_table).by_label.push((Label::new(label), scripts.into()));
        self
    }

    /// Keeps no entries in its journal, which otherwise grows with every session: for a service
    /// that is to run for long.
    #[must_use]
    pub fn without_entries(self) -> Self {
        self.shared.journal.send_modify(Journal::forget);
        self
    }

    /// Keeps its conversations in this folder, a file for each: an agent of a later process knows
    /// them, with their last turns. The first folder that is given counts.
    #[must_use]
    pub fn remembering_in(self, folder: impl Into<PathBuf>) -> Self {
        let _ = self.shared.memory.set(Memory(folder.into()));
        self
    }

    /// What happened so far.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.shared.journal.borrow().clone()
    }

    /// Returns the number of live agents.
    #[must_use]
    pub fn live_agents(&self) -> usize {
        self.shared.journal.borrow().live_agents()
    }

    /// Waits until the journal is as the condition wants it.
    pub async fn wait_until(&self, condition: impl FnMut(&Journal) -> bool) {
        // The sender lives as long as we do, so this ends with the condition only.
        let _ = self.shared.journal.subscribe().wait_for(condition).await;
    }

    fn script(&self, opening: &Opening<'_>) -> AgentScript {
        let choose = {
            let script_table = lock(&self.shared.script_table);
            let by_label = || {
                let has_label =
                    |(label, _): &&(Label, Scripts)| opening.issue.labels.contains(label);
                script_table.by_label.iter().find(has_label).map(|(_, scripts)| scripts)
            };
            match script_table.by_identifier.get(&opening.issue.identifier).or_else(by_label) {
                Some(scripts) => return scripts.of_session(opening.session),
                None => Arc::clone(&script_table.fallback),
            }
        };
        choose(opening)
    }

    fn next_session(&self, issue: &IssueId) -> u32 {
        let mut sessions = lock(&self.shared.sessions);
        let session = sessions.entry(issue.clone()).or_default();
        *session = session.saturating_add(1);
        *session
    }
}

#[async_trait]
impl AgentBackend for ScriptedAgent {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        let session = self.next_session(&request.issue.id);
        let opening = Opening { issue: &request.issue, session, resume: request.resume.as_ref() };
        let script = self.script(&opening);
        let session = ScriptedSession::open(self.clone(), session, script, request).await?;
        Ok(Box::new(session))
    }
}

impl fmt::Debug for ScriptedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedAgent").field("live", &self.live_agents()).finish_non_exhaustive()
    }
}

/// Hands out one [`ScriptedAgent`]: `agent.kind: scripted`.
#[derive(Clone, Debug)]
pub struct ScriptedFactory {
    agent: ScriptedAgent,
}

impl ScriptedFactory {
    /// Hands out this agent.
    #[must_use]
    pub const fn new(agent: ScriptedAgent) -> Self {
        Self { agent }
    }
}

impl AgentFactory for ScriptedFactory {
    fn kind(&self) -> &str {
        SCRIPTED
    }

    fn build(
        &self,
        _settings: &Settings,
        _env: &dyn Env,
    ) -> Result<Arc<dyn AgentBackend>, AgentError> {
        Ok(Arc::new(self.agent.clone()))
    }
}

/// A panic elsewhere leaves these values whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
