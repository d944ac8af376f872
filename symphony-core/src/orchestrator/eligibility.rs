//! Which issues may start now, which are chosen first, and on which machine (contract section 5).

use crate::issue::{Issue, IssueId};
use crate::policy::{self, Rank, Standing};
use crate::settings::Settings;
use crate::snapshot::Reason;
use crate::time::Mono;
use crate::workspace::{HostId, WorkspaceKey};

use super::backlog::{Backlog, Best, Choice};
use super::claims::{Claims, Full};
use super::folders::Folders;
use super::holds::{HoldGate, Holds};
use super::lifecycle::Lifecycle;
use super::reads::Reads;

/// A read-only view of what decides whether an issue starts: it answers questions, and changes
/// nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eligibility<'a> {
    pub(super) settings: &'a Settings,
    pub(super) now: Mono,
    pub(super) lifecycle: &'a Lifecycle,
    pub(super) claims: &'a Claims,
    pub(super) folders: &'a Folders,
    pub(super) reads: &'a Reads,
    pub(super) backlog: &'a Backlog,
    pub(super) holds: &'a Holds,
}

/// An issue that is read again before it starts. A fresh one comes with what a new claim needs.
pub(super) type Chosen = (IssueId, Option<(Issue, WorkspaceKey)>);

impl Eligibility<'_> {
    /// Returns the best issues for the free slots, and a few to spare, in the order of dispatch.
    pub(super) fn choose(&self) -> Vec<Chosen> {
        let free = match self.hold_gate() {
            HoldGate::Open => self.free_slots() as usize,
            HoldGate::OneProbe => self.free_slots().min(1) as usize,
            HoldGate::Closed(_) => 0,
        };
        if free == 0 {
            return Vec::new();
        }
        let mut best = Best::new(free, self.settings, self.claims.slots());
        for (id, claim) in self.claims.ready() {
            let rank = Rank::retry(claim.issue());
            best.offer(rank, &claim.issue().state, Choice::Retry(id), || {
                self.host_obstacle(id).is_none()
            });
        }
        if self.reads.refill.fresh_from().is_none() {
            for (index, issue) in self.backlog.issues().iter().enumerate() {
                best.offer(Rank::fresh(issue), &issue.state, Choice::Kept(index), || {
                    self.is_free_candidate(issue)
                });
            }
        }
        let mut chosen: Vec<Chosen> = Vec::new();
        for choice in best.into_choices() {
            match choice {
                Choice::Retry(id) => chosen.push((id.clone(), None)),
                Choice::Kept(index) => {
                    let issue = &self.backlog.issues()[index];
                    // A list may name an issue twice.
                    let Ok(key) = self.folders.key_for(issue) else {
                        continue;
                    };
                    if !chosen.iter().any(|(id, _)| *id == issue.id) {
                        chosen.push((issue.id.clone(), Some((issue.clone(), key))));
                    }
                }
            }
        }
        chosen
    }

    /// Returns the machine on which the issue can start now.
    pub(super) fn slot_for(&self, issue: &Issue) -> Result<HostId, Full> {
        if self.free_slots() == 0 || matches!(self.hold_gate(), HoldGate::Closed(_)) {
            return Err(Full::Everywhere);
        }
        if self.is_state_full(issue) {
            return Err(Full::State);
        }
        let home = self.folders.record(&issue.id).map(|record| &record.host);
        self.claims.slots().host_for(self.settings, home)
    }

    /// Counts candidates at the front of a longer list that cannot start: the next list must reach
    /// beyond them, else what could start behind them never would.
    pub(super) fn idle_candidates(&self) -> usize {
        if !self.backlog.has_more() {
            return 0;
        }
        let is_idle = |issue: &&Issue| {
            !self.claims.contains(&issue.id)
                && (!self.is_free_candidate(issue) || self.is_state_full(issue))
        };
        self.backlog.issues().iter().filter(is_idle).count()
    }

    /// Whether nothing but slots keeps a candidate from starting.
    fn is_free_candidate(&self, issue: &Issue) -> bool {
        !self.claims.contains(&issue.id)
            && self.backlog.learned(&issue.id).is_none()
            && self.unfit(issue).is_none()
            && self.host_obstacle(&issue.id).is_none()
    }

    /// Returns why an issue may not start, whatever slots are free (contract 5.1, 5.2).
    pub(super) fn unfit(&self, issue: &Issue) -> Option<Reason> {
        let tracker = &self.settings.tracker;
        if !issue.is_well_formed() {
            return Some(Reason::Malformed);
        }
        let Ok(owner) = self.folders.other_owner(issue) else {
            return Some(Reason::InvalidIdentifier);
        };
        match policy::standing(issue, tracker) {
            Standing::Active => {}
            Standing::Terminal => return Some(Reason::Terminal(issue.state.clone())),
            Standing::Inactive if !tracker.active_states.contains(&issue.state) => {
                return Some(Reason::NotActive(issue.state.clone()));
            }
            Standing::Inactive if !issue.dispatchable => {
                return Some(Reason::NotDispatchable(issue.kept_back_by.clone()));
            }
            Standing::Inactive => {
                let label = policy::missing_label(issue, tracker)?;
                return Some(Reason::MissingLabel(label.clone()));
            }
        }
        if let Some(blocker) = policy::open_blocker(issue, tracker) {
            let name = blocker.identifier.as_ref().map(|name| name.as_str());
            let name = name.or(blocker.id.as_ref().map(|id| id.as_str()));
            return Some(Reason::BlockedBy(name.unwrap_or("unknown").to_owned()));
        }
        owner.map(|owner| Reason::WorkspaceHeld(owner.clone()))
    }

    /// Returns the machine that has no room for this issue, if so.
    pub(super) fn host_obstacle(&self, id: &IssueId) -> Option<Reason> {
        let home = self.folders.record(id).map(|record| &record.host);
        if self.settings.hosts.is_empty() && home.is_none_or(HostId::is_local) {
            return None;
        }
        match self.claims.slots().host_for(self.settings, home) {
            Err(Full::Host(host)) => Some(Reason::HostSlot(host)),
            _ => None,
        }
    }

    /// Whether starts to the configured agent may go ahead.
    pub(super) fn hold_gate(&self) -> HoldGate {
        self.holds.gate(&self.settings.agent.kind, self.now)
    }

    pub(super) fn free_slots(&self) -> u32 {
        self.claims.slots().free(self.settings)
    }

    /// Whether the issue's state has a limit of its own, and that is reached.
    pub(super) fn is_state_full(&self, issue: &Issue) -> bool {
        self.claims.slots().free_in_state(self.settings, &issue.state) == Some(0)
    }
}
