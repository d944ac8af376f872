//! After a step the snapshot is compared with the oracle: every claim went where it may, and every
//! row says what the world knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{BlockReason, StopReason};
use symphony_core::snapshot::{RunningRow, Snapshot};
use symphony_core::{HostId, Issue, IssueId, StateName};

use crate::claims::{Deeds, Entry, Lineage, Outcome, Until, View, views};
use crate::oracle::Oracle;
use crate::runs::name;
use crate::violation::{Check, ensure};

impl Oracle {
    /// Compares the whole snapshot with the oracle, and takes over what it may decide.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Check {
        let after = views(snapshot);
        let rows = snapshot.running.len()
            + snapshot.waiting.len()
            + snapshot.blocked.len()
            + snapshot.checking.len()
            + snapshot.cleaning.len();
        ensure!(
            rows == after.len(),
            "an issue has one claim (6.1)",
            "{rows} rows for {} issues",
            after.len()
        );
        let before = std::mem::take(&mut self.claims);
        for (id, entry) in &before {
            if !after.contains_key(id) {
                self.was_claimed.insert(id.clone());
                self.check_change(id, Some(entry), None)?;
            }
        }
        for (id, (view, issue)) in after {
            let old = before.get(&id);
            let outcome = self.check_change(&id, old, Some(&view))?;
            let entry = self.next_entry(&id, old, view, issue, &outcome)?;
            self.claims.insert(id, entry);
        }
        self.settle_poll(&before)?;
        self.check_running(snapshot)?;
        self.check_slots(snapshot)?;
        self.check_flags(snapshot)?;
        self.holds.check(&snapshot.holds)?;
        let live = self
            .runs
            .values()
            .map(|model| self.now.mono.since(model.started.mono))
            .sum::<Duration>();
        self.sums.check(&snapshot.totals, live)
    }

    /// Finds the outcome that the change fits; none is a violation.
    fn check_change(
        &self,
        id: &IssueId,
        old: Option<&Entry>,
        after: Option<&View>,
    ) -> Result<Outcome, crate::violation::Violation> {
        let before = old.map(|entry| &entry.view);
        let known = old.map_or(0, |entry| entry.known);
        let none = Deeds::default();
        let deeds = self.step.deeds.get(id).unwrap_or(&none);
        let mut expected =
            self.step.outcomes.get(id).cloned().unwrap_or_else(|| vec![Outcome::Same]);
        // When a hold is lifted, those that wait for it are due.
        if let (Some(View::Waiting { attempt, .. }), true) =
            (before, self.step.holds_before > self.holds.all.len())
        {
            expected.push(Outcome::Waiting { attempt: *attempt, until: Until::Now });
        }
        // A folder without a record may be another one by the time of the next try.
        if matches!(before, Some(View::Cleaning { until: Some(at), .. }) if *at <= self.now.mono)
            && (self.has_record(id) != Some(true) || self.kept.shows_alive_since(id, known))
        {
            expected.push(Outcome::Free);
        }
        let mut found = expected
            .iter()
            .find(|outcome| outcome.fits(before, after, deeds, self.now.mono))
            .cloned();
        if found.is_none() && self.step.open && !self.step.left.contains(id) {
            let attempt = match before {
                Some(View::Checking { attempt: Some(attempt) } | View::Waiting { attempt, .. }) => {
                    *attempt
                }
                _ => 0,
            };
            found = self
                .reload_outcomes(id, attempt)
                .into_iter()
                .find(|outcome| outcome.fits(before, after, deeds, self.now.mono));
        }
        match found {
            Some(outcome) => Ok(outcome),
            None => Err(crate::violation::Violation {
                rule: "a claim goes only where it may (6, 7, 8)",
                detail: format!(
                    "{id}: {before:?} became {after:?}, expected {expected:?} with {deeds:?}"
                ),
            }),
        }
    }

    /// What a reload may do at once instead of at the next refresh.
    fn reload_outcomes(&self, id: &IssueId, attempt: u32) -> Vec<Outcome> {
        let mut outcomes = vec![
            Outcome::Same,
            Outcome::Waiting { attempt, until: Until::Now },
            Outcome::Free,
            Outcome::Stopping(StopReason::NotActive),
            Outcome::Stopping(StopReason::Gone),
            Outcome::Stopping(StopReason::Terminal),
        ];
        outcomes.extend(self.cleaned(id));
        outcomes
    }

    fn next_entry(
        &self,
        id: &IssueId,
        old: Option<&Entry>,
        view: View,
        issue: Arc<Issue>,
        outcome: &Outcome,
    ) -> Result<Entry, crate::violation::Violation> {
        let old = old.filter(|_| *outcome != Outcome::Free);
        self.check_issue(id, old, &issue)?;
        let checked = self.step.deeds.get(id).is_some_and(|deeds| deeds.checked);
        let stays = old.filter(|entry| entry.view.same_stage(&view));
        let mut entry = Entry {
            lineage: old.map_or_else(Lineage::default, |entry| entry.lineage.clone()),
            since: old
                .filter(|entry| entry.view.same_stage(&view) && !checked)
                .map_or(self.step.read_before, |entry| entry.since),
            seen: stays.is_some_and(|entry| entry.seen),
            known: old.map_or(0, |entry| entry.known),
            commanded: old.map_or(0, |entry| entry.commanded),
            scope: old.map_or_else(|| self.config.scope.clone(), |entry| entry.scope.clone()),
            view,
            issue,
        };
        if entry.view == (View::Blocked { why: BlockReason::Operator }) {
            entry.lineage.forget_thread();
        }
        if matches!(entry.view, View::Blocked { .. }) {
            entry.lineage.asked = None;
            entry.lineage.interruptions = 0;
            entry.lineage.stored = false;
        }
        if let View::Waiting { unchanged, .. } = entry.view {
            let lineage = &mut entry.lineage;
            let allowed = unchanged == lineage.unchanged
                || (lineage.interrupted && unchanged <= lineage.unchanged);
            ensure!(
                allowed,
                "ends without progress are counted (7.7)",
                "{id}: {unchanged} instead of {}",
                lineage.unchanged
            );
            lineage.unchanged = unchanged;
            lineage.interrupted = false;
        }
        Ok(entry)
    }

    /// A claim shows its issue as last read, and not as an older read saw it.
    fn check_issue(&self, id: &IssueId, old: Option<&Entry>, shown: &Arc<Issue>) -> Check {
        if let Some((brought, must)) = self.step.brought.get(id) {
            let new = brought.iter().any(|view| view == shown);
            let kept = !must && old.is_some_and(|entry| entry.issue == *shown);
            let listed = old.is_none() && self.kept.list.iter().any(|view| view == shown);
            ensure!(
                new || kept || listed,
                "a claim shows its issue as last read",
                "{id}: {shown:?}, brought {brought:?}"
            );
            return Ok(());
        }
        match old {
            Some(entry) => {
                let same = Arc::ptr_eq(&entry.issue, shown) || entry.issue == *shown;
                ensure!(
                    same,
                    "a claim shows its issue as last read",
                    "{id}: {shown:?} instead of {:?}",
                    entry.issue
                );
            }
            None => {
                let listed = self.kept.list.iter().any(|view| view == shown);
                let newer = self
                    .kept
                    .newer
                    .get(id)
                    .into_iter()
                    .flatten()
                    .any(|(_, view)| view.as_ref() == Some(shown));
                ensure!(
                    listed || newer,
                    "a claim shows its issue as last read",
                    "{id}: {shown:?} is not as listed"
                );
            }
        }
        Ok(())
    }

    fn check_running(&self, snapshot: &Snapshot) -> Check {
        ensure!(
            snapshot.running.len() == self.runs.len(),
            "the snapshot equals the world",
            "{} rows for {} live runs",
            snapshot.running.len(),
            self.runs.len()
        );
        for row in &snapshot.running {
            let Some(model) = self.runs.get(&row.run) else {
                ensure!(false, "the snapshot equals the world", "run {} is over", row.run);
                continue;
            };
            let run = &row.run;
            let fields = [
                ("attempt", row.attempt == model.attempt),
                ("host", row.host == model.host),
                ("key", row.key == model.key),
                ("phase", row.phase == model.phase),
                ("max_turns", row.max_turns == model.max_turns),
                ("tokens", row.tokens == model.tokens),
                ("cost", row.cost.map_or(0, |cost| cost.0) == model.cost),
                ("model", row.model.as_deref() == model.model.as_deref()),
                ("started", row.started == model.started),
                ("stopping", row.stopping == model.stop.map(|(why, _)| why)),
                ("thread", row.thread == model.thread),
                ("session_id", row.session_id == model.session),
                ("pid", row.pid == model.pid),
                ("last_event", row.last_event == model.event),
                ("unrequested_turns", row.unrequested_turns == model.unrequested),
                ("finish_by", model.stop.is_some() || row.finish_by == model.grace),
            ];
            let wrong = fields.iter().find(|(_, same)| !same).map(|(field, _)| field);
            ensure!(
                wrong.is_none(),
                "the snapshot equals the world",
                "{} has another {wrong:?}: {row:?} for {model:?}",
                name(*run, model)
            );
            let turns = row.turns == model.turn;
            ensure!(
                turns,
                "the snapshot equals the world",
                "{}: turn {} instead of {}",
                name(*run, model),
                row.turns,
                model.turn
            );
            let alive = [model.line, model.news, model.started.mono].contains(&row.last_alive)
                || row.last_alive <= model.line;
            ensure!(
                alive,
                "the snapshot equals the world",
                "{}: alive at {:?}",
                name(*run, model),
                row.last_alive
            );
            self.check_overdue(row)?;
        }
        Ok(())
    }

    /// A stop that outlives its bound is shown; its claim stays (6.3).
    fn check_overdue(&self, row: &RunningRow) -> Check {
        let model = self.runs.get(&row.run);
        let stop = model.and_then(|model| model.stop);
        let (grace, hook) = model.map_or((Duration::ZERO, Duration::MAX), |model| model.bounds);
        ensure!(
            !row.stop_overdue || stop.is_some(),
            "the snapshot equals the world",
            "run {} was not stopped",
            row.run
        );
        if let Some((_, at)) = stop {
            let long = grace * 4 + hook.saturating_mul(3) + Duration::from_secs(60);
            let since = self.now.mono.since(at);
            ensure!(
                row.stop_overdue || since < long,
                "an overdue stop is shown (6.3)",
                "run {} was stopped {since:?} ago",
                row.run
            );
            ensure!(
                !row.stop_overdue || since >= grace,
                "an overdue stop is shown (6.3)",
                "run {} was stopped {since:?} ago",
                row.run
            );
        }
        Ok(())
    }

    fn check_slots(&self, snapshot: &Snapshot) -> Check {
        let mut states: BTreeMap<&StateName, u32> = BTreeMap::new();
        let mut hosts: BTreeMap<&HostId, u32> = BTreeMap::new();
        for row in &snapshot.running {
            *states.entry(&row.issue.state).or_default() += 1;
            *hosts.entry(&row.host).or_default() += 1;
        }
        let slots = &snapshot.slots;
        let by_state = slots.by_state.iter().filter(|(_, used)| **used > 0);
        let by_host = slots.by_host.iter().filter(|(_, used)| **used > 0);
        let same = usize::try_from(slots.used).ok() == Some(self.runs.len())
            && slots.limit == self.settings().agent.max_concurrent_agents
            && by_state.eq(states.iter().map(|(state, used)| (*state, used)))
            && by_host.eq(hosts.iter().map(|(host, used)| (*host, used)));
        ensure!(same, "the snapshot equals the world", "{slots:?} for {states:?} and {hosts:?}");
        Ok(())
    }

    fn check_flags(&self, snapshot: &Snapshot) -> Check {
        let same = snapshot.now == self.now
            && snapshot.paused == self.paused
            && snapshot.shutting_down == self.shutting_down
            && snapshot.problems.is_empty() == self.valid
            && snapshot.rate_limits == self.holds.limits;
        ensure!(
            same,
            "the snapshot equals the world",
            "paused {}, shutting down {}, problems {:?}, limits {:?}",
            snapshot.paused,
            snapshot.shutting_down,
            snapshot.problems,
            snapshot.rate_limits
        );
        Ok(())
    }
}
