//! What a fresh look at claimed issues and left-over workspaces changes (contract 4.2, 8.2).

use std::sync::Arc;

use crate::failure::Failure;
use crate::issue::{Issue, IssueId};
use crate::policy::{self, Standing};
use crate::tracker::{CandidateQuery, Candidates, Purpose};
use crate::workspace::{HostId, WorkspaceKey};

use super::claims::{After, Claim, Run, Stage};
use super::reads::{Asked, Found, Seen};
use super::{NoticeKind, Orchestrator, ReadId, ReleaseReason, Removal, StopReason};

impl Orchestrator {
    /// Takes in a read of claimed issues. An answer changes only claims that are as they were when
    /// it was asked (contract 4.8); after a failed read, everything goes on (8.3).
    pub(super) fn refreshed(&mut self, read: ReadId, asked: Vec<(IssueId, u64)>, found: &Found) {
        for (id, version) in asked {
            let unchanged = self.claims.get(&id).is_some_and(|claim| claim.version() == version);
            if !unchanged || self.claims.is_older(&id, read) {
                continue;
            }
            match found.see(&id) {
                Seen::Failed(failure) => {
                    if found.failure().is_none() {
                        let message = failure.message.clone();
                        self.notice_of(&id, None, NoticeKind::Unreadable { message });
                    }
                }
                Seen::Absent => {
                    // It is gone or out of scope: stop or release, keep the workspace.
                    self.claims.saw(&id, read);
                    self.leave(&id, StopReason::Gone, After::Release(ReleaseReason::Gone));
                }
                Seen::Present(fresh) => self.present(&id, read, Arc::clone(fresh)),
            }
        }
    }

    fn present(&mut self, id: &IssueId, read: ReadId, fresh: Arc<Issue>) {
        let standing = policy::standing(&fresh, &self.settings().tracker);
        // A list that was asked for later knows better.
        if standing == Standing::Terminal && self.backlog.shows_alive_since(id, read) {
            return;
        }
        let moved = self.claims.get(id).is_some_and(|claim| has_moved(claim, &fresh));
        self.accept(id, read, fresh);
        match standing {
            Standing::Terminal => self.leave(id, StopReason::Terminal, After::Clean),
            Standing::Inactive => {
                let release = After::Release(ReleaseReason::NotActive);
                self.leave(id, StopReason::NotActive, release);
            }
            Standing::Active => self.still_active(id, moved),
        }
    }

    /// Ends the work on an issue: what runs is stopped, and `after` follows.
    fn leave(&mut self, id: &IssueId, why: StopReason, after: After) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        match *claim.stage() {
            // Told to finish, it is not stopped as well. The newest read says what follows, and may
            // take a decision to clean back.
            Stage::Running { run } if self.claims.is_finishing(run) => {
                if let Some(live) = self.claims.run_mut(run) {
                    live.then = Some(after);
                }
            }
            Stage::Running { run } => {
                let (now, grace) = (self.now.mono, self.settings().agent.finish_grace);
                let grant = |live: &mut Run| live.grant_grace(after.clone(), now, grace);
                if why == StopReason::Gone || !self.claims.change(run, grant) {
                    self.claims.change(run, Run::withdraw_grace);
                    self.stop(id, why, after);
                }
            }
            Stage::Stopping { .. } => {
                if !self.claims.revise_stop(id, after.clone()) {
                    self.stop(id, why, after);
                }
            }
            Stage::Waiting { .. } | Stage::Blocked { .. } => self.follow(id, after),
            Stage::Checking { .. } | Stage::Cleaning { .. } => {}
        }
    }

    fn still_active(&mut self, id: &IssueId, moved: bool) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        match *claim.stage() {
            // It seemed over or gone, and is not: so it is free again once the run is gone.
            Stage::Stopping { .. } => {
                self.claims.revise_stop(id, After::Release(ReleaseReason::NotEligible));
            }
            Stage::Running { run } => {
                // Finishing because it seemed over, and it is not: a normal end after all.
                self.claims.change(run, Run::withdraw_grace);
                if let Some(live) = self.claims.run_mut(run)
                    && matches!(live.then, Some(After::Clean | After::Release(_)))
                {
                    live.then = None;
                }
            }
            // Whatever kept it is gone: due at once.
            Stage::Blocked { .. } if moved => self.make_ready(id),
            // In which state it was left is part of what is saved of an operator's stop.
            Stage::Blocked { .. } => self.claims.note_left(id),
            Stage::Waiting { .. } | Stage::Checking { .. } | Stage::Cleaning { .. } => {}
        }
    }

    /// Takes in a read of unclaimed records: workspaces of terminal issues go (contract 4.2).
    pub(super) fn swept(&mut self, read: ReadId, asked: Vec<IssueId>, found: &Found) {
        for id in asked {
            let Some(issue) = found.see(&id).issue() else {
                continue;
            };
            let is_over = policy::standing(issue, &self.settings().tracker) == Standing::Terminal;
            if !is_over || self.claims.contains(&id) || self.backlog.shows_alive_since(&id, read) {
                continue;
            }
            let Some(record) = self.folders.record(&id).cloned() else {
                continue;
            };
            if self.folders.is_lived_in(&id, &record.key, &self.claims) {
                continue;
            }
            self.claim_to_clean(
                Arc::clone(issue),
                read,
                record.key.clone(),
                Removal::Recorded(record),
            );
        }
    }

    /// Reads the terminal issues, once, to match folders without a record against them.
    pub(super) fn read_strays(&mut self) {
        if !self.folders.has_unmatched_strays() || self.reads.is_matching_strays() {
            return;
        }
        let states = self.settings().tracker.terminal_states.clone();
        if !states.is_empty() {
            // All of them: a folder of any could be there.
            let all = CandidateQuery { states, enough: usize::MAX };
            self.ask(Asked::Strays, Some(all), Vec::new());
        }
    }

    pub(super) fn strays_answered(&mut self, read: ReadId, result: Result<Candidates, Failure>) {
        let list = match result {
            Ok(list) => list,
            Err(failure) => {
                return self
                    .out
                    .notice(NoticeKind::ReadFailed { purpose: Purpose::Sweep, failure });
            }
        };
        for issue in list.issues {
            let Ok(key) = WorkspaceKey::derive(issue.identifier.as_str()) else {
                continue;
            };
            let is_ours = self.folders.is_stray(&key)
                && !self.claims.contains(&issue.id)
                && !self.backlog.shows_alive_since(&issue.id, read)
                && self.folders.owner(&key).is_none()
                && policy::standing(&issue, &self.settings().tracker) == Standing::Terminal;
            if is_ours {
                self.claim_to_clean(Arc::new(issue), read, key.clone(), Removal::Stray(key));
            }
        }
        let keys = self.folders.match_strays();
        if !keys.is_empty() {
            self.out.notice(NoticeKind::StraysLeft { keys });
        }
    }

    fn claim_to_clean(
        &mut self,
        issue: Arc<Issue>,
        read: ReadId,
        key: WorkspaceKey,
        what: Removal,
    ) {
        if self.lifecycle.is_shutting_down() {
            return;
        }
        let id = issue.id.clone();
        let host = match &what {
            Removal::Recorded(record) => record.host.clone(),
            Removal::Stray(_) => HostId::local(),
        };
        let stage = Stage::Cleaning { workspace: what.clone(), removal: None, failures: 0 };
        let scope = self.configuration.scope.clone();
        self.claims.add(Claim::new(issue, read, scope, key, host, stage));
        self.remove(&id, what, 0);
        self.notice_of(&id, None, NoticeKind::Cleaning);
    }
}

/// Whether the issue is in another state than it was left in. An agent may have moved it just
/// before it asked its question, so the first look after that, which is taken at once, does not
/// count.
fn has_moved(claim: &Claim, fresh: &Issue) -> bool {
    let is_news = !matches!(claim.stage(), Stage::Blocked { seen: false, .. });
    is_news && claim.issue().state != fresh.state
}
