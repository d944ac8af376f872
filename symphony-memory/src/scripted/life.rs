//! How long a scripted agent lives, and who writes it down.

use std::path::PathBuf;

use symphony_core::Identifier;
use symphony_core::agent::SessionRequest;

use super::{Did, Entry, ScriptedAgent};

/// Writes down what one session does.
#[derive(Clone)]
pub(super) struct Scribe {
    pub(super) agent: ScriptedAgent,
    pub(super) issue: Identifier,
    pub(super) session: u32,
}

impl Scribe {
    pub(super) fn note(&self, did: Did) {
        self.agent.shared.journal.send_modify(|journal| journal.note(self.entry(did)));
    }

    fn entry(&self, did: Did) -> Entry {
        Entry { issue: self.issue.clone(), session: self.session, did }
    }
}

/// An agent that lives in a workspace until it is ended or dropped.
pub(super) struct Life {
    pub(super) scribe: Scribe,
    workspace: PathBuf,
    stage: Stage,
}

enum Stage {
    Opening,
    Open,
    Over,
}

impl Life {
    pub(super) fn begin(scribe: Scribe, request: &SessionRequest) -> Self {
        let workspace = request.workspace.clone();
        scribe.agent.shared.journal.send_modify(|journal| {
            journal.begin(&workspace);
            let resume = request.resume.clone();
            journal.note(scribe.entry(Did::Begin { workspace: workspace.clone(), resume }));
        });
        Self { scribe, workspace, stage: Stage::Opening }
    }

    pub(super) fn opened(&mut self) {
        self.stage = Stage::Open;
        self.scribe.note(Did::Open);
    }

    /// The agent is gone.
    pub(super) fn end(&mut self, did: Did) {
        self.stage = Stage::Over;
        self.scribe.agent.shared.journal.send_modify(|journal| {
            journal.end(&self.workspace);
            journal.note(self.scribe.entry(did));
        });
    }

    /// The session is over, but the agent is not gone.
    pub(super) fn outlive(&mut self, did: Did) {
        self.stage = Stage::Over;
        self.scribe.note(did);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        match self.stage {
            Stage::Opening => self.end(Did::DropOpening),
            Stage::Open => self.end(Did::Abandon),
            Stage::Over => {}
        }
    }
}

/// A turn that runs: dropped before it is over, it says so.
pub(super) struct Running {
    scribe: Scribe,
    over: bool,
}

impl Running {
    pub(super) const fn begin(scribe: Scribe) -> Self {
        Self { scribe, over: false }
    }

    pub(super) fn end(mut self, did: Did) {
        self.over = true;
        self.scribe.note(did);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.scribe.note(Did::DropTurn);
        }
    }
}
