//! Why nothing starts: one reason per candidate, one verdict for the service (contract 5.5).

use std::collections::{BTreeMap, BinaryHeap};

use crate::issue::Issue;
use crate::policy::Rank;
use crate::snapshot::{CandidatesView, Explanation, Reason, Unstarted, Verdict};

use super::claims::{Claim, Origin, Stage};
use super::eligibility::Eligibility;
use super::holds::HoldGate;

/// How many candidates the snapshot names.
const MAX_SHOWN_CANDIDATES: usize = 200;

impl Eligibility<'_> {
    /// Explains every candidate that is not running by its one reason, and the service by a
    /// verdict.
    pub(super) fn explain(&self) -> Explanation {
        let judged = self.judged();
        let verdict = self.verdict(judged.iter().any(|row| row.2 == Reason::NextRead));
        let rows = judged.into_iter().map(|(issue, claim, reason)| unstarted(issue, claim, reason));
        Explanation { verdict, unstarted: rows.collect(), read_at: self.backlog.read_at() }
    }

    /// Summarises the same for the snapshot: counts, and the first few candidates.
    ///
    /// One pass without a copy or a sort: lists may be long, and changes frequent. What another
    /// list shows comes last, so that it takes no place of what no other list has.
    pub(super) fn overview(&self) -> CandidatesView {
        // Of each reason: all candidates, and those that no other list shows.
        let mut counts: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
        // The worst is on top.
        let mut first: BinaryHeap<(bool, Rank<'_>, usize)> = BinaryHeap::new();
        for (place, issue) in self.backlog.distinct() {
            let claim = self.claims.get(&issue.id);
            let Some(reason) = self.reason(issue, claim) else {
                continue;
            };
            let is_listed_elsewhere = claim.is_some() || reason.is_over();
            let (all, unclaimed) = counts.entry(reason.as_str()).or_default();
            *all += 1;
            *unclaimed += usize::from(!is_listed_elsewhere);
            let ranked = (is_listed_elsewhere, Rank::fresh(issue), place);
            if first.len() < MAX_SHOWN_CANDIDATES {
                first.push(ranked);
            } else if let Some(mut worst) = first.peek_mut()
                && ranked < *worst
            {
                *worst = ranked;
            }
        }
        let first = first.into_sorted_vec().into_iter().filter_map(|(_, _, place)| {
            let issue = self.backlog.issues().get(place)?;
            let claim = self.claims.get(&issue.id);
            Some(unstarted(issue, claim, self.reason(issue, claim)?))
        });
        let named = |(reason, count): (&&str, usize)| ((*reason).to_owned(), count);
        let all = counts.iter().map(|(reason, (all, _))| (reason, *all));
        let unclaimed = counts.iter().map(|(reason, (_, unclaimed))| (reason, *unclaimed));
        CandidatesView {
            read_at: self.backlog.read_at(),
            total: self.backlog.total(),
            more: self.backlog.has_more(),
            reasons: all.map(named).collect(),
            unclaimed: unclaimed.filter(|(_, count)| *count > 0).map(named).collect(),
            first: first.collect(),
        }
    }

    /// Returns the candidates that are not running, in order of dispatch.
    fn judged<'s>(&'s self) -> Vec<(&'s Issue, Option<&'s Claim>, Reason)> {
        let judge = |(_, issue): (usize, &'s Issue)| {
            let claim = self.claims.get(&issue.id);
            Some((issue, claim, self.reason(issue, claim)?))
        };
        let mut judged: Vec<_> = self.backlog.distinct().filter_map(judge).collect();
        judged.sort_by(|(a, ..), (b, ..)| Rank::fresh(a).cmp(&Rank::fresh(b)));
        judged
    }

    /// Returns why this candidate is not running; `None` if it is.
    fn reason(&self, issue: &Issue, claim: Option<&Claim>) -> Option<Reason> {
        match claim {
            None => {}
            Some(claim) => match claim.stage() {
                Stage::Running { .. } | Stage::Stopping { .. } => return None,
                Stage::Checking { .. } | Stage::Cleaning { .. } => return Some(Reason::Claimed),
                Stage::Blocked { why, .. } => return Some(Reason::NeedsPerson(why.clone())),
                Stage::Waiting { .. } => {
                    let due = claim.wake().map(Reason::WaitingUntil);
                    let obstacle = || self.obstacle(claim.issue(), Origin::Retry);
                    let now = || self.unfit(claim.issue()).unwrap_or_else(obstacle);
                    return Some(due.unwrap_or_else(now));
                }
            },
        }
        if let Some(learned) = self.backlog.learned(&issue.id) {
            return Some(learned.clone());
        }
        Some(self.unfit(issue).unwrap_or_else(|| self.obstacle(issue, Origin::Fresh)))
    }

    /// Returns what keeps a fit issue from starting at this moment.
    fn obstacle(&self, issue: &Issue, origin: Origin) -> Reason {
        if self.lifecycle.is_shutting_down() {
            Reason::ShuttingDown
        } else if !self.lifecycle.problems().is_empty() {
            Reason::InvalidWorkflow
        } else if self.lifecycle.is_paused() {
            Reason::Paused
        } else if self.lifecycle.storage().is_some() {
            Reason::Storage
        } else if let HoldGate::Closed(until) = self.hold_gate() {
            Reason::Hold(until)
        } else if origin == Origin::Fresh && self.reads.refill.fresh_from().is_some() {
            if self.reads.refill.is_over_budget() { Reason::Budget } else { Reason::CheckFailed }
        } else if self.free_slots() == 0 {
            Reason::NoSlot
        } else if self.is_state_full(issue) {
            Reason::StateSlot(issue.state.clone())
        } else {
            self.host_obstacle(&issue.id).unwrap_or(Reason::NextRead)
        }
    }

    /// Whether something is being read before its start.
    fn is_checking(&self) -> bool {
        let mut stages = self.claims.values().map(Claim::stage);
        self.reads.refill.is_open() && stages.any(|stage| matches!(stage, Stage::Checking { .. }))
    }

    /// Returns the one answer; `some_go` says whether any candidate may go with the next read.
    pub(super) fn verdict(&self, some_go: bool) -> Verdict {
        if self.lifecycle.is_shutting_down() {
            Verdict::ShuttingDown
        } else if !self.lifecycle.problems().is_empty() {
            Verdict::InvalidWorkflow(self.lifecycle.problems().to_vec())
        } else if self.lifecycle.is_paused() {
            Verdict::Paused
        } else if let Some(failure) = self.lifecycle.storage() {
            Verdict::Storage(failure.clone())
        } else if let HoldGate::Closed(_) = self.hold_gate()
            && let Some(hold) = self.holds.get(&self.settings.agent.kind)
        {
            Verdict::Held(hold.clone())
        } else if self.free_slots() == 0 {
            Verdict::Full
        } else if let Some(failure) = self.reads.jobs.candidates.failure() {
            Verdict::PollFailed(failure.clone())
        } else if self.backlog.read_at().is_none() {
            Verdict::NotPolledYet
        } else if self.backlog.issues().is_empty() {
            Verdict::NoCandidates
        } else if self.is_checking() || some_go {
            Verdict::Starting
        } else {
            Verdict::NothingEligible
        }
    }
}

fn unstarted(issue: &Issue, claim: Option<&Claim>, reason: Reason) -> Unstarted {
    Unstarted {
        id: issue.id.clone(),
        identifier: issue.identifier.clone(),
        title: issue.title.clone(),
        state: issue.state.clone(),
        is_claimed: claim.is_some(),
        reason,
    }
}
