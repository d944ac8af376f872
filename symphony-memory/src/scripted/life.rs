//! The lifetime of a scripted agent, and its entries in the journal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use symphony_core::Identifier;
use symphony_core::agent::{LastTurn, LastTurnState, SessionRequest, ThreadId, Turn};

use super::memory::Remark;
use super::{Conversation, Did, JournalEntry, ScriptedAgent, lock};

/// Writes down what one session does.
#[derive(Clone, Debug)]
pub(super) struct Scribe {
    pub(super) agent: ScriptedAgent,
    pub(super) issue: Identifier,
    pub(super) session: u32,
}

impl Scribe {
    pub(super) fn record(&self, did: Did) {
        self.agent.shared.journal.send_modify(|journal| journal.record(self.entry(did)));
    }

    fn entry(&self, did: Did) -> JournalEntry {
        JournalEntry { issue: self.issue.clone(), session: self.session, did }
    }
}

/// An agent that lives in a workspace until it is ended or dropped.
pub(super) struct ScriptedLife {
    pub(super) scribe: Scribe,
    workspace: PathBuf,
    stage: LifeStage,
}

enum LifeStage {
    Opening,
    Open,
    Over,
}

impl ScriptedLife {
    pub(super) fn begin(scribe: Scribe, request: &SessionRequest) -> Self {
        let workspace = request.workspace.clone();
        scribe.agent.shared.journal.send_modify(|journal| {
            journal.begin(&workspace);
            let resume = request.resume.clone();
            journal.record(scribe.entry(Did::Begin { workspace: workspace.clone(), resume }));
        });
        Self { scribe, workspace, stage: LifeStage::Opening }
    }

    /// Goes on with the conversation that is asked for, or begins one. Returns it with its last
    /// turn.
    pub(super) fn converse(&self, request: &SessionRequest) -> (ThreadId, Option<LastTurn>) {
        let shared = &self.scribe.agent.shared;
        let mut conversations = lock(&shared.conversations);
        let name = &request.issue.identifier;
        let Some(memory) = shared.memory.get() else {
            let fresh = || ThreadId::from(format!("{name}-{}", self.scribe.session));
            let thread = request.resume.clone().unwrap_or_else(fresh);
            let last_turn = match conversations.get(&thread) {
                Some(conversation) => conversation.last_turn.clone(),
                // That of another process is not known.
                None if request.resume.is_some() => {
                    Some(LastTurn::new(None, LastTurnState::Unknown))
                }
                None => None,
            };
            conversations.entry(thread.clone()).or_default();
            return (thread, last_turn);
        };
        let known = request
            .resume
            .as_ref()
            .and_then(|thread| Some((thread.clone(), memory.recall(thread)?)));
        // Each process counts its sessions anew, and no run's id comes twice.
        let fresh = || (ThreadId::from(format!("{name}-{}", request.run)), Conversation::default());
        let (thread, conversation) = known.unwrap_or_else(fresh);
        memory.note(&thread, &Remark::Opened);
        let last_turn = conversation.last_turn.clone();
        conversations.insert(thread.clone(), conversation);
        (thread, last_turn)
    }

    /// Remembers what became of a turn.
    pub(super) fn note_turn(&self, thread: &ThreadId, turn: &Turn, state: LastTurnState) {
        if let Some(memory) = self.scribe.agent.shared.memory.get() {
            let remark = match state {
                LastTurnState::Interrupted => {
                    let (client_id, prompt) = (turn.client_id.clone(), turn.prompt.clone());
                    Remark::Asked { client_id, prompt }
                }
                state => Remark::Ended { completed: state == LastTurnState::Completed },
            };
            memory.note(thread, &remark);
        }
        let last = LastTurn::new(Some(turn.client_id.clone()), state);
        let mut conversations = lock(&self.scribe.agent.shared.conversations);
        conversations.entry(thread.clone()).or_default().last_turn = Some(last);
    }

    pub(super) fn opened(&mut self) {
        self.stage = LifeStage::Open;
        self.scribe.record(Did::Open);
    }

    /// The agent is gone.
    pub(super) fn end(&mut self, did: Did) {
        self.stage = LifeStage::Over;
        self.scribe.agent.shared.journal.send_modify(|journal| {
            journal.end(&self.workspace);
            journal.record(self.scribe.entry(did));
        });
    }

    /// The session is over, but the agent is not gone.
    pub(super) fn outlive(&mut self, did: Did) {
        self.stage = LifeStage::Over;
        self.scribe.record(did);
    }
}

impl Drop for ScriptedLife {
    fn drop(&mut self) {
        match self.stage {
            LifeStage::Opening => self.end(Did::DropOpening),
            LifeStage::Open => self.end(Did::Abandon),
            LifeStage::Over => {}
        }
    }
}

/// A turn that runs: dropped before it is over, it says so.
pub(super) struct OpenTurn {
    scribe: Scribe,
    live: Arc<AtomicBool>,
    over: bool,
}

impl OpenTurn {
    /// `live` says for as long as it runs that a turn does.
    pub(super) fn begin(scribe: Scribe, live: Arc<AtomicBool>) -> Self {
        live.store(true, Ordering::SeqCst);
        Self { scribe, live, over: false }
    }

    pub(super) fn end(mut self, did: Did) {
        self.over = true;
        self.scribe.record(did);
    }
}

impl Drop for OpenTurn {
    fn drop(&mut self) {
        self.live.store(false, Ordering::SeqCst);
        if !self.over {
            self.scribe.record(Did::DropTurn);
        }
    }
}
