//! The grace of an agent that moved its own issue: its turn may end by itself before it is stopped
//! (contract 8.2).

use crate::issue::IssueId;
use crate::policy::{self, Standing};

use super::claim::After;
use super::run::TurnStage;
use super::{Orchestrator, RunId, StopReason};

impl Orchestrator {
    /// Lets the turn of an agent that moved its issue itself end, within `agent.finish_grace_ms`.
    /// Returns whether it may: else the run is to be stopped.
    ///
    /// While a tool call is open it is unknown whether it is the one that moved the issue.
    pub(super) fn grant_grace(&mut self, id: RunId, after: After) -> bool {
        let grace = self.settings().agent.finish_grace;
        let Some(run) = self.runs.get_mut(&id) else {
            return false;
        };
        let may_be_its_own = run.changed_issue || run.owed > 0;
        if run.turn != TurnStage::Open || !may_be_its_own || grace.is_zero() {
            return false;
        }
        run.then = Some(after);
        run.finish_by.get_or_insert(self.now.mono + grace);
        self.watch_run(id);
        true
    }

    /// A tool call ended. If no call changed the tracker, the move was not the agent's.
    pub(super) fn tool_ended(&mut self, id: RunId, changed_issue: bool) {
        let now = self.now.mono;
        if let Some(run) = self.runs.get_mut(&id) {
            run.owed = run.owed.saturating_sub(1);
            run.changed_issue |= changed_issue;
            if run.owed == 0 && !run.changed_issue && run.finish_by.is_some() {
                run.finish_by = Some(now);
            }
        }
        self.watch_run(id);
    }

    /// A newer read decides: what was to follow the turn is not decided any more.
    pub(super) fn withdraw_grace(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && run.finish_by.take().is_some()
        {
            run.then = None;
            self.watch_run(id);
        }
    }

    /// Stops a run whose grace is over. Returns whether it was.
    pub(super) fn grace_due(&mut self, issue: &IssueId, id: RunId) -> bool {
        let now = self.now.mono;
        let Some(run) =
            self.runs.get_mut(&id).filter(|run| run.finish_by.is_some_and(|by| by <= now))
        else {
            return false;
        };
        run.finish_by = None;
        let after = run.then.take().unwrap_or(After::Clean);
        // Other settings may have made it active since.
        let is_active = self.claims.get(issue).is_some_and(|claim| {
            policy::standing(&claim.issue, &self.configuration.settings.tracker) == Standing::Active
        });
        if is_active {
            self.watch_run(id);
            return true;
        }
        let why = if after == After::Clean { StopReason::Terminal } else { StopReason::NotActive };
        self.stop(issue, why, after);
        true
    }
}
