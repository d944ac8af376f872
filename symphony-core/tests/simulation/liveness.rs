//! The liveness sentence: every claim has an open effect, a deadline, a slot holder it waits for,
//! or (Blocked) the refresh job's deadline, or it waits for the store. And no deadline is missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use symphony_core::orchestrator::Job;
use symphony_core::snapshot::Snapshot;
use symphony_core::time::Mono;
use symphony_core::{Issue, IssueId, StateName};

use crate::claims::View;
use crate::eligibility::obstacle;
use crate::oracle::Oracle;
use crate::order::rank;
use crate::reads::Purpose;
use crate::runs::name;
use crate::turns::STORE_PATIENCE;
use crate::violation::{Check, ensure};

impl Oracle {
    /// What is cheap enough to be asked after every step.
    pub(crate) fn check_deadlines(&mut self, wakeup: Option<Mono>) -> Check {
        let now = self.now.mono;
        ensure!(
            wakeup.is_none_or(|at| at > now),
            "the next wake-up is not in the past",
            "{wakeup:?} at {now:?}"
        );
        let by = |at: Mono| wakeup.is_some_and(|wakeup| wakeup <= at);
        let reading = self.reads.values().any(|open| {
            matches!(open.purpose, Purpose::Turn(_)) && open.generation == self.config.generation
        });
        for (run, model) in &self.runs {
            if let Some((_, latest)) = model.stall() {
                ensure!(
                    latest > now,
                    "a stall is found by its deadline (8.1)",
                    "{}, silent since {:?}",
                    name(*run, model),
                    model.news
                );
                ensure!(
                    by(latest),
                    "a wake-up for every deadline",
                    "{wakeup:?}, but {} stalls at {latest:?}",
                    name(*run, model)
                );
            }
            if let Some(since) = model.ordered {
                let latest = since + STORE_PATIENCE;
                ensure!(
                    latest > now && by(latest),
                    "a turn does not wait for the store for ever (16.3)",
                    "{wakeup:?}, but {} waits since {since:?}",
                    name(*run, model)
                );
            }
            if let Some(grace) = model.grace.filter(|_| model.stop.is_none()) {
                ensure!(
                    grace > now && by(grace),
                    "a turn that outlives its grace is stopped (8.2)",
                    "{wakeup:?}, but the grace of {} ends at {grace:?}",
                    name(*run, model)
                );
            }
            if let Some(pending) =
                model.pending.as_ref().filter(|pending| pending.read.is_none() && !reading)
            {
                ensure!(
                    pending.due > now,
                    "the end of a turn is read in time (4.5)",
                    "{}: {pending:?}",
                    name(*run, model)
                );
                ensure!(
                    by(pending.due),
                    "a wake-up for every deadline",
                    "{wakeup:?}, but {}: {pending:?}",
                    name(*run, model)
                );
            }
        }
        self.books.check_usage(&self.sums, now, wakeup)
    }

    /// The liveness sentence, after the snapshot was taken over.
    pub(crate) fn check_liveness(&self, snapshot: &Snapshot, wakeup: Option<Mono>) -> Check {
        let now = self.now.mono;
        let by = |at: Mono| wakeup.is_some_and(|wakeup| wakeup <= at);
        for (id, entry) in &self.claims {
            match &entry.view {
                View::Running { run, .. } => {
                    ensure!(
                        self.runs.contains_key(run),
                        "every claim has something that moves it on",
                        "{id}: {run} is over"
                    );
                }
                View::Checking { .. } => {
                    let read = self.reads.values().any(
                        |open| matches!(&open.purpose, Purpose::Check(ids) if ids.contains(id)),
                    );
                    ensure!(
                        read,
                        "every claim has something that moves it on",
                        "{id} is being checked by no read"
                    );
                }
                View::Waiting { until: Some(at), .. } | View::Cleaning { until: Some(at), .. } => {
                    ensure!(
                        *at > now && by(*at),
                        "a wake-up for every deadline",
                        "{id} is due at {at:?}, wake-up {wakeup:?}"
                    );
                }
                View::Cleaning { until: None, .. } => {
                    let open = self.removals.values().any(|(owner, _)| owner == id);
                    ensure!(
                        open,
                        "every claim has something that moves it on",
                        "{id} is being cleaned by no removal"
                    );
                }
                // Until the next life.
                View::Blocked { .. } if self.shutting_down => {}
                View::Blocked { .. } => {
                    let row = snapshot.polling.jobs.iter().find(|row| row.job == Job::Refresh);
                    let alive = row.is_some_and(|row| row.in_progress || row.next.is_some());
                    ensure!(
                        alive,
                        "every claim has something that moves it on",
                        "{id} is blocked, refresh is {row:?}"
                    );
                }
                View::Waiting { until: None, .. } => {}
            }
        }
        if !self.shutting_down
            && let Some(hold) = self.holds.all.get(&self.settings().agent.kind)
            && self
                .claims
                .values()
                .any(|entry| matches!(entry.view, View::Waiting { until: None, .. }))
        {
            let waits = hold.until.iter().any(|at| *at <= now || by(*at));
            ensure!(
                waits,
                "a wake-up for every deadline",
                "held until {:?}, wake-up {wakeup:?}",
                hold.until
            );
        }
        self.check_startable(wakeup)?;
        self.check_selection()?;
        self.check_refreshed()
    }

    /// What waits for nothing but its read is read, at once or after the least gap (4.6).
    fn check_startable(&self, wakeup: Option<Mono>) -> Check {
        let checking = self.reads.values().any(|open| matches!(open.purpose, Purpose::Check(_)));
        if checking || !self.may_start() || self.free_slots() == 0 {
            return Ok(());
        }
        let waiting = self.due().next().map(|(id, _)| id.clone()).filter(|_| self.step.refill);
        let fresh =
            || self.startable().first().map(|issue| issue.id.clone()).filter(|_| self.step.refill);
        if let Some(id) = waiting.or_else(fresh) {
            let at = self.pace.next_check(self.now.mono, self.config.min_read_gap);
            let soon = wakeup.is_some_and(|wakeup| wakeup <= at);
            ensure!(
                soon,
                "what may start is read (4.6)",
                "{id} may start, no read is open, wake-up {wakeup:?} instead of {at:?}"
            );
        }
        Ok(())
    }

    /// Retries that are due and have their slots.
    fn due(&self) -> impl Iterator<Item = (&IssueId, &Arc<Issue>)> {
        let waiting = self
            .claims
            .iter()
            .filter(|(_, entry)| matches!(entry.view, View::Waiting { until: None, .. }));
        waiting.map(|(id, entry)| (id, &entry.issue)).filter(|(_, issue)| self.slots_for(issue))
    }

    /// Candidates that surely may start: nothing newer is known of them, and nothing is in their way.
    pub(crate) fn startable(&self) -> Vec<&Arc<Issue>> {
        if self.kept.stale {
            return Vec::new();
        }
        let settings = self.settings();
        let free = |issue: &&Arc<Issue>| {
            let id = &issue.id;
            !self.claims.contains_key(id)
                && !self.kept.rejected.contains_key(id)
                && !self.kept.failed.contains_key(id)
                && !self.kept.newer.contains_key(id)
                && !self.was_claimed.contains(id)
                && self.has_record(id).is_some()
                && obstacle(issue, settings, self.has_record(id) == Some(true)).is_none()
                && self.key_of(issue).is_some_and(|key| self.holder(id, &key).is_none())
                && self.slots_for(issue)
        };
        self.kept.list.iter().filter(free).collect()
    }

    /// The read before a start has the best, and as many as it may.
    fn check_selection(&self) -> Check {
        let Some(chosen) = &self.step.check_read else {
            return Ok(());
        };
        // After a failure, fresh candidates wait longer than retries that are due.
        if !self.holds.all.is_empty()
            || self.step.open
            || self.kept.repeats
            || self.pace.checks_wait(self.now.mono)
        {
            return Ok(());
        }
        let entries = chosen.iter().filter_map(|id| self.claims.get(id));
        let mut all: Vec<(&Arc<Issue>, bool, bool)> =
            entries.map(|entry| (&entry.issue, entry.lineage.retry, true)).collect();
        all.extend(self.due().map(|(_, issue)| (issue, true, false)));
        all.extend(self.startable().into_iter().map(|issue| (issue, false, false)));
        all.sort_by(|a, b| rank(a.0, a.1).cmp(&rank(b.0, b.1)));
        // Those that fill the slots of their states, and five to spare.
        let (mut free, mut spare) = (self.free_slots(), 5);
        let mut states: BTreeMap<&StateName, u32> = BTreeMap::new();
        for (issue, retry, is_chosen) in all {
            let used = states.entry(&issue.state).or_default();
            let limit = self.settings().agent.max_concurrent_agents_by_state.get(&issue.state);
            let room = limit.is_none_or(|limit| self.used_by_state(&issue.state) + *used < *limit);
            if room && free > 0 {
                (free, *used) = (free - 1, *used + 1);
            } else if spare > 0 {
                spare -= 1;
            } else {
                continue;
            }
            ensure!(
                is_chosen,
                "the best (free slots + 5) are read (5.4)",
                "{} {:?} was passed over for {chosen:?}, {} slots",
                issue.id,
                rank(issue, retry),
                self.free_slots()
            );
        }
        Ok(())
    }

    /// A refresh reads every issue that is run, waited for or blocked (8.2).
    fn check_refreshed(&self) -> Check {
        let Some(ids) = &self.step.refreshed else {
            return Ok(());
        };
        for (id, entry) in &self.claims {
            let refreshed = matches!(
                entry.view,
                View::Running { stopping: None, .. } | View::Waiting { .. } | View::Blocked { .. }
            );
            ensure!(
                !refreshed || ids.contains(id),
                "a refresh reads every claimed issue (8.2)",
                "{id} is missing in {ids:?}"
            );
        }
        Ok(())
    }
}
