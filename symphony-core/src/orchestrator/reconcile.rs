//! What a fresh look at claimed issues and left-over workspaces changes (contract 4.2, 8.2).

use std::sync::Arc;

use crate::failure::Failure;
use crate::issue::{Issue, IssueId};
use crate::policy::{self, Standing};
use crate::tracker::Candidates;
use crate::workspace::WorkspaceKey;

use super::claim::{After, Claim, Stage};
use super::jobs::PollParts;
use super::read::{Asked, Found, Seen};
use super::run::TurnStage;
use super::{
    Happened, Orchestrator, Purpose, Query, ReadId, ReleaseReason, Removal, RunId, StopReason,
};

impl Orchestrator {
    /// Claimed issues were read. An answer changes only claims that are as they were when it was
    /// asked (contract 4.8); for a failed read, everything goes on (8.3).
    pub(super) fn refreshed(
        &mut self,
        read: ReadId,
        asked: Vec<(IssueId, u64)>,
        found: &mut Found,
    ) {
        for (id, version) in asked {
            let seen = found.take(&id);
            let unchanged = self.claims.get(&id).is_some_and(|claim| claim.version == version);
            if !unchanged || self.is_older(&id, read) {
                continue;
            }
            match seen {
                Seen::Failed(failure) => {
                    if matches!(found, Found::Some(_)) {
                        let message = failure.message;
                        self.notice_of(&id, None, Happened::Unreadable { message });
                    }
                }
                Seen::Absent => self.gone(&id, read),
                Seen::Present(fresh) => self.present(&id, read, fresh),
            }
        }
    }

    /// The issue is gone or out of scope: stop or release, keep the workspace.
    fn gone(&mut self, id: &IssueId, read: ReadId) {
        self.saw(id, read);
        self.leave(id, StopReason::Gone, ReleaseReason::Gone);
    }

    fn present(&mut self, id: &IssueId, read: ReadId, fresh: Arc<Issue>) {
        let standing = policy::standing(&fresh, &self.settings().tracker);
        // A list that was asked for later knows better.
        if standing == Standing::Terminal && self.kept.shows_alive_since(id, read) {
            return;
        }
        let moved = self.claims.get(id).is_some_and(|claim| has_moved(claim, &fresh));
        self.accept(id, read, fresh);
        match standing {
            Standing::Terminal => self.over(id),
            Standing::Inactive => self.leave(id, StopReason::NotActive, ReleaseReason::NotActive),
            Standing::Active => self.still_active(id, moved),
        }
    }

    /// The issue is terminal: whatever runs is stopped, then the workspace goes.
    fn over(&mut self, id: &IssueId) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        match claim.stage {
            Stage::Running { run } if self.is_finishing(run) => {
                self.after_finish(run, After::Clean);
            }
            Stage::Running { run } => {
                if !self.grant_grace(run, After::Clean) {
                    self.stop(id, StopReason::Terminal, After::Clean);
                }
            }
            Stage::Stopping { .. } => self.stop(id, StopReason::Terminal, After::Clean),
            Stage::Waiting { .. } | Stage::Blocked { .. } => self.clean(id),
            Stage::Checking { .. } | Stage::Cleaning { .. } => {}
        }
    }

    /// The issue is not ours to work on any more: stop or release, keep the workspace.
    fn leave(&mut self, id: &IssueId, why: StopReason, release: ReleaseReason) {
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        match &mut claim.stage {
            Stage::Running { run } if self.runs.get(run).is_some_and(finishes) => {
                let run = *run;
                self.after_finish(run, After::Release(release));
            }
            // The newest read says what it is released for, and may take a decision to clean back.
            Stage::Stopping { then, .. } if then.is_about_the_issue() => {
                *then = After::Release(release);
            }
            Stage::Running { run } => {
                let run = *run;
                let after = After::Release(release);
                if why != StopReason::NotActive || !self.grant_grace(run, after.clone()) {
                    self.withdraw_grace(run);
                    self.stop(id, why, after);
                }
            }
            Stage::Stopping { .. } => self.stop(id, why, After::Release(release)),
            Stage::Waiting { .. } | Stage::Blocked { .. } => self.release(id, release),
            Stage::Checking { .. } | Stage::Cleaning { .. } => {}
        }
    }

    fn still_active(&mut self, id: &IssueId, moved: bool) {
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        match &mut claim.stage {
            // It seemed over or gone, and is not: so it is free again once the run is gone.
            Stage::Stopping { then, .. } if then.is_about_the_issue() => {
                *then = After::Release(ReleaseReason::NotEligible);
            }
            Stage::Running { run } => {
                // Finishing because it seemed over, and it is not: a normal end after all.
                let run = *run;
                self.withdraw_grace(run);
                if let Some(live) = self.runs.get_mut(&run)
                    && matches!(live.then, Some(After::Clean | After::Release(_)))
                {
                    live.then = None;
                }
            }
            // Whatever kept it is gone: due at once.
            Stage::Blocked { .. } if moved => self.make_ready(id),
            // In which state it was left is part of what is saved of an operator's stop.
            Stage::Blocked { seen: seen @ false, .. } => {
                *seen = true;
                self.save();
            }
            _ => {}
        }
    }

    fn is_finishing(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(finishes)
    }

    /// A run that is told to finish is not stopped as well; only what follows changes. The newest
    /// read decides, so this may also take a decision to clean back.
    fn after_finish(&mut self, run: RunId, after: After) {
        if let Some(live) = self.runs.get_mut(&run) {
            live.then = Some(after);
        }
    }

    /// Issues of unclaimed records were read: workspaces of terminal ones go (contract 4.2).
    pub(super) fn swept(&mut self, read: ReadId, asked: Vec<IssueId>, found: &mut Found) {
        for id in asked {
            let Seen::Present(issue) = found.take(&id) else {
                continue;
            };
            let is_over = policy::standing(&issue, &self.settings().tracker) == Standing::Terminal;
            if !is_over || self.claims.contains_key(&id) || self.kept.shows_alive_since(&id, read) {
                continue;
            }
            let Some(record) = self.record(&id).cloned() else {
                continue;
            };
            if self.is_lived_in(&id, &record.key) {
                continue;
            }
            self.claim_to_clean(issue, read, record.key.clone(), Removal::Recorded(record));
        }
    }

    /// What an open sweep will say of an issue that is claimed now is old news, also when the claim
    /// is gone by then. So with what is read because of a delivery.
    pub(super) fn forget_in_sweeps(&mut self, id: &IssueId) {
        for open in self.reads.values_mut() {
            match &mut open.asked {
                Asked::Poll(PollParts { sweep: Some(ids), .. })
                | Asked::Delivery { others: ids, .. } => ids.retain(|other| other != id),
                _ => {}
            }
        }
    }

    /// Folders without a record are matched once against the terminal issues.
    pub(super) fn read_strays(&mut self) {
        let already = self.reads.values().any(|open| matches!(open.asked, Asked::Strays));
        if self.strays.is_empty() || self.strays_matched || already {
            return;
        }
        let states = self.settings().tracker.terminal_states.clone();
        if states.is_empty() {
            return;
        }
        self.ask(Query::ByStates(states), Asked::Strays);
    }

    pub(super) fn strays_answered(&mut self, read: ReadId, result: Result<Candidates, Failure>) {
        let list = match result {
            Ok(list) => list,
            Err(failure) => return self.read_failed(Purpose::Sweep, &failure),
        };
        for issue in list.issues {
            let Ok(key) = WorkspaceKey::derive(issue.identifier.as_str()) else {
                continue;
            };
            let is_ours = self.strays.contains(&key)
                && !self.claims.contains_key(&issue.id)
                && !self.kept.shows_alive_since(&issue.id, read)
                && self.key_owner(&key).is_none()
                && policy::standing(&issue, &self.settings().tracker) == Standing::Terminal;
            if is_ours {
                self.claim_to_clean(Arc::new(issue), read, key.clone(), Removal::Stray(key));
            }
        }
        let is_news = !std::mem::replace(&mut self.strays_told, true);
        self.strays_matched = true;
        let removing = |key: &WorkspaceKey| self.key_owner(key).is_some();
        let left: Vec<WorkspaceKey> =
            self.strays.iter().filter(|key| !removing(key)).cloned().collect();
        if is_news && !left.is_empty() {
            self.notice(Happened::StraysLeft { keys: left });
        }
    }

    fn claim_to_clean(
        &mut self,
        issue: Arc<Issue>,
        read: ReadId,
        key: WorkspaceKey,
        what: Removal,
    ) {
        if self.shutting_down {
            return;
        }
        let id = issue.id.clone();
        let host = match &what {
            Removal::Recorded(record) => record.host.clone(),
            Removal::Stray(_) => crate::HostId::local(),
        };
        let stage = Stage::Cleaning { workspace: what.clone(), removal: None, failures: 0 };
        let claim = Claim::new(issue, read, key, host, stage);
        self.claims.insert(id.clone(), claim);
        self.remove(&id, what, 0);
        self.notice_of(&id, None, Happened::Cleaning);
    }
}

/// Whether the issue is in another state than it was left in. An agent may have moved it just before
/// it asked its question, so the first look after that, which is taken at once, is no news.
fn has_moved(claim: &Claim, fresh: &Issue) -> bool {
    let is_news = !matches!(claim.stage, Stage::Blocked { seen: false, .. });
    is_news && claim.issue.state != fresh.state
}

fn finishes(run: &super::run::Run) -> bool {
    run.turn == TurnStage::Finishing
}
