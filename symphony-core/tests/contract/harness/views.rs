//! What the orchestrator shows: its snapshot, row by row.

use symphony_core::orchestrator::Job;
use symphony_core::snapshot::{
    BlockedRow, HoldRow, JobRow, Reason, RunningRow, Snapshot, Verdict, WaitingRow,
};

use super::{Harness, Stage, id, invariants};

impl Harness {
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.orchestrator.snapshot(self.now)
    }

    pub(crate) fn stage(&self, name: &str) -> Stage {
        let stages = invariants::stages(&self.snapshot());
        stages.get(&id(name)).copied().unwrap_or(Stage::Unclaimed)
    }

    pub(crate) fn running(&self, name: &str) -> RunningRow {
        let rows = self.snapshot().running;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} is not running"))
    }

    pub(crate) fn waiting(&self, name: &str) -> WaitingRow {
        let rows = self.snapshot().waiting;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} does not wait but is {:?}", self.stage(name)))
    }

    /// How many milliseconds the issue still waits; `None` when it is due and waits for a slot.
    pub(crate) fn wait_of(&self, name: &str) -> Option<u64> {
        let until = self.waiting(name).until?;
        Some(until.as_millis() - self.now.mono.as_millis())
    }

    pub(crate) fn blocked(&self, name: &str) -> BlockedRow {
        let rows = self.snapshot().blocked;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} is not blocked"))
    }

    /// The one hold.
    pub(crate) fn hold(&self) -> HoldRow {
        let [hold] = <[HoldRow; 1]>::try_from(self.snapshot().holds).expect("one hold");
        hold
    }

    pub(crate) fn job(&self, job: &Job) -> JobRow {
        let rows = self.snapshot().polling.jobs;
        let row = rows.into_iter().find(|row| row.job == *job);
        row.unwrap_or_else(|| panic!("no job {job}"))
    }

    /// Why the candidate is not running.
    pub(crate) fn reason(&self, name: &str) -> Reason {
        self.unstarted(name).unwrap_or_else(|| panic!("{name} has no reason"))
    }

    pub(crate) fn unstarted(&self, name: &str) -> Option<Reason> {
        let rows = self.orchestrator.explain().unstarted;
        let row = rows.into_iter().find(|row| row.id == id(name));
        row.map(|row| row.reason)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.orchestrator.explain().verdict
    }
}
