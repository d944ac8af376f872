//! What was written for the next life, and so what is to be written with this step (contract 16.1).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::issue::IssueId;
use crate::orchestrator::claims::Claims;
use crate::run::RunId;
use crate::snapshot::{HoldRow, Totals};
use crate::store::{
    ClaimRow, DueTime, Durability, HeldAgentRow, OperatorRow, PollRow, RunRow, Write,
};
use crate::time::{Mono, Now};

/// How long counts of tokens may be newer than what is kept.
const USAGE_DELAY: Duration = Duration::from_secs(30);

/// The rows as they were last written.
#[derive(Debug, Default)]
pub(super) struct Journal {
    operator: OperatorRow,
    totals: Totals,
    /// With the deadline that its due time stands for.
    claims: BTreeMap<IssueId, (Option<Mono>, ClaimRow)>,
    holds: BTreeMap<String, (Mono, HeldAgentRow)>,
    /// When the counts of tokens are to be written, if there are newer ones.
    usage_due: Option<Mono>,
    writes: Vec<Write>,
    durability: Durability,
}

impl Journal {
    /// Begins with what the last life wrote.
    pub(super) fn new(operator: OperatorRow, totals: Totals) -> Self {
        Self { operator, totals, ..Self::default() }
    }

    /// Takes over a claim that the last life wrote, and the deadline that it has in this one.
    pub(super) fn restore_claim(&mut self, wake: Option<Mono>, row: ClaimRow) {
        self.claims.insert(row.issue.id.clone(), (wake, row));
    }

    /// Takes over a hold that the last life wrote.
    pub(super) fn restore_hold(&mut self, until: Mono, row: HeldAgentRow) {
        self.holds.insert(row.agent.clone(), (until, row));
    }

    /// Leaves the row of a claim to a later life, or to the return of its scope.
    pub(super) fn leave_claim(&mut self, id: &IssueId) {
        self.claims.remove(id);
    }

    /// Notes newer counts of tokens. Returns when they are to be written.
    pub(super) fn note_usage(&mut self, now: Mono) -> Mono {
        *self.usage_due.get_or_insert(now + USAGE_DELAY)
    }

    /// Returns when counts of tokens are to be written.
    pub(super) const fn usage_due(&self) -> Option<Mono> {
        self.usage_due
    }

    /// Notes that all counts of tokens are written.
    pub(super) const fn forget_usage(&mut self) {
        self.usage_due = None;
    }

    /// Whether counts of tokens are to be written now.
    pub(super) fn pass(&mut self, now: Mono) -> bool {
        self.usage_due.take_if(|due| *due <= now).is_some()
    }

    /// Writes what operators decided, if that is another thing.
    pub(super) fn write_operator(&mut self, paused: bool) {
        if self.operator.paused != paused {
            self.operator.paused = paused;
            self.write(Write::Operator(self.operator.clone()), Durability::Machine);
        }
    }

    /// Writes when the tracker was read.
    pub(super) fn write_polls(&mut self, row: PollRow) {
        self.write(Write::Polls(row), Durability::Process);
    }

    /// Writes the sums, if they are others.
    pub(super) fn write_totals(&mut self, totals: &Totals) {
        if self.totals != *totals {
            self.totals.clone_from(totals);
            self.write(Write::Totals(totals.clone()), Durability::Process);
        }
    }

    /// Writes a run. That it begins must be known before its agent can do anything.
    pub(super) fn write_run(&mut self, row: RunRow, is_new: bool) {
        let durability = if is_new { Durability::Machine } else { Durability::Process };
        self.write(Write::Run(Box::new(row)), durability);
    }

    /// Writes a claim, if its row is another.
    pub(super) fn write_claim(&mut self, id: &IssueId, claims: &Claims, now: Now) {
        let wake = claims.get(id).and_then(|claim| claim.wake());
        match (claims.claim_row(id), self.claims.get(id)) {
            (None, None) => {}
            (None, Some((_, old))) => {
                let gone = Write::ClaimGone { scope: old.scope.clone(), issue: id.clone() };
                self.claims.remove(id);
                self.write(gone, Durability::Machine);
            }
            (Some(mut row), old) => {
                let is_waiting = row.stage == crate::store::ClaimStage::Waiting;
                let wake = wake.filter(|_| is_waiting);
                row.due = match (wake, old) {
                    (Some(at), Some((known, old))) if *known == Some(at) => old.due,
                    (Some(at), _) => Some(DueTime::after(now.mono.until(at), now.wall)),
                    (None, _) => None,
                };
                let old = old.map(|(_, old)| old);
                if old == Some(&row) {
                    return;
                }
                let durability = claim_durability(old, &row);
                self.claims.insert(id.clone(), (wake, row.clone()));
                self.write(Write::Claim(Box::new(row)), durability);
            }
        }
    }

    /// Writes the holds that are others.
    pub(super) fn write_holds<'a>(&mut self, holds: impl Iterator<Item = &'a HoldRow>, now: Now) {
        let mut gone = std::mem::take(&mut self.holds);
        for hold in holds {
            let known = gone.remove(&hold.agent);
            let row = match known {
                Some((until, row)) if until == hold.until && row.failure == hold.failure => row,
                _ => {
                    let due = DueTime::after(now.mono.until(hold.until), now.wall);
                    let (agent, failure) = (hold.agent.clone(), hold.failure.clone());
                    let row = HeldAgentRow { agent, due, failure };
                    self.write(Write::Hold(row.clone()), Durability::Process);
                    row
                }
            };
            self.holds.insert(hold.agent.clone(), (hold.until, row));
        }
        for agent in gone.into_keys() {
            self.write(Write::HoldGone { agent }, Durability::Process);
        }
    }

    /// Takes what is to be written with this step.
    pub(super) fn take(&mut self) -> (Vec<Write>, Durability) {
        (std::mem::take(&mut self.writes), std::mem::take(&mut self.durability))
    }

    fn write(&mut self, write: Write, durability: Durability) {
        self.writes.push(write);
        self.durability = self.durability.max(durability);
    }
}

/// Returns how well a claim must be kept: a run, a turn, a question or a block that begins or ends
/// must not be lost, and what is counted may be a second late.
fn claim_durability(old: Option<&ClaimRow>, new: &ClaimRow) -> Durability {
    let part = |row: &ClaimRow| {
        (row.stage, row.asked.clone(), row.question.clone(), row.thread.clone(), row.seen)
    };
    if old.map(part) == Some(part(new)) { Durability::Process } else { Durability::Machine }
}

impl super::Orchestrator {
    /// Writes all rows that this step changed.
    pub(super) fn write_rows(&mut self) {
        let (now, journal) = (self.now, &mut self.journal);
        // The sums and what is in them already are written together, or a restart in between would
        // count it twice.
        if journal.pass(now.mono) || self.claims.has_dirty_runs() {
            journal.forget_usage();
            self.claims.touch_used();
        }
        let runs = self.claims.take_dirty_runs();
        if !runs.is_empty() {
            self.journal.write_totals(&self.totals);
        }
        for run in runs {
            self.write_run(run);
        }
        for id in self.claims.take_dirty() {
            self.journal.write_claim(&id, &self.claims, now);
        }
        self.journal.write_holds(self.pacing.holds.rows(), now);
        self.journal.write_operator(self.lifecycle.is_paused());
        (self.out.writes, self.out.durability) = self.journal.take();
    }

    fn write_run(&mut self, run: RunId) {
        let is_new = self
            .out
            .effects
            .iter()
            .any(|effect| matches!(effect, super::Effect::Start(start) if start.run == run));
        if let Some(row) = self.claims.run_row(run) {
            self.journal.write_run(row, is_new);
        }
    }
}
