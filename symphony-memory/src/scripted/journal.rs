//! What scripted agents did, for tests to look at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use symphony_core::Identifier;
use symphony_core::agent::{AgentErrorKind, ThreadId, TurnEnd};
use symphony_core::tracker::ToolResult;

/// Everything that the sessions of one [`ScriptedAgent`](crate::ScriptedAgent) did, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<JournalEntry>,
    forgets: bool,
    live: BTreeMap<PathBuf, usize>,
    most_live: usize,
    most_live_in_one_workspace: usize,
}

/// One thing that a session did.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// Whose.
    pub issue: Identifier,
    /// Which session of that issue, counted from one.
    pub session: u32,
    /// What.
    pub did: Did,
}

/// What a session can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    /// Began to open. From here on the agent lives.
    Begin {
        /// The workspace.
        workspace: PathBuf,
        /// The conversation it goes on with.
        resume: Option<ThreadId>,
    },
    /// Is open.
    Open,
    /// Could not open: the agent is gone.
    Refuse(AgentErrorKind),
    /// Began a turn.
    Turn {
        /// Counted from one.
        number: u32,
        /// What the agent was told.
        prompt: String,
    },
    /// Called a tool.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
        /// What it answered.
        result: ToolResult,
    },
    /// Was told this in the middle of a turn.
    Note(String),
    /// Wrote or added to a file.
    Write(PathBuf),
    /// Ended a turn.
    EndTurn(Result<TurnEnd, AgentErrorKind>),
    /// Was dropped in the middle of a turn; closing should follow.
    DropTurn,
    /// Closed: the agent is gone.
    Close,
    /// Could not close: the agent lives on.
    FailToClose(AgentErrorKind),
    /// Was dropped while it opened: the agent is gone.
    DropOpening,
    /// Was dropped without being closed, which should never happen. The agent is gone.
    Abandon,
}

impl Journal {
    /// Every entry.
    #[must_use]
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// What the sessions of one issue did.
    #[must_use]
    pub fn for_issue(&self, identifier: &str) -> Vec<Did> {
        let of_issue = |entry: &&JournalEntry| entry.issue.as_str() == identifier;
        self.entries.iter().filter(of_issue).map(|entry| entry.did.clone()).collect()
    }

    /// How many entries fit.
    pub fn count(&self, fits: impl Fn(&Did) -> bool) -> usize {
        self.entries.iter().filter(|entry| fits(&entry.did)).count()
    }

    /// How many sessions were opened.
    #[must_use]
    pub fn opened(&self) -> usize {
        self.count(|did| *did == Did::Open)
    }

    /// How many sessions were closed.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.count(|did| *did == Did::Close)
    }

    /// Returns the number of live agents.
    #[must_use]
    pub fn live_agents(&self) -> usize {
        self.live.values().sum()
    }

    /// How many agents live in a workspace.
    #[must_use]
    pub fn live_in(&self, workspace: &Path) -> usize {
        self.live.get(workspace).copied().unwrap_or(0)
    }

    /// How many agents lived at once at most.
    #[must_use]
    pub const fn most_live(&self) -> usize {
        self.most_live
    }

    /// How many agents lived at once in one workspace at most: more than one is a fault of the
    /// service (contract 6.2).
    #[must_use]
    pub const fn most_live_in_one_workspace(&self) -> usize {
        self.most_live_in_one_workspace
    }

    /// Keeps no entries from now on, only the numbers.
    pub(crate) fn forget(&mut self) {
        self.forgets = true;
        self.entries = Vec::new();
    }

    pub(crate) fn record(&mut self, entry: JournalEntry) {
        if !self.forgets {
            self.entries.push(entry);
        }
    }

    pub(crate) fn begin(&mut self, workspace: &Path) {
        let here = self.live.entry(workspace.to_owned()).or_default();
        *here += 1;
        self.most_live_in_one_workspace = self.most_live_in_one_workspace.max(*here);
        self.most_live = self.most_live.max(self.live_agents());
    }

    pub(crate) fn end(&mut self, workspace: &Path) {
        if let Some(here) = self.live.get_mut(workspace) {
            *here = here.saturating_sub(1);
            if *here == 0 {
                self.live.remove(workspace);
            }
        }
    }
}
