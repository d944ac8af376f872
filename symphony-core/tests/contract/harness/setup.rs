//! How a harness differs from the defaults.

use std::time::Duration;

use symphony_core::budget::Spent;
use symphony_core::orchestrator::{Configuration, Generation, Job, Restored};
use symphony_core::store::PollRow;
use symphony_core::{HostId, Scope, Settings, StateSet, WorkspaceKey, WorkspaceRecord};

use super::{OPENING, id};

pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) restored: Restored,
    /// The tracker's, in milliseconds.
    pub(crate) min_read_gap: u64,
}

impl Default for Setup {
    fn default() -> Self {
        let active = StateSet::new(["Todo", "In Progress"]);
        let terminal = StateSet::new(["Done", "Cancelled"]);
        Self {
            settings: Settings::new("memory", active, terminal, "/symphony".into()),
            restored: Restored { boot: 7, ..Restored::default() },
            min_read_gap: 0,
        }
    }
}

impl Setup {
    /// `agent.max_concurrent_agents`
    pub(crate) fn slots(&mut self, slots: u32) -> &mut Self {
        self.settings.agent.max_concurrent_agents = slots;
        self
    }

    /// `agent.max_concurrent_agents_by_state`
    pub(crate) fn state_slots(&mut self, state: &str, slots: u32) -> &mut Self {
        let by_state = &mut self.settings.agent.max_concurrent_agents_by_state;
        by_state.insert(state.into(), slots);
        self
    }

    /// `agent.max_turns`
    pub(crate) fn turns(&mut self, turns: u32) -> &mut Self {
        self.settings.agent.max_turns = turns;
        self
    }

    /// An earlier life read the tracker so long ago, for these jobs, and asked so often.
    pub(crate) fn polled(&mut self, age_ms: u64, jobs: &[Job], spent: Spent) -> &mut Self {
        let at = OPENING - Duration::from_millis(age_ms);
        let last_runs = jobs.iter().map(|job| (job.clone(), at)).collect();
        let scope = Scope::from("board");
        self.restored.rows.polls = Some(PollRow { scope, last_runs, spent });
        self
    }

    /// A workspace that an earlier life left behind.
    pub(crate) fn left_behind(&mut self, record: WorkspaceRecord) -> &mut Self {
        self.restored.workspaces.records.push(record);
        self
    }

    /// A folder without a record.
    pub(crate) fn stray(&mut self, key: &str) -> &mut Self {
        let key = WorkspaceKey::parse(key).unwrap();
        self.restored.workspaces.strays.push(key);
        self
    }

    pub(super) fn parts(self) -> (Configuration, Restored) {
        let configuration = Configuration {
            settings: self.settings.into(),
            generation: Generation(1),
            scope: Scope::from("board"),
            min_read_gap: Duration::from_millis(self.min_read_gap),
            warnings: Default::default(),
        };
        (configuration, self.restored)
    }
}

/// Returns the record of an issue's workspace.
pub(crate) fn record(name: &str) -> WorkspaceRecord {
    let key = WorkspaceKey::derive(name).unwrap();
    WorkspaceRecord {
        issue: id(name),
        identifier: name.into(),
        scope: Scope::from("board"),
        host: HostId::local(),
        path: format!("/symphony/{key}").into(),
        key,
    }
}
