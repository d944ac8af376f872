//! Claims and live runs as rows that survive a restart (contract 16.1).

use std::collections::BTreeSet;

use crate::issue::{Issue, IssueId};
use crate::orchestrator::BlockReason;
use crate::run::RunId;
use crate::store::{ClaimRow, ClaimStage, RunRow};

use super::{Claim, Claims, Origin, Run, Stage};

impl Claims {
    /// Takes the issues whose row may be another than the one that was last written.
    pub(in crate::orchestrator) fn take_dirty(&mut self) -> BTreeSet<IssueId> {
        std::mem::take(&mut self.dirty)
    }

    /// Takes the runs whose row may be another than the one that was last written, or that ended.
    pub(in crate::orchestrator) fn take_dirty_runs(&mut self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.dirty_runs)
    }

    /// Notes that a live run, and its claim, are to be written.
    pub(in crate::orchestrator) fn touch_run(&mut self, run: RunId) {
        if let Some(live) = self.runs.get(&run) {
            self.dirty.insert(live.issue.clone());
            self.dirty_runs.insert(run);
        }
    }

    /// Whether any run is to be written.
    pub(in crate::orchestrator) fn has_dirty_runs(&self) -> bool {
        !self.dirty_runs.is_empty()
    }

    /// Notes that all live runs that have newer counts of tokens, and their claims, are to be
    /// written.
    pub(in crate::orchestrator) fn touch_used(&mut self) {
        for (id, run) in self.runs.iter_mut().filter(|(_, run)| run.has_new_usage) {
            run.has_new_usage = false;
            self.dirty.insert(run.issue.clone());
            self.dirty_runs.insert(*id);
        }
    }

    /// Returns a claim as a row without its due time; `None` where the next life is to find the
    /// issue by itself.
    pub(in crate::orchestrator) fn claim_row(&self, id: &IssueId) -> Option<ClaimRow> {
        let claim = self.by_issue.get(id)?;
        let mut row = blank_row(claim);
        match &claim.stage {
            Stage::Checking { origin: Origin::Fresh, .. } | Stage::Cleaning { .. } => return None,
            Stage::Checking { .. } | Stage::Waiting { .. } => {}
            Stage::Stopping { by_operator: true, .. } => row.stage = ClaimStage::Blocked,
            Stage::Running { .. } | Stage::Stopping { .. } => row.stage = ClaimStage::Running,
            Stage::Blocked { why, since, seen } => {
                row.stage = ClaimStage::Blocked;
                row.since = Some(since.wall);
                row.seen = *seen;
                if let BlockReason::Question(question) = why {
                    row.question = Some(question.clone());
                }
            }
        }
        Some(row)
    }

    /// Returns a live run as a row.
    pub(in crate::orchestrator) fn run_row(&self, id: RunId) -> Option<RunRow> {
        let run = self.runs.get(&id)?;
        Some(run_row(id, run, self.by_issue.get(&run.issue)?))
    }
}

fn blank_row(claim: &Claim) -> ClaimRow {
    ClaimRow {
        scope: claim.scope.clone(),
        issue: Issue { description: None, ..Issue::clone(&claim.issue) },
        key: claim.key.clone(),
        host: claim.host.clone(),
        stage: ClaimStage::Waiting,
        attempt: claim.attempt,
        failure: claim.failure.clone(),
        unchanged_ends: claim.unchanged_ends,
        interruptions: claim.interruptions,
        due: None,
        thread: claim.thread.as_ref().map(|thread| thread.id.clone()),
        agent: claim.thread.as_ref().map(|thread| thread.agent.to_string()),
        unanswered: claim.unanswered,
        asked: claim.asked.clone(),
        counted: claim.counted.clone(),
        question: None,
        since: None,
        seen: false,
    }
}

/// Returns a run as a row, as long as it lives.
pub(in crate::orchestrator) fn run_row(id: RunId, run: &Run, claim: &Claim) -> RunRow {
    let issue = claim.issue();
    RunRow {
        run: id,
        scope: run.scope.clone(),
        issue: run.issue.clone(),
        identifier: issue.identifier.clone(),
        title: issue.title.clone(),
        state: Some(issue.state.clone()),
        attempt: claim.attempt,
        agent: run.agent.to_string(),
        host: claim.host.clone(),
        began: run.started.wall,
        ended: None,
        outcome: None,
        failure: None,
        turns: run.turns,
        model: run.model.as_deref().map(str::to_owned),
        effort: run.effort.as_deref().map(str::to_owned),
        thread: claim.thread.as_ref().map(|thread| thread.id.clone()),
        tokens: run.tokens,
        cost: run.cost,
    }
}
