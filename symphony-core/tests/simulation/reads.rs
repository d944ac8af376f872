//! The expected reads: what each was for, how many there may be, and what an answer must come to
//! (contract 4.5, 4.8, 8.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{Answer, Generation, ReadId, StopReason};
use symphony_core::time::Mono;
use symphony_core::tracker::{IssuesById, Poll, Purpose as Reason};
use symphony_core::{Failure, Issue, IssueId};

use crate::claims::{Entry, Outcome, Until, View};
use crate::eligibility::{is_active, is_routable, is_terminal};
use crate::oracle::{Kept, Oracle, backoff};
use crate::tracker::{Form, form};
use crate::violation::{Check, ensure};

/// An open read.
#[derive(Clone, Debug)]
pub(crate) struct ReadModel {
    pub(crate) purpose: Purpose,
    pub(crate) generation: Generation,
    pub(crate) asked: Mono,
}

/// What a read is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Poll { candidates: bool, refresh: Vec<IssueId>, sweep: Vec<IssueId> },
    Check(Vec<IssueId>),
    Turn(Vec<IssueId>),
    Strays,
    Delivery { claimed: Vec<IssueId>, others: Vec<IssueId> },
}

/// What an answer said of one issue.
pub(crate) enum Said<'a> {
    Issue(&'a Issue),
    Absent,
    Unreadable,
}

/// What an answer by id said, by issue.
pub(crate) struct Sayings<'a> {
    found: BTreeMap<&'a IssueId, &'a Issue>,
    unreadable: Vec<&'a IssueId>,
}

impl<'a> Sayings<'a> {
    pub(crate) fn new(by_id: &'a IssuesById) -> Self {
        let found = by_id.found.iter().map(|issue| (&issue.id, issue)).collect();
        let unreadable = by_id.unreadable.iter().map(|unreadable| &unreadable.id).collect();
        Self { found, unreadable }
    }

    pub(crate) fn of(&self, id: &IssueId) -> Said<'a> {
        match self.found.get(id) {
            Some(issue) => Said::Issue(issue),
            None if self.unreadable.contains(&id) => Said::Unreadable,
            None => Said::Absent,
        }
    }
}

impl Oracle {
    /// A read goes out: it must be of use, and the only one of its purpose.
    pub(crate) fn asked(&mut self, read: ReadId, generation: Generation, poll: &Poll) -> Check {
        let reason = poll.purpose;
        if reason == Reason::Manual {
            self.pace.asked_by_operator(self.now.mono, self.config.min_read_gap)?;
        }
        let ids = &poll.ids;
        let purpose = match form(poll) {
            Form::Jobs => {
                self.step.polls += 1;
                let candidates = poll.candidates.is_some();
                ensure!(candidates || !poll.ids.is_empty(), "a read asks something", "{poll:?}");
                if let Some(query) = &poll.candidates {
                    ensure!(
                        query.states == self.settings().tracker.active_states,
                        "candidates are in active states",
                        "{query:?}"
                    );
                    ensure!(self.valid, "no candidates on an invalid file", "{poll:?}");
                    ensure!(
                        self.free_slots() > 0,
                        "no candidates without a slot (4.5)",
                        "{poll:?}"
                    );
                    ensure!(query.enough >= 1, "a read asks something", "{query:?}");
                }
                // Which issues are refreshed and which are swept shows when the step is settled.
                self.step.poll = Some(read);
                Purpose::Poll { candidates, refresh: poll.ids.clone(), sweep: Vec::new() }
            }
            Form::Ids => {
                ensure!(!ids.is_empty(), "a read asks something", "{poll:?}");
                if reason == Reason::Delivery {
                    self.delivery_asked(read, ids)?;
                    Purpose::Delivery { claimed: Vec::new(), others: ids.clone() }
                } else if ids.iter().any(|id| self.pending_turn(id)) {
                    self.turns_asked(read, ids)?;
                    Purpose::Turn(ids.clone())
                } else {
                    self.check_asked(ids)?;
                    Purpose::Check(ids.clone())
                }
            }
            Form::Strays => {
                let states = poll.candidates.as_ref().map(|query| &query.states);
                ensure!(
                    states == Some(&self.settings().tracker.terminal_states),
                    "strays are matched with terminal issues",
                    "{states:?}"
                );
                ensure!(
                    !self.strays.is_empty(),
                    "closed issues are read only for strays (4.2)",
                    "{states:?}"
                );
                Purpose::Strays
            }
        };
        if self.step.poll != Some(read) {
            self.check_alone(read, &purpose)?;
        }
        let mut ids: Vec<_> = purpose.ids().collect();
        self.read_by_id(&ids);
        ids.sort_unstable();
        ensure!(
            ids.windows(2).all(|pair| pair[0] != pair[1]),
            "nothing is asked twice (12.5)",
            "{ids:?}"
        );
        self.reads.insert(read, ReadModel { purpose, generation, asked: self.now.mono });
        Ok(())
    }

    /// A poll went out in this step: claimed issues are refreshed, the others swept.
    pub(crate) fn settle_poll(&mut self, before: &BTreeMap<IssueId, Entry>) -> Check {
        self.settle_delivery(before);
        let Some((read, mut model)) =
            self.step.poll.and_then(|read| Some((read, self.reads.remove(&read)?)))
        else {
            return Ok(());
        };
        if let Purpose::Poll { candidates, refresh, sweep } = &mut model.purpose {
            let (claimed, others): (Vec<_>, Vec<_>) = refresh
                .drain(..)
                .partition(|id| self.claims.contains_key(id) && before.contains_key(id));
            (*refresh, *sweep) = (claimed, others);
            for id in sweep.iter() {
                let recorded = self.records.get(id).is_some_and(|possible| {
                    possible.iter().flatten().any(|record| record.scope == self.config.scope)
                });
                ensure!(
                    recorded,
                    "only claimed and recorded issues are read (4.2)",
                    "{id} is neither"
                );
            }
            let listed = *candidates && (!self.kept.more || self.kept.forgotten);
            if listed {
                let claims: BTreeSet<IssueId> = self.claims.keys().cloned().collect();
                self.leave_to_list(|id| claims.contains(id) && before.contains_key(id));
            }
            if !refresh.is_empty() {
                self.step.refreshed = Some(refresh.clone());
            }
            self.pace.asked(
                self.now.mono,
                *candidates,
                !refresh.is_empty(),
                !sweep.is_empty(),
                &self.config.settings,
            )?;
        }
        self.check_alone(read, &model.purpose)?;
        self.reads.insert(read, model);
        Ok(())
    }

    /// At most one read is open per purpose (4.3). One of a tracker that is gone does not count.
    fn check_alone(&self, this: ReadId, purpose: &Purpose) -> Check {
        let others = self.reads.iter().filter(|(read, _)| **read != this);
        for (read, open) in others.filter(|(_, open)| open.generation == self.config.generation) {
            let twice = match (&open.purpose, purpose) {
                (
                    Purpose::Poll { candidates, refresh, sweep },
                    Purpose::Poll { candidates: more, refresh: again, sweep: anew },
                ) => {
                    (*candidates && *more)
                        || (!refresh.is_empty() && !again.is_empty())
                        || (!sweep.is_empty() && !anew.is_empty())
                }
                (Purpose::Check(_), Purpose::Check(_))
                | (Purpose::Turn(_), Purpose::Turn(_))
                | (Purpose::Strays, Purpose::Strays)
                | (Purpose::Delivery { .. }, Purpose::Delivery { .. }) => true,
                _ => false,
            };
            ensure!(
                !twice,
                "one open read per purpose (4.3)",
                "{purpose:?} while {read:?} is open: {open:?}"
            );
        }
        Ok(())
    }

    /// An answer comes in.
    pub(crate) fn answered(&mut self, read: ReadId, answer: &Answer) {
        let Some(model) = self.reads.remove(&read) else {
            self.step.nothing = true;
            return;
        };
        let stale = model.generation != self.config.generation;
        let (now, settings) = (self.now, Arc::clone(&self.config.settings));
        self.pace.answered(now, &model, answer, |attempt| backoff(&settings, attempt));
        if let Some(Ok(by_id)) = &answer.by_id {
            let over = by_id.found.iter().filter(|issue| {
                let kind_over = issue.state_kind.is_some_and(|kind| kind.is_over());
                kind_over || is_terminal(&issue.state, &settings)
            });
            self.deliveries.over.extend(over.map(|issue| issue.id.clone()));
        }
        match &model.purpose {
            Purpose::Poll { candidates, refresh, sweep } => {
                if *candidates && !stale {
                    self.list_answered(read, answer);
                }
                let sayings = match &answer.by_id {
                    Some(Ok(by_id)) if !stale => Sayings::new(by_id),
                    _ => return,
                };
                for id in refresh.iter().chain(sweep) {
                    let said = sayings.of(id);
                    self.reread(read, id, &said);
                    self.newer(read, id, &said);
                }
            }
            Purpose::Check(ids) => self.check_answered(read, ids, stale, answer.by_id.as_ref()),
            Purpose::Turn(ids) => self.turns_answered(read, ids, stale, answer.by_id.as_ref()),
            Purpose::Strays => self.strays_answered(read, answer),
            Purpose::Delivery { .. } if stale => {}
            Purpose::Delivery { claimed, others } => {
                self.delivery_answered(read, claimed, others, answer.by_id.as_ref());
            }
        }
    }

    fn list_answered(&mut self, read: ReadId, answer: &Answer) {
        // Also one that failed: what is due without a list does not wait for one.
        self.step.refill = true;
        match &answer.candidates {
            Some(Ok(candidates)) => {
                self.list_delivered(candidates);
                let mut list: Vec<Arc<Issue>> = Vec::with_capacity(candidates.issues.len());
                for issue in &candidates.issues {
                    if !list.iter().any(|known| known.id == issue.id) {
                        list.push(Arc::new(issue.clone()));
                    }
                }
                for issue in &list {
                    let known = self.kept.list.iter().find(|known| known.id == issue.id);
                    let counts = self.config.settings.polling.activity.is_some();
                    self.pace.listed(self.now.mono, known.map(|known| &**known), issue, counts);
                    if self.claims.contains_key(&issue.id) {
                        self.bring(&issue.id, issue, false);
                    }
                }
                let read_at = Some(self.now.mono);
                let repeats = list.len() < candidates.issues.len();
                let mut kept =
                    Kept { list, read, read_at, more: candidates.more, repeats, ..Kept::default() };
                // What a later question brought is newer than this list.
                kept.newer = std::mem::take(&mut self.kept.newer);
                kept.newer.retain(|_, views| {
                    views.retain(|(by, _)| *by > read);
                    !views.is_empty()
                });
                kept.rejected = std::mem::take(&mut self.kept.rejected);
                kept.rejected.retain(|_, by| *by > read);
                kept.failed = std::mem::take(&mut self.kept.failed);
                kept.failed.retain(|_, by| *by > read);
                kept.delivered = std::mem::take(&mut self.kept.delivered);
                kept.delivered.retain(|_, told| told.read > read);
                kept.revise();
                self.kept = kept;
                self.was_claimed.clear();
            }
            Some(Err(_)) => self.kept.list_failed = true,
            None => {}
        }
    }

    /// The claim must, or may, now show this view of its issue.
    pub(crate) fn bring(&mut self, id: &IssueId, issue: &Issue, surely: bool) {
        let (views, must) = self.step.brought.entry(id.clone()).or_default();
        views.push(Arc::new(issue.clone()));
        *must |= surely;
    }

    /// A later read said something of a kept candidate.
    pub(crate) fn newer(&mut self, read: ReadId, id: &IssueId, said: &Said<'_>) {
        let view = match said {
            Said::Issue(issue) => Some(Arc::new((*issue).clone())),
            Said::Absent => None,
            Said::Unreadable => {
                self.kept.failed.insert(id.clone(), read);
                return;
            }
        };
        self.kept.newer.entry(id.clone()).or_default().push((read, view));
    }

    /// A refresh or a sweep said something of an issue (8.2).
    pub(crate) fn reread(&mut self, read: ReadId, id: &IssueId, said: &Said<'_>) {
        let settings = Arc::clone(&self.config.settings);
        let Some(entry) = self.claims.get(id) else {
            if let Said::Issue(issue) = said
                && is_terminal(&issue.state, &settings)
                && !self.shutting_down
            {
                self.bring(id, issue, true);
                let mut outcomes = self.cleaned(id);
                if self.kept.shows_alive_since(id, read.0) {
                    outcomes.push(Outcome::Same);
                }
                self.step.outcomes.insert(id.clone(), outcomes);
            }
            return;
        };
        // 4.8: only a claim that existed, unchanged, when the question was asked; and what a later
        // question brought is not replaced by an older one's answer.
        if entry.since >= read.0 || entry.known > read.0 {
            return;
        }
        let entry = entry.clone();
        // A run that was told to stop meanwhile is another matter (4.8).
        if let View::Running { run, stopping: Some(_) } = &entry.view
            && self.runs.get(run).is_some_and(|model| model.stopped_after >= read.0)
        {
            return;
        }
        // A list that was asked for later knows better than "it is over".
        if let Said::Issue(issue) = said
            && is_terminal(&issue.state, &settings)
            && self.kept.shows_alive_since(id, read.0)
        {
            return;
        }
        let mut outcomes = match said {
            Said::Unreadable => return,
            Said::Absent => self.lost(&entry, StopReason::Gone),
            Said::Issue(issue) if is_terminal(&issue.state, &settings) => self.over(&entry, issue),
            Said::Issue(issue)
                if is_active(&issue.state, &settings) && is_routable(issue, &settings) =>
            {
                self.goes_on(&entry, issue)
            }
            Said::Issue(issue) => {
                self.bring(id, issue, false);
                self.lost(&entry, StopReason::NotActive)
            }
        };
        if let Said::Issue(_) = said
            && let Some(entry) = self.claims.get_mut(id)
        {
            entry.known = read.0;
            entry.seen |= entry.commanded < read.0;
        }
        if entry.commanded >= read.0 {
            // Whether an operator's word makes it another claim is left open.
            outcomes.push(Outcome::Same);
            if let Some((_, must)) = self.step.brought.get_mut(id) {
                *must = false;
            }
        }
        self.step.outcomes.insert(id.clone(), outcomes);
    }

    fn lost(&mut self, entry: &Entry, why: StopReason) -> Vec<Outcome> {
        let (now, span) = (self.now.mono, self.settings().agent.finish_grace);
        match &entry.view {
            View::Running { run, stopping } => {
                let mut grace = false;
                let ending = self.runs.get_mut(run).is_some_and(|model| {
                    model.seen_inactive = true;
                    model.seen_active = false;
                    model.seen_terminal = false;
                    grace = why == StopReason::NotActive && model.begin_grace(why, now, span);
                    if !grace {
                        model.end_grace();
                    }
                    model.finish.is_some()
                });
                match stopping {
                    Some(_) => vec![Outcome::Same],
                    None if grace => vec![Outcome::Same],
                    None if ending => vec![Outcome::Same, Outcome::Stopping(why)],
                    None => vec![Outcome::Stopping(why)],
                }
            }
            View::Waiting { .. } | View::Blocked { .. } => vec![Outcome::Free],
            View::Checking { .. } | View::Cleaning { .. } => vec![Outcome::Same, Outcome::Free],
        }
    }

    fn over(&mut self, entry: &Entry, issue: &Issue) -> Vec<Outcome> {
        let id = &entry.issue.id;
        self.bring(id, issue, false);
        let (now, span) = (self.now.mono, self.settings().agent.finish_grace);
        match &entry.view {
            View::Running { run, stopping } => {
                let mut grace = false;
                let ending = self.runs.get_mut(run).is_some_and(|model| {
                    model.seen_terminal = true;
                    model.seen_active = false;
                    model.seen_inactive = false;
                    grace = model.begin_grace(StopReason::Terminal, now, span);
                    if !grace {
                        model.end_grace();
                    }
                    model.finish.is_some()
                });
                match stopping {
                    Some(_) => vec![Outcome::Same],
                    None if grace => vec![Outcome::Same],
                    None if ending => vec![Outcome::Same, Outcome::Stopping(StopReason::Terminal)],
                    None => vec![Outcome::Stopping(StopReason::Terminal)],
                }
            }
            View::Waiting { .. } | View::Blocked { .. } => self.cleaned(id),
            View::Checking { .. } | View::Cleaning { .. } => vec![Outcome::Same],
        }
    }

    fn goes_on(&mut self, entry: &Entry, issue: &Issue) -> Vec<Outcome> {
        let id = &entry.issue.id;
        match &entry.view {
            View::Running { run, stopping } => {
                if let Some(model) = self.runs.get_mut(run) {
                    model.seen_active = true;
                    model.seen_inactive = false;
                    model.seen_terminal = false;
                    model.end_grace();
                }
                self.bring(id, issue, stopping.is_none());
                vec![Outcome::Same]
            }
            View::Waiting { .. } => {
                self.bring(id, issue, true);
                vec![Outcome::Same]
            }
            // Moved before it was blocked: that is where it was left.
            View::Blocked { .. } if !entry.seen => {
                self.bring(id, issue, true);
                vec![Outcome::Same]
            }
            View::Blocked { .. } if issue.state != entry.issue.state => {
                self.bring(id, issue, true);
                let Some(entry) = self.claims.get_mut(id) else {
                    return vec![Outcome::Same];
                };
                entry.lineage.retry = true;
                let attempt = entry.lineage.attempt.unwrap_or(0);
                vec![Outcome::Waiting { attempt, until: Until::Now }]
            }
            View::Blocked { .. } => {
                self.bring(id, issue, true);
                vec![Outcome::Same]
            }
            View::Checking { .. } => {
                self.bring(id, issue, false);
                vec![Outcome::Same]
            }
            View::Cleaning { until, .. } => {
                self.bring(id, issue, false);
                // Not terminal after all: what is not under way is skipped (6.3).
                if until.is_some() {
                    vec![Outcome::Free, Outcome::Same]
                } else {
                    vec![Outcome::Same]
                }
            }
        }
    }

    fn strays_answered(&mut self, read: ReadId, answer: &Answer) {
        let Some(Ok(candidates)) = &answer.candidates else {
            return;
        };
        let settings = Arc::clone(&self.config.settings);
        for issue in &candidates.issues {
            let key = symphony_core::WorkspaceKey::derive(issue.identifier.as_str());
            let Some(key) = key.ok().filter(|key| self.strays.contains(key)) else {
                continue;
            };
            let id = &issue.id;
            self.newer(read, id, &Said::Issue(issue));
            let sure = is_terminal(&issue.state, &settings)
                && !self.shutting_down
                && !self.claims.contains_key(id)
                && self.has_record(id) == Some(false)
                && self.holder(id, &key).is_none();
            self.bring(id, issue, false);
            let outcomes =
                if sure { vec![Outcome::Cleaning] } else { vec![Outcome::Same, Outcome::Cleaning] };
            self.step.outcomes.insert(id.clone(), outcomes);
        }
    }
}

impl Purpose {
    /// The issues that are read by id.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &IssueId> {
        let (one, two): (&[IssueId], &[IssueId]) = match self {
            Self::Poll { refresh, sweep, .. } => (refresh, sweep),
            Self::Delivery { claimed, others } => (claimed, others),
            Self::Check(ids) | Self::Turn(ids) => (ids, &[]),
            Self::Strays => (&[], &[]),
        };
        one.iter().chain(two)
    }
}

/// The failure of a part, or of the whole.
pub(crate) fn failure_of(part: Option<&Result<IssuesById, Failure>>) -> Option<&Failure> {
    part.and_then(|part| part.as_ref().err())
}

/// The same before claimed issues are read again: five minutes at most (12.6).
pub(crate) fn asked_upkeep_wait(failure: &Failure) -> Option<Duration> {
    asked_wait(failure).map(|wait| wait.min(Duration::from_secs(300)))
}

/// What the tracker wants us to wait: a second at least.
pub(crate) fn asked_wait(failure: &Failure) -> Option<Duration> {
    failure.retry_after.map(|wait| wait.max(Duration::from_secs(1)))
}
