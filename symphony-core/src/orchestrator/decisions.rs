//! What operators decided, and how it survives a restart (contract 4.7).

use std::sync::Arc;

use crate::issue::Issue;
use crate::time::Now;
use crate::workspace::{HostId, WorkspaceKey};

use super::claim::{Claim, Stage};
use super::{BlockReason, Decisions, Happened, Orchestrator, ReadId, StoppedIssue};

impl Orchestrator {
    /// What operators decided, for the next life. A run that is still ending because an operator
    /// stopped it counts as stopped, and so does what was stopped when the service was told to end.
    pub(super) fn decisions(&self) -> Decisions {
        let stopped = self.claims.values().filter_map(|claim| {
            let (since, seen) = match &claim.stage {
                Stage::Blocked { why: BlockReason::Operator, since, seen } => (since.wall, *seen),
                Stage::Stopping { by_operator: true, .. } => (self.now.wall, false),
                _ => return None,
            };
            let issue = Issue { description: None, ..Issue::clone(&claim.issue) };
            Some(StoppedIssue { issue, since, seen, attempt: claim.attempt })
        });
        let mut stopped: Vec<StoppedIssue> = stopped.collect();
        for earlier in &self.stopped_at_end {
            if !stopped.iter().any(|known| known.issue.id == earlier.issue.id) {
                stopped.push(earlier.clone());
            }
        }
        Decisions { paused: self.paused, stopped }
    }

    /// Goes on with what operators decided in an earlier life: the issues are blocked as they were,
    /// and the next refresh tells whether they still are.
    pub(super) fn restore_decisions(&mut self, decisions: Decisions) {
        self.paused = decisions.paused;
        if self.paused {
            self.notice(Happened::Paused);
        }
        for StoppedIssue { issue, since, seen, attempt } in decisions.stopped {
            let id = issue.id.clone();
            // An identifier that cannot name a folder now may be another one when the issue starts.
            let key = self.key_for(&issue);
            let key = key.or_else(|_| WorkspaceKey::derive(&format!("stopped-{id}")));
            let (Ok(key), true) = (key, issue.is_well_formed()) else {
                continue;
            };
            let host = self.record(&id).map_or_else(HostId::local, |record| record.host.clone());
            // The monotonic clock of an earlier life says nothing here.
            let since = Now { mono: self.now.mono, wall: since };
            let why = BlockReason::Operator;
            let stage = Stage::Blocked { why: why.clone(), since, seen };
            let claim = Claim::new(Arc::new(issue), ReadId(0), key, host, stage);
            self.claims.insert(id.clone(), Claim { attempt, ..claim });
            self.notice_of(&id, None, Happened::Blocked { why });
        }
    }
}
