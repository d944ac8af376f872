//! What was written for the next life, judged by what it must know (contract 16.1): each claim's row
//! says where the claim stands, and nothing is done before its row says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use symphony_core::orchestrator::{BlockReason, Effect, Step};
use symphony_core::run::RunId;
use symphony_core::snapshot::{Snapshot, Totals};
use symphony_core::store::{
    ClaimRow, ClaimStage, Durability, HeldAgentRow, RowMap, Rows, RunRow, Write,
};
use symphony_core::time::Mono;
use symphony_core::{IssueId, Scope};

use crate::board::SCOPES;
use crate::claims::{Entry, Lineage, Outcome, View};
use crate::oracle::Oracle;
use crate::totals::{Sums, ended};
use crate::violation::{Check, ensure};

/// How old counts of tokens may become before they are written.
const USAGE_DELAY: Duration = Duration::from_secs(30);

/// Everything that was written, of all lives.
#[derive(Debug)]
pub(crate) struct Books {
    claims: BTreeMap<(Scope, IssueId), ClaimRow>,
    /// The runs that no row has ended.
    open: BTreeSet<RunId>,
    totals: Totals,
    paused: bool,
    holds: BTreeMap<String, HeldAgentRow>,
    /// Since when there are counts of tokens that were not written.
    pub(crate) unwritten: Option<Mono>,
    /// The claims whose due time this step wrote.
    due: BTreeSet<IssueId>,
    /// Whether this step wrote anything.
    pub(crate) is_new: bool,
}

impl Books {
    pub(crate) fn new(rows: &Rows) -> Self {
        let key = |row: &ClaimRow| (row.scope.clone(), row.issue.id.clone());
        Self {
            claims: rows.claims.iter().map(|row| (key(row), row.clone())).collect(),
            open: rows.open_runs.iter().map(|row| row.run).collect(),
            totals: rows.totals.clone(),
            paused: rows.operator.paused,
            holds: rows.holds.iter().map(|row| (row.agent.clone(), row.clone())).collect(),
            unwritten: None,
            due: BTreeSet::new(),
            is_new: false,
        }
    }

    /// Takes over what was left in other scopes.
    pub(crate) fn other_scopes(&mut self, rows: &RowMap, this: &Scope) {
        for scope in SCOPES.map(Scope::from).into_iter().filter(|scope| scope != this) {
            for row in rows.of_scope(&scope).claims {
                self.claims.insert((scope.clone(), row.issue.id.clone()), row);
            }
        }
    }

    /// Counts of tokens are written in time.
    pub(crate) fn check_usage(&mut self, sums: &Sums, now: Mono, wakeup: Option<Mono>) -> Check {
        if self.totals.tokens == sums.tokens() {
            self.unwritten = None;
        }
        if let Some(since) = self.unwritten {
            let latest = since + USAGE_DELAY;
            ensure!(
                latest > now && wakeup.is_some_and(|at| at <= latest),
                "counts of tokens are written in time (16.1)",
                "{wakeup:?}, but there are newer ones since {since:?}"
            );
        }
        Ok(())
    }

    fn write_run(&mut self, row: &RunRow) -> Check {
        ensure!(
            row.ended.is_some() == row.outcome.is_some(),
            "a run that is over says how (16.1)",
            "{row:?}"
        );
        let known = if row.ended.is_some() {
            self.open.remove(&row.run)
        } else {
            self.open.insert(row.run)
        };
        ensure!(known || row.ended.is_none(), "a run ends once (16.1)", "{row:?}");
        Ok(())
    }
}

impl Oracle {
    /// Takes in what a step writes: only changes, and all that its effects depend on.
    pub(crate) fn check_writes(&mut self, step: &Step) -> Check {
        self.books.due.clear();
        self.books.is_new = !step.writes.is_empty();
        for write in &step.writes {
            match write {
                Write::Claim(row) => self.write_claim(row)?,
                Write::ClaimGone { scope, issue } => {
                    self.check_scope(scope, issue)?;
                    let gone = self.books.claims.remove(&(scope.clone(), issue.clone()));
                    ensure!(gone.is_some(), "only changes are written (16.1)", "{write:?}");
                }
                Write::Run(row) => self.books.write_run(row)?,
                Write::Totals(totals) => {
                    let old = std::mem::replace(&mut self.books.totals, totals.clone());
                    let fell = totals.tokens.total < old.tokens.total
                        || totals.started < old.started
                        || ended(totals) < ended(&old);
                    ensure!(!fell, "sums never fall (16.4)", "{old:?}, then {totals:?}");
                }
                Write::Operator(row) => self.books.paused = row.paused,
                Write::Hold(row) => {
                    self.books.holds.insert(row.agent.clone(), row.clone());
                }
                Write::HoldGone { agent } => {
                    let gone = self.books.holds.remove(agent).is_some();
                    ensure!(gone, "only changes are written (16.1)", "{write:?}");
                }
                Write::Polls(row) => self.pace.saved(row, &self.config.scope)?,
            }
        }
        for effect in &step.effects {
            self.check_recorded(effect, step.durability)?;
        }
        self.check_parked()
    }

    fn write_claim(&mut self, row: &ClaimRow) -> Check {
        let id = &row.issue.id;
        self.check_scope(&row.scope, id)?;
        ensure!(row.issue.description.is_none(), "a row has no description (16.1)", "{row:?}");
        let key = (row.scope.clone(), id.clone());
        let old = self.books.claims.insert(key, row.clone());
        ensure!(old.as_ref() != Some(row), "only changes are written (16.1)", "{row:?}");
        if row.due.is_some() && row.due != old.and_then(|old| old.due) {
            self.books.due.insert(id.clone());
        }
        Ok(())
    }

    /// Rows of a scope that is not in force are left alone, but for those of runs that still live.
    fn check_scope(&self, scope: &Scope, id: &IssueId) -> Check {
        let is_ours = *scope == self.config.scope
            || self.step.old_scope.as_ref() == Some(scope)
            || self.claims.get(id).is_some_and(|entry| entry.scope == *scope);
        ensure!(is_ours, "claims of another scope are left alone (16.4)", "{id} in {scope}");
        Ok(())
    }

    /// What waits for the store finds there what it depends on (16.1).
    fn check_recorded(&self, effect: &Effect, durability: Durability) -> Check {
        let row = |id: &IssueId| {
            let scope = self.claims.get(id).map_or(&self.config.scope, |entry| &entry.scope);
            self.books.claims.get(&(scope.clone(), id.clone()))
        };
        let recorded = match effect {
            Effect::Start(start) => {
                let row = row(&start.issue.id);
                row.is_some_and(|row| row.stage == ClaimStage::Running)
                    && self.books.open.contains(&start.run)
            }
            Effect::NextTurn { issue, client_id, .. } => {
                let asked = row(&issue.id).and_then(|row| row.asked.as_ref());
                asked.is_some_and(|asked| asked.client_id == *client_id)
            }
            Effect::Remove { issue, .. } => return self.check_unclaimed(&issue.id),
            _ => return Ok(()),
        };
        ensure!(
            recorded && durability == Durability::Machine,
            "nothing is done before it is recorded (16.1)",
            "{effect:?}, kept for the {durability:?}"
        );
        Ok(())
    }

    fn check_unclaimed(&self, id: &IssueId) -> Check {
        let row = self.books.claims.get(&(self.config.scope.clone(), id.clone()));
        ensure!(row.is_none(), "nothing is done before it is recorded (16.1)", "removal: {row:?}");
        Ok(())
    }

    /// A claim of another scope whose run ended is written as it was left.
    fn check_parked(&self) -> Check {
        for (id, outcomes) in &self.step.parked {
            let Some(entry) = self.claims.get(id) else { continue };
            let row = self.books.claims.get(&(entry.scope.clone(), id.clone()));
            let fits = outcomes.iter().any(|outcome| fits(row, outcome, &entry.lineage));
            ensure!(
                fits,
                "claims of another scope are kept (16.4)",
                "{id}: {row:?}, expected one of {outcomes:?}"
            );
        }
        Ok(())
    }

    /// Compares all rows with the claims, as the snapshot showed them.
    pub(crate) fn check_books(&self, snapshot: &Snapshot) -> Check {
        let mut rows = 0;
        for (id, entry) in &self.claims {
            let row = self.books.claims.get(&(entry.scope.clone(), id.clone()));
            rows += usize::from(row.is_some() && entry.scope == self.config.scope);
            let wrong = self.wrong_field(id, entry, row);
            ensure!(
                wrong.is_none(),
                "a claim's row says where it stands (16.1)",
                "{id}: {wrong:?} of {row:?} for {entry:?}"
            );
        }
        let own = self.books.claims.keys().filter(|(scope, _)| *scope == self.config.scope);
        ensure!(
            own.count() == rows,
            "a claim that is gone has no row (16.1)",
            "{:?}",
            self.books.claims.keys()
        );
        ensure!(
            self.books.open.iter().eq(self.runs.keys()),
            "open runs are those that live (16.1)",
            "{:?}",
            self.books.open
        );
        let (kept, shown) = (&self.books.totals, &snapshot.totals);
        ensure!(
            kept.started == shown.started && ended(kept) == ended(shown),
            "sums are kept (16.1)",
            "{kept:?} for {shown:?}"
        );
        ensure!(self.books.paused == self.paused, "a pause is kept (4.7)", "{}", self.paused);
        let holds = snapshot.holds.iter().all(|hold| {
            let row = self.books.holds.get(&hold.agent);
            row.is_some_and(|row| row.failure == hold.failure)
        });
        ensure!(
            holds && self.books.holds.len() == snapshot.holds.len(),
            "holds are kept (16.1)",
            "{:?} for {:?}",
            self.books.holds,
            snapshot.holds
        );
        Ok(())
    }

    /// The first field of a row that is not as it must be.
    fn wrong_field(
        &self,
        id: &IssueId,
        entry: &Entry,
        row: Option<&ClaimRow>,
    ) -> Option<&'static str> {
        let run = match &entry.view {
            View::Running { run, .. } => self.runs.get(run),
            _ => None,
        };
        let stage = match &entry.view {
            View::Cleaning { .. } => None,
            View::Checking { .. } if !entry.lineage.retry => None,
            View::Checking { .. } | View::Waiting { .. } => Some(ClaimStage::Waiting),
            View::Running { stopping: Some(_), .. } if run.is_some_and(|run| run.operator_stop) => {
                Some(ClaimStage::Blocked)
            }
            View::Running { .. } => Some(ClaimStage::Running),
            View::Blocked { .. } => Some(ClaimStage::Blocked),
        };
        let (Some(stage), Some(row)) = (stage, row) else {
            return (stage.is_some() || row.is_some()).then_some("existence");
        };
        let lineage = &entry.lineage;
        let (attempt, thread, asked) = match run {
            Some(run) => (run.attempt, run.thread.as_ref(), run.asked.as_ref()),
            None => {
                let thread = lineage.resume.as_ref().map(|(thread, _)| thread);
                (lineage.attempt, thread, lineage.asked.as_ref())
            }
        };
        let is_open = lineage.resume_open && run.is_none();
        let question = match &entry.view {
            View::Blocked { why: BlockReason::Question(question) } => Some(question),
            _ => None,
        };
        let until = match entry.view {
            View::Waiting { until, .. } => until,
            _ => None,
        };
        let is_due = !self.books.due.contains(id)
            || until
                .zip(row.due)
                .is_none_or(|(until, due)| due.rest(self.now.wall) == self.now.mono.until(until));
        let fields = [
            ("stage", row.stage == stage),
            ("issue", row.issue == *entry.issue),
            ("attempt", row.attempt == attempt),
            ("thread", row.thread.as_ref() == thread || is_open),
            ("asked", row.asked.as_ref() == asked || is_open),
            ("unanswered", row.unanswered == lineage.unanswered || is_open),
            ("interruptions", row.interruptions == lineage.interruptions),
            ("question", row.question.as_ref() == question),
            ("seen", row.seen || !entry.seen || !matches!(entry.view, View::Blocked { .. })),
            ("due", row.due.is_some() == until.is_some() && is_due),
            ("unchanged", question.is_some() || self.is_unchanged(entry, row)),
        ];
        fields.iter().find(|(_, same)| !same).map(|(field, _)| *field)
    }

    fn is_unchanged(&self, entry: &Entry, row: &ClaimRow) -> bool {
        let lineage = &entry.lineage;
        row.unchanged_ends == lineage.unchanged
            || lineage.interrupted && row.unchanged_ends <= lineage.unchanged
    }
}

/// Whether the row of a claim that left memory says what became of it.
fn fits(row: Option<&ClaimRow>, outcome: &Outcome, lineage: &Lineage) -> bool {
    let thread = lineage.resume.as_ref().map(|(thread, _)| thread);
    let same = |row: &ClaimRow, stage| row.stage == stage && row.attempt == lineage.attempt;
    match outcome {
        Outcome::Waiting { .. } => row.is_some_and(|row| {
            same(row, ClaimStage::Waiting) && (row.thread.as_ref() == thread || lineage.resume_open)
        }),
        Outcome::Blocked(_) => row.is_some_and(|row| same(row, ClaimStage::Blocked)),
        Outcome::Free | Outcome::Cleaning => row.is_none(),
        _ => false,
    }
}
