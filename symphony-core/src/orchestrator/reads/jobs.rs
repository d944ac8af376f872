//! The jobs that read the tracker on an interval (contract 4.1, 12.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::issue::IssueId;
use crate::orchestrator::Job;
use crate::snapshot::JobRow;
use crate::time::{Mono, Now, Wall};
use crate::tracker::Purpose;

use super::answer::asked_wait;

/// At a restart, a read younger than this is not repeated (contract 4.1).
pub(in crate::orchestrator) const RESTART_PAUSE: Duration = Duration::from_secs(10);

/// The same for the sweep, which is in no hurry.
const RESTART_SWEEP_PAUSE: Duration = Duration::from_secs(60);

/// One job: idle until it is due, or reading.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct JobState {
    /// When it last ran.
    last: Option<Mono>,
    last_wall: Option<Wall>,
    /// Not before this, whatever the interval says: the tracker asked for it.
    not_before: Mono,
    /// As soon as possible: what is known is known to be outdated.
    asap: bool,
    /// As soon as the tracker's least gap allows: an operator asked for it.
    manual: bool,
    open: bool,
    failure: Option<Failure>,
}

impl JobState {
    /// Returns when the job is due on this interval; an operator's wish is kept `gap` from the last
    /// run.
    fn due(&self, interval: Duration, gap: Duration) -> Mono {
        match self.last {
            _ if self.asap => Mono::default(),
            Some(last) if self.manual => last + gap,
            None if self.manual => Mono::default(),
            // An interval of nothing would be a busy loop.
            Some(last) => (last + interval.max(Duration::from_millis(1))).max(self.not_before),
            None => self.not_before,
        }
    }

    /// Whether it may go along with a job that is due, though its own time is a little later.
    fn may_travel(&self, now: Mono) -> bool {
        self.is_urgent() || self.not_before <= now
    }

    /// Whether it does not wait for its interval.
    const fn is_urgent(&self) -> bool {
        self.asap || self.manual
    }

    pub(in crate::orchestrator) const fn is_manual(&self) -> bool {
        self.manual
    }

    pub(in crate::orchestrator) const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns until when the tracker wants silence, if it said so.
    pub(in crate::orchestrator) fn refused_until(&self) -> Option<Mono> {
        self.failure.as_ref().and_then(asked_wait).map(|_| self.not_before)
    }

    /// Begins a run of the job; `asks` says whether there is an answer to wait for.
    pub(in crate::orchestrator) fn begin(&mut self, now: Now, asks: bool) {
        self.last = Some(now.mono);
        self.last_wall = Some(now.wall);
        self.asap = false;
        self.manual = false;
        self.open = asks;
    }

    /// Ends a run of the job. `asked` says how long the tracker wants us to wait after a failure.
    pub(in crate::orchestrator) fn end(
        &mut self,
        now: Mono,
        failure: Option<Failure>,
        asked: impl Fn(&Failure) -> Option<Duration>,
    ) {
        self.open = false;
        if let Some(wait) = failure.as_ref().and_then(asked) {
            self.not_before = now + wait;
        }
        self.failure = failure;
    }

    /// Makes the job as if it had not run.
    fn abandon(&mut self) {
        self.open = false;
        self.last = None;
    }

    /// Makes the job due as soon as possible.
    pub(in crate::orchestrator) const fn hurry(&mut self) {
        self.asap = true;
    }

    /// Brings the next run forward, to `pause` after the last one but not before the tracker
    /// allows.
    pub(in crate::orchestrator) fn hasten(&mut self, pause: Duration) {
        if let Some(last) = self.last.take() {
            self.postpone(last + pause);
        }
    }

    /// Puts the next run off until then.
    pub(in crate::orchestrator) fn postpone(&mut self, until: Mono) {
        self.not_before = self.not_before.max(until);
    }
}

/// The jobs.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Jobs {
    pub(in crate::orchestrator) candidates: JobState,
    pub(in crate::orchestrator) refresh: JobState,
    pub(in crate::orchestrator) sweep: JobState,
    custom: BTreeMap<Arc<str>, (Duration, JobState)>,
    /// Last runs of jobs that an embedder has not added yet.
    restored: BTreeMap<Job, Wall>,
}

impl Jobs {
    /// Goes on where the last life left the jobs.
    pub(in crate::orchestrator) fn restore(
        &mut self,
        last_runs: &BTreeMap<Job, Wall>,
        pace: &JobPace,
        now: Now,
    ) {
        // A clock that went back makes no age negative.
        let age = |at: Wall| at.until(now.wall).unwrap_or_default();
        let last = |job| last_runs.get(&job).map(|at| now.wall - age(*at));
        let rest = |job, interval: Duration, pause: Duration| {
            let age = last_runs.get(&job).map_or(Duration::MAX, |at| age(*at));
            now.mono + interval.min(pause).saturating_sub(age)
        };
        for (job, state, interval, pause) in [
            (Job::Candidates, &mut self.candidates, pace.candidates, RESTART_PAUSE),
            (Job::Refresh, &mut self.refresh, pace.refresh, RESTART_PAUSE),
            (Job::Sweep, &mut self.sweep, pace.sweep, RESTART_SWEEP_PAUSE),
        ] {
            state.last_wall = last(job.clone());
            state.not_before = rest(job, interval, pause);
        }
        let is_custom = |job: &Job| matches!(job, Job::Custom(_));
        self.restored = last_runs
            .iter()
            .filter(|(job, _)| is_custom(job))
            .map(|(job, at)| (job.clone(), now.wall - age(*at)))
            .collect();
    }

    pub(in crate::orchestrator) fn get(&self, job: &Job) -> Option<&JobState> {
        match job {
            Job::Candidates => Some(&self.candidates),
            Job::Refresh => Some(&self.refresh),
            Job::Sweep => Some(&self.sweep),
            Job::Custom(name) => self.custom.get(name).map(|(_, state)| state),
        }
    }

    pub(in crate::orchestrator) fn get_mut(&mut self, job: &Job) -> Option<&mut JobState> {
        match job {
            Job::Candidates => Some(&mut self.candidates),
            Job::Refresh => Some(&mut self.refresh),
            Job::Sweep => Some(&mut self.sweep),
            Job::Custom(name) => self.custom.get_mut(name).map(|(_, state)| state),
        }
    }

    /// All jobs, an embedder's own last.
    pub(in crate::orchestrator) fn all(&self) -> impl Iterator<Item = Job> {
        let custom = self.custom.keys().cloned().map(Job::Custom);
        [Job::Candidates, Job::Refresh, Job::Sweep].into_iter().chain(custom)
    }

    /// Returns the interval of a job.
    fn interval(&self, job: &Job, pace: &JobPace) -> Duration {
        match job {
            Job::Candidates => pace.candidates,
            Job::Refresh => pace.refresh,
            Job::Sweep => pace.sweep,
            Job::Custom(name) => self.custom.get(name).map_or(Duration::ZERO, |(every, _)| *every),
        }
    }

    /// Returns when a job is due; `None` while it is under way, and for candidates while no slot is
    /// free.
    ///
    /// A refresh or a sweep with nothing to ask for is due all the same, and asks for nothing: so
    /// the first claim does not make a refresh overdue.
    pub(in crate::orchestrator) fn due(&self, job: &Job, pace: &JobPace) -> Option<Mono> {
        let state = self.get(job)?;
        let may_run = *job != Job::Candidates || self.has_slot_to_fill(pace);
        let idle = may_run && !state.open && pace.may_run;
        idle.then(|| state.due(self.interval(job, pace), pace.min_read_gap))
    }

    /// Whether a slot is free that no issue being read is to have.
    fn has_slot_to_fill(&self, pace: &JobPace) -> bool {
        // An operator's wish is for now.
        let reserved = if self.candidates.is_urgent() { 0 } else { pace.reserved_slots };
        pace.free_slots > reserved
    }

    /// Returns when the next job is due.
    pub(in crate::orchestrator) fn next(&self, pace: &JobPace) -> Option<Mono> {
        self.all().filter_map(|job| self.due(&job, pace)).min()
    }

    /// Returns which of candidates, refresh and sweep go now, if any is due. Jobs due within a
    /// tenth of their interval travel together (4.3).
    pub(in crate::orchestrator) fn travellers(
        &self,
        now: Mono,
        pace: &JobPace,
    ) -> Option<[bool; 3]> {
        let due = |job: &Job, slack: u32| {
            let slack = self.interval(job, pace).checked_div(slack).unwrap_or_default();
            let may_travel = self.get(job).is_some_and(|state| state.may_travel(now));
            may_travel && self.due(job, pace).is_some_and(|at| at <= now + slack)
        };
        let jobs = [Job::Candidates, Job::Refresh, Job::Sweep];
        jobs.iter().any(|job| due(job, 0)).then(|| jobs.map(|job| due(&job, 10)))
    }

    /// Skips a job that is due and has nothing to ask for: it counts as done, and no other job goes
    /// along with it.
    pub(in crate::orchestrator) fn skip_if(
        &mut self,
        job: &Job,
        now: Now,
        pace: &JobPace,
        is_empty: impl FnOnce() -> bool,
    ) {
        let is_due = self.due(job, pace).is_some_and(|at| at <= now.mono);
        if is_due
            && is_empty()
            && let Some(state) = self.get_mut(job)
        {
            state.begin(now, false);
        }
    }

    /// Begins the embedder's jobs that are due, and names them.
    pub(in crate::orchestrator) fn begin_custom(
        &mut self,
        now: Now,
        pace: &JobPace,
    ) -> Vec<Arc<str>> {
        let is_due = |name: &&Arc<str>| {
            let due = self.due(&Job::Custom(Arc::clone(name)), pace);
            due.is_some_and(|at| at <= now.mono)
        };
        let names: Vec<Arc<str>> = self.custom.keys().filter(is_due).cloned().collect();
        for name in &names {
            if let Some((_, state)) = self.custom.get_mut(name) {
                state.begin(now, true);
            }
        }
        names
    }

    /// One row per job, for people. Without claims no refresh is told of.
    pub(in crate::orchestrator) fn rows(&self, pace: &JobPace, has_claims: bool) -> Vec<JobRow> {
        let row = |job: Job| {
            let state = self.get(&job)?;
            Some(JobRow {
                in_progress: state.open,
                next: self.due(&job, pace).filter(|_| job != Job::Refresh || has_claims),
                last_run: state.last_wall,
                failure: state.failure.clone(),
                job,
            })
        };
        self.all().filter_map(row).collect()
    }

    /// Adds an embedder's job, or changes its interval.
    pub(in crate::orchestrator) fn add(&mut self, name: Arc<str>, interval: Duration, now: Now) {
        let last = self.restored.remove(&Job::Custom(Arc::clone(&name)));
        let (known, state) = self.custom.entry(name).or_default();
        if let (None, Some(last)) = (state.last, last) {
            let age = last.until(now.wall).unwrap_or_default();
            state.not_before = now.mono + interval.saturating_sub(age);
            state.last_wall = Some(last);
        }
        *known = interval;
    }

    /// Notes that an operator wants a poll.
    pub(in crate::orchestrator) const fn wish(&mut self) {
        self.candidates.manual = true;
        self.refresh.manual = true;
    }

    /// Drops wishes that cannot be met now, except for what waits for an open read or for the
    /// tracker's least gap.
    pub(in crate::orchestrator) fn drop_wishes(&mut self, pace: &JobPace) {
        if !self.candidates.is_urgent() && !self.refresh.is_urgent() {
            return;
        }
        let may_come = [Job::Candidates, Job::Refresh].map(|job| self.due(&job, pace).is_some());
        let jobs = [&mut self.candidates, &mut self.refresh];
        for (state, may_come) in jobs.into_iter().zip(may_come) {
            state.asap &= state.open;
            state.manual &= state.open || may_come;
        }
    }

    /// Forgets failures of another tracker.
    pub(super) fn forget_failures(&mut self) {
        for job in [&mut self.candidates, &mut self.refresh, &mut self.sweep] {
            job.not_before = Mono::default();
            job.failure = None;
        }
    }

    /// Makes the jobs of an abandoned poll as if they had not run.
    pub(super) fn abandon(&mut self, parts: &PollParts) {
        let jobs = [
            (parts.candidates, &mut self.candidates),
            (parts.refresh.is_some(), &mut self.refresh),
            (parts.sweep.is_some(), &mut self.sweep),
        ];
        for (_, state) in jobs.into_iter().filter(|(was_asked, _)| *was_asked) {
            state.abandon();
        }
    }

    /// Returns when each job last ran, for the next life.
    pub(in crate::orchestrator) fn last_runs(&self) -> BTreeMap<Job, Wall> {
        let known = self.all().filter_map(|job| Some((self.get(&job)?.last_wall?, job)));
        let known = known.map(|(at, job)| (job, at));
        known.chain(self.restored.iter().map(|(job, at)| (job.clone(), *at))).collect()
    }
}

/// What decides when jobs are due besides themselves.
#[derive(Clone, Copy, Debug)]
pub(in crate::orchestrator) struct JobPace {
    /// The intervals at this moment.
    pub(in crate::orchestrator) candidates: Duration,
    pub(in crate::orchestrator) refresh: Duration,
    pub(in crate::orchestrator) sweep: Duration,
    /// The tracker's least gap between two reads.
    pub(in crate::orchestrator) min_read_gap: Duration,
    pub(in crate::orchestrator) free_slots: usize,
    /// How many of them issues that are being read are to have.
    pub(in crate::orchestrator) reserved_slots: usize,
    /// Whether the service goes on.
    pub(in crate::orchestrator) may_run: bool,
}

/// What one poll carries: each part belongs to a job.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) struct PollParts {
    pub(in crate::orchestrator) candidates: bool,
    /// Claims to refresh, with the version they had.
    pub(in crate::orchestrator) refresh: Option<Vec<(IssueId, u64)>>,
    pub(in crate::orchestrator) sweep: Option<Vec<IssueId>>,
    /// Whether an operator asked for it.
    pub(in crate::orchestrator) manual: bool,
}

impl PollParts {
    pub(in crate::orchestrator) const fn purpose(&self) -> Purpose {
        match self {
            Self { manual: true, .. } => Purpose::Manual,
            Self { candidates: true, .. } => Purpose::Candidates,
            Self { refresh: Some(_), .. } => Purpose::Refresh,
            _ => Purpose::Sweep,
        }
    }

    /// Whether any issue is asked for by id.
    pub(in crate::orchestrator) fn asks_by_id(&self) -> bool {
        let refresh = self.refresh.iter().flatten().next();
        refresh.is_some() || self.sweep.iter().flatten().next().is_some()
    }
}
