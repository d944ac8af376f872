//! Deliveries (webhooks): the issues that they are about are read, together and not too often
//! (contract 12.8).

use crate::issue::IssueId;

use super::reads::{Asked, Found, RESTART_PAUSE};
use super::{Orchestrator, ReadId};

impl Orchestrator {
    /// Takes in a delivery: something happened to these issues.
    pub(super) fn delivered(&mut self, issues: Vec<IssueId>) {
        self.pacing.touch(self.now.mono);
        if !self.backlog.deliveries.receive(issues, self.now) {
            self.leave_to_polls();
        }
    }

    /// Leaves the waiting issues to polls, which come early: one poll is cheaper than many reads.
    fn leave_to_polls(&mut self) {
        self.backlog.deliveries.leave_to_polls();
        let pace = self.schedule().job_pace();
        self.reads.jobs.candidates.hasten(pace.candidates.min(RESTART_PAUSE));
        self.reads.jobs.refresh.hasten(pace.refresh.min(RESTART_PAUSE));
    }

    /// Reads the issues that deliveries are about, and candidates that wait for one of them.
    pub(super) fn read_deliveries(&mut self) {
        let now = self.now.mono;
        if self.schedule().next_delivery_read().is_none_or(|at| at > now) {
            return;
        }
        let ids = self.schedule().delivered_issues();
        let interval = self.settings().polling.interval;
        self.backlog.deliveries.take(&ids, now, interval);
        let (mut claimed, mut others) = (Vec::new(), Vec::new());
        for id in &ids {
            match self.claims.get(id) {
                Some(claim) => claimed.push((id.clone(), claim.version())),
                None => others.push(id.clone()),
            }
        }
        let ids = ids.into_iter().collect();
        self.ask(Asked::Delivery { claimed, others }, None, ids);
    }

    /// Takes in a read because of deliveries: claimed issues are refreshed, others join or leave
    /// the candidates, workspaces of terminal ones go. Only the read before a start can start
    /// anything.
    pub(super) fn delivery_answered(
        &mut self,
        read: ReadId,
        claimed: Vec<(IssueId, u64)>,
        others: Vec<IssueId>,
        found: &Found,
    ) {
        if let Some(failure) = found.failure() {
            let max = self.settings().agent.max_retry_backoff;
            let deliveries = &mut self.backlog.deliveries;
            if deliveries.read_failed(failure, self.now.mono, max) {
                deliveries.read_again(claimed.into_iter().map(|(id, _)| id).chain(others));
            } else {
                self.leave_to_polls();
            }
            return;
        }
        self.backlog.deliveries.end_read();
        let ids = claimed.iter().map(|(id, _)| id).chain(&others);
        let tracker = &self.configuration.settings.tracker;
        if self.backlog.keep_read(read, ids, found, tracker) {
            self.reads.refill.want_now();
        }
        self.refreshed(read, claimed, found);
        self.swept(read, others, found);
    }
}
