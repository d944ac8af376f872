//! Carries the tracker's deliveries: some are lost, some late, and some are of no issue.

use std::collections::BTreeMap;
use std::sync::Arc;

use symphony_core::{Issue, IssueId};

use crate::faults::{Fault, Luck};
use crate::plan::Plan;

/// The deliveries of a world.
#[derive(Debug)]
pub(crate) struct Courier {
    pub(crate) luck: Luck,
    on_the_way: BTreeMap<u64, Vec<IssueId>>,
    sent: u64,
}

impl Courier {
    pub(crate) fn new(plan: &Plan) -> Self {
        let luck = Luck::new(plan.seed, 9, plan.faults);
        Self { luck, on_the_way: BTreeMap::new(), sent: 0 }
    }

    fn send(&mut self, after: u64, issues: Vec<IssueId>) -> (u64, u64) {
        self.sent += 1;
        self.on_the_way.insert(self.sent, issues);
        (after, self.sent)
    }

    /// Tells of what changed: after how many milliseconds which delivery comes.
    pub(crate) fn announce(&mut self, changed: Vec<IssueId>) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        for id in changed {
            if !self.luck.strikes(Fault::Delivered, 950)
                || self.luck.strikes(Fault::DeliveryLost, 40)
            {
                continue;
            }
            let mut after = self.luck.rng.between(20, 4_000);
            if self.luck.strikes(Fault::DeliveryLate, 50) {
                after = self.luck.rng.between(30_000, 600_000);
            }
            sent.push(self.send(after, vec![id]));
        }
        sent
    }

    /// What is delivered though nothing happened.
    pub(crate) fn make_up(&mut self, known: &[Arc<Issue>]) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        if self.luck.strikes(Fault::DeliveryFalse, 150) && !known.is_empty() {
            let issue = &known[self.luck.rng.index(known.len())];
            sent.push(self.send(1, vec![issue.id.clone()]));
        }
        if self.luck.strikes(Fault::DeliveryUnknown, 80) {
            let issues = self.luck.rng.pick(&[&[][..], &["nobody"], &["nobody", "b1"]]);
            sent.push(self.send(1, issues.iter().copied().map(IssueId::from).collect()));
        }
        if self.luck.strikes(Fault::DeliveryFlood, 15) {
            let mut issues: Vec<IssueId> = known.iter().map(|issue| issue.id.clone()).collect();
            issues.extend((0..60).map(|n| IssueId::from(format!("flood-{n}"))));
            for part in issues.chunks(25) {
                sent.push(self.send(1, part.to_vec()));
            }
        }
        sent
    }

    /// A delivery arrives.
    pub(crate) fn take(&mut self, number: u64) -> Option<Vec<IssueId>> {
        self.on_the_way.remove(&number)
    }
}
