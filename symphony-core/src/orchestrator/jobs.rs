//! The jobs that read the tracker on an interval, and how they travel together (contract 4.3–4.5,
//! 12.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::issue::{Issue, IssueId};
use crate::snapshot::JobRow;
use crate::time::{Mono, Now, Wall};
use crate::tracker::{ById, CandidateQuery, Candidates, Poll};

use super::best::SPARE;
use super::claim::Stage;
use super::read::{Asked, asked_upkeep_wait, asked_wait};
use super::{Effect, Happened, Job, Orchestrator, Purpose, Query, ReadId, Saved};

/// At a restart, a read younger than this is not repeated (contract 4.1).
pub(super) const RESTART_PAUSE: Duration = Duration::from_secs(10);

/// The same for the sweep, which is in no hurry.
const RESTART_SWEEP_PAUSE: Duration = Duration::from_secs(60);

/// One job: idle until it is due, or reading.
#[derive(Clone, Debug, Default)]
pub(super) struct JobState {
    /// When it last ran.
    last: Option<Mono>,
    pub(super) last_wall: Option<Wall>,
    /// Not before this, whatever the interval says: the tracker asked for it.
    not_before: Mono,
    /// As soon as possible: what is known is known to be outdated.
    pub(super) asap: bool,
    /// As soon as the tracker's least gap allows: an operator asked for it.
    pub(super) manual: bool,
    pub(super) open: bool,
    pub(super) failure: Option<Failure>,
}

impl JobState {
    /// When it is due, on this interval; an operator's wish is kept `gap` from the last run.
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

    /// Whatever failed was another tracker's.
    pub(super) fn forget_failure(&mut self) {
        self.not_before = Mono::default();
        self.failure = None;
    }

    /// Its next run comes early, though so long after the last and not before the tracker allows.
    pub(super) fn hasten(&mut self, pause: Duration) {
        if let Some(last) = self.last.take() {
            self.not_before = self.not_before.max(last + pause);
        }
    }

    /// Until when the tracker wants silence, if it said so.
    pub(super) fn refused_until(&self) -> Option<Mono> {
        self.failure.as_ref().and_then(asked_wait).map(|_| self.not_before)
    }

    fn begin(&mut self, now: Now, asks: bool) {
        self.last = Some(now.mono);
        self.last_wall = Some(now.wall);
        self.asap = false;
        self.manual = false;
        self.open = asks;
    }

    /// `asked` says how long the tracker wants us to wait after a failure.
    fn end(
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
}

/// The jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    pub(super) candidates: JobState,
    pub(super) refresh: JobState,
    pub(super) sweep: JobState,
    pub(super) custom: BTreeMap<Arc<str>, (Duration, JobState)>,
    /// Last runs of jobs that an embedder has not added yet.
    restored: BTreeMap<Job, Wall>,
}

/// What one poll carries: each part belongs to a job.
#[derive(Clone, Debug)]
pub(super) struct PollParts {
    pub(super) candidates: bool,
    /// Claims to refresh, with the version they had.
    pub(super) refresh: Option<Vec<(IssueId, u64)>>,
    pub(super) sweep: Option<Vec<IssueId>>,
    /// Whether an operator asked for it.
    pub(super) manual: bool,
}

impl PollParts {
    pub(super) const fn purpose(&self) -> Purpose {
        match self {
            Self { manual: true, .. } => Purpose::Manual,
            Self { candidates: true, .. } => Purpose::Candidates,
            Self { refresh: Some(_), .. } => Purpose::Refresh,
            _ => Purpose::Sweep,
        }
    }
}

impl Orchestrator {
    /// At a restart the jobs go on where the last life left them.
    pub(super) fn restore_jobs(&mut self, ages: BTreeMap<Job, Duration>) {
        let now = self.now.mono;
        let pause = |job, interval: Duration, pause: Duration| {
            let age = ages.get(&job).copied().unwrap_or(Duration::MAX);
            now + interval.min(pause).saturating_sub(age)
        };
        let candidates = pause(Job::Candidates, self.interval(&Job::Candidates), RESTART_PAUSE);
        let refresh = pause(Job::Refresh, self.interval(&Job::Refresh), RESTART_PAUSE);
        let sweep = pause(Job::Sweep, self.interval(&Job::Sweep), RESTART_SWEEP_PAUSE);
        self.jobs.candidates.not_before = candidates;
        self.jobs.refresh.not_before = refresh;
        self.jobs.sweep.not_before = sweep;
        let wall = self.now.wall;
        let last = |job| ages.get(&job).map(|age| wall - *age);
        self.jobs.candidates.last_wall = last(Job::Candidates);
        self.jobs.refresh.last_wall = last(Job::Refresh);
        self.jobs.sweep.last_wall = last(Job::Sweep);
        let is_custom = |job: &Job| matches!(job, Job::Custom(_));
        self.jobs.restored = ages
            .into_iter()
            .filter(|(job, _)| is_custom(job))
            .map(|(job, age)| (job, wall - age))
            .collect();
    }

    /// When a job is due; `None` while it is under way, and for candidates while no slot is free.
    ///
    /// A refresh or a sweep with nothing to ask for is due all the same, and asks for nothing: so
    /// the first claim does not make a refresh overdue.
    pub(super) fn job_due(&self, job: &Job) -> Option<Mono> {
        let state = self.job(job)?;
        let may_run = *job != Job::Candidates || self.has_slot_to_fill();
        let idle = may_run && !state.open && !self.shutting_down;
        idle.then(|| state.due(self.interval(job), self.configuration.min_read_gap))
    }

    /// Whether a slot is free that no issue being read is to have.
    fn has_slot_to_fill(&self) -> bool {
        // An operator's wish is for now.
        let JobState { asap, manual, .. } = self.jobs.candidates;
        let reserved = if asap || manual { 0 } else { self.refill.reserved };
        self.free_slots() as usize > reserved
    }

    fn job(&self, job: &Job) -> Option<&JobState> {
        match job {
            Job::Candidates => Some(&self.jobs.candidates),
            Job::Refresh => Some(&self.jobs.refresh),
            Job::Sweep => Some(&self.jobs.sweep),
            Job::Custom(name) => self.jobs.custom.get(name).map(|(_, state)| state),
        }
    }

    /// Records of unclaimed issues that the tracker can be asked about.
    fn swept_records(&self) -> impl Iterator<Item = &IssueId> {
        let here = self.records.get(&self.configuration.scope);
        here.into_iter().flat_map(BTreeMap::keys).filter(|id| !self.claims.contains_key(*id))
    }

    /// When the next job is due.
    pub(super) fn next_job(&self) -> Option<Mono> {
        [Job::Candidates, Job::Refresh, Job::Sweep]
            .into_iter()
            .chain(self.jobs.custom.keys().cloned().map(Job::Custom))
            .filter_map(|job| self.job_due(&job))
            .min()
    }

    /// Starts what is due. Jobs due within a tenth of their interval travel together (4.3).
    pub(super) fn run_jobs(&mut self) {
        self.skip_empty_jobs();
        let now = self.now.mono;
        let due = |job: &Job, slack: u32| {
            let slack = self.interval(job).checked_div(slack).unwrap_or_default();
            let may_travel =
                self.job(job).is_some_and(|s| s.asap || s.manual || s.not_before <= now);
            may_travel && self.job_due(job).is_some_and(|at| at <= now + slack)
        };
        let jobs = [Job::Candidates, Job::Refresh, Job::Sweep];
        if jobs.iter().any(|job| due(job, 0)) {
            let [candidates, refresh, sweep] = jobs.map(|job| due(&job, 10));
            self.poll(candidates, refresh, sweep);
        }
        self.drop_wishes();
        self.run_custom_jobs();
    }

    /// An operator's wish is for now: what cannot be asked is not asked later, but for what waits
    /// for an open read or for the tracker's least gap.
    fn drop_wishes(&mut self) {
        let may_come = [Job::Candidates, Job::Refresh].map(|job| self.job_due(&job).is_some());
        let jobs = [&mut self.jobs.candidates, &mut self.jobs.refresh];
        for (state, may_come) in jobs.into_iter().zip(may_come) {
            state.asap &= state.open;
            state.manual &= state.open || may_come;
        }
    }

    /// A job that has nothing to ask for is done, and takes nobody along.
    fn skip_empty_jobs(&mut self) {
        let now = self.now;
        let is_due = |job| self.job_due(job).is_some_and(|at| at <= now.mono);
        let refresh =
            is_due(&Job::Refresh) && !self.claims.values().any(|c| is_refreshed(&c.stage));
        let sweep = is_due(&Job::Sweep)
            && self.swept_records().next().is_none()
            && (self.strays.is_empty() || self.strays_matched);
        if refresh {
            self.jobs.refresh.begin(now, false);
        }
        if sweep {
            self.jobs.sweep.begin(now, false);
        }
    }

    /// One read for every job that is due. Validation decides whether candidates are asked for;
    /// claimed issues are read in any case (contract 4.4).
    fn poll(&mut self, candidates: bool, refresh: bool, sweep: bool) {
        let now = self.now;
        self.recheck_workflow();
        let parts = PollParts {
            candidates: candidates && self.problems.is_empty(),
            refresh: refresh.then(|| {
                let refreshed = self.claims.iter().filter(|(_, c)| is_refreshed(&c.stage));
                refreshed.map(|(id, claim)| (id.clone(), claim.version)).collect()
            }),
            sweep: sweep.then(|| self.swept_records().cloned().collect()),
            manual: (candidates && self.jobs.candidates.manual)
                || (refresh && self.jobs.refresh.manual),
        };
        let query = parts.candidates.then(|| CandidateQuery {
            states: self.settings().tracker.active_states.clone(),
            enough: self.settings().agent.max_concurrent_agents as usize
                + SPARE
                + self.claims.len()
                + self.idle_candidates(),
        });
        let refreshed = parts.refresh.iter().flatten().map(|(id, _)| id);
        let ids: Vec<IssueId> = refreshed.chain(parts.sweep.iter().flatten()).cloned().collect();
        let asks = query.is_some() || !ids.is_empty();
        for (is_due, asks, state) in [
            (candidates, parts.candidates, &mut self.jobs.candidates),
            (refresh, asks, &mut self.jobs.refresh),
            (sweep, asks, &mut self.jobs.sweep),
        ] {
            if is_due {
                state.begin(now, asks);
            }
        }
        if asks {
            if parts.candidates {
                self.told_by_list();
            }
            let poll = Poll { purpose: parts.purpose(), candidates: query, ids };
            self.ask(Query::Poll(poll), Asked::Poll(parts));
        }
        if sweep {
            self.read_strays();
        }
        if asks || sweep {
            self.save();
        }
    }

    /// Candidates at the front of a longer list that cannot start: the next list must reach beyond
    /// them, else what could start behind them never would.
    fn idle_candidates(&self) -> usize {
        if !self.kept.more {
            return 0;
        }
        let is_idle = |issue: &&Issue| {
            !self.claims.contains_key(&issue.id)
                && (!self.is_free_candidate(issue)
                    || self.slots.free_in_state(self.settings(), &issue.state) == Some(0))
        };
        self.kept.issues.iter().filter(is_idle).count()
    }

    /// A missed edit is found before the next dispatch at the latest (contract 2.6).
    pub(super) fn recheck_workflow(&mut self) {
        if !self.out.effects.contains(&Effect::RecheckWorkflow) {
            self.effect(Effect::RecheckWorkflow);
        }
    }

    /// Saves what must survive a restart.
    pub(super) fn save(&mut self) {
        let jobs = [
            (Job::Candidates, self.jobs.candidates.last_wall),
            (Job::Refresh, self.jobs.refresh.last_wall),
            (Job::Sweep, self.jobs.sweep.last_wall),
        ];
        let custom = self.jobs.custom.iter();
        let custom = custom.map(|(name, (_, state))| (Job::Custom(name.clone()), state.last_wall));
        let waiting = self.jobs.restored.iter().map(|(job, at)| (job.clone(), Some(*at)));
        let all = jobs.into_iter().chain(custom).chain(waiting);
        let last_runs = all.filter_map(|(job, at)| Some((job, at?))).collect();
        let scope = self.configuration.scope.clone();
        let (spent, decisions) = (self.spent.clone(), self.decisions());
        self.effect(Effect::Save(Saved { scope, last_runs, spent, decisions }));
    }

    /// A poll came back: first what is known of claims and records, then the candidates (4.4).
    pub(super) fn poll_answered(
        &mut self,
        read: ReadId,
        parts: PollParts,
        candidates: Option<Result<Candidates, Failure>>,
        by_id: Result<ById, Failure>,
        next_poll: Option<Duration>,
    ) {
        let now = self.now.mono;
        if parts.refresh.is_some() || parts.sweep.is_some() {
            let failure = by_id.as_ref().err().cloned();
            if parts.refresh.is_some() {
                self.jobs.refresh.end(now, failure.clone(), asked_upkeep_wait);
            }
            if parts.sweep.is_some() {
                self.jobs.sweep.end(now, failure, asked_wait);
            }
            let purpose = if parts.refresh.is_some() { Purpose::Refresh } else { Purpose::Sweep };
            let ids = parts.refresh.iter().flatten().count() + parts.sweep.iter().flatten().count();
            if ids > 0 {
                let mut found = self.index(purpose, by_id);
                self.doubt_claims(read, parts.refresh.as_deref().unwrap_or_default(), &found);
                self.refreshed(read, parts.refresh.unwrap_or_default(), &mut found);
                self.swept(read, parts.sweep.unwrap_or_default(), &mut found);
            }
        }
        if parts.candidates {
            let result = candidates.unwrap_or_else(|| Err(super::read::no_answer()));
            let failure = result.as_ref().err().cloned();
            self.jobs.candidates.end(now, failure, asked_wait);
            match result {
                Ok(list) => {
                    self.doubt_list(&list.issues);
                    self.keep(read, list);
                }
                Err(failure) => self.read_failed(Purpose::Candidates, &failure),
            }
        }
        if let Some(wish) = next_poll.filter(|_| parts.candidates) {
            let at = now + self.bounded_wish(wish);
            self.jobs.candidates.not_before = self.jobs.candidates.not_before.max(at);
        }
    }

    /// An abandoned poll leaves its jobs as if they had not run.
    pub(super) fn abandon_poll(&mut self, parts: &PollParts) {
        let jobs = [
            (parts.candidates, &mut self.jobs.candidates),
            (parts.refresh.is_some(), &mut self.jobs.refresh),
            (parts.sweep.is_some(), &mut self.jobs.sweep),
        ];
        for (_, state) in jobs.into_iter().filter(|(was_asked, _)| *was_asked) {
            state.open = false;
            state.last = None;
        }
    }

    /// An embedder adds a job, or changes its interval.
    pub(super) fn add_job(&mut self, name: Arc<str>, interval: Duration) {
        let job = Job::Custom(Arc::clone(&name));
        let last = self.jobs.restored.remove(&job);
        let (known, state) = self.jobs.custom.entry(name).or_default();
        if let (None, Some(last)) = (state.last, last) {
            let age = last.until(self.now.wall).unwrap_or_default();
            state.not_before = self.now.mono + interval.saturating_sub(age);
            state.last_wall = Some(last);
        }
        *known = interval;
    }

    fn run_custom_jobs(&mut self) {
        let due: Vec<Arc<str>> = self
            .jobs
            .custom
            .keys()
            .filter(|name| {
                let job = Job::Custom(Arc::clone(name));
                self.job_due(&job).is_some_and(|at| at <= self.now.mono)
            })
            .cloned()
            .collect();
        for name in due {
            let now = self.now;
            if let Some((_, state)) = self.jobs.custom.get_mut(&name) {
                state.begin(now, true);
            }
            self.effect(Effect::RunJob { name });
        }
    }

    /// An embedder's job came back.
    pub(super) fn job_ended(&mut self, name: Arc<str>, outcome: Result<(), Failure>) {
        let now = self.now.mono;
        let Some((_, state)) = self.jobs.custom.get_mut(&name) else {
            return;
        };
        let failure = outcome.err();
        state.end(now, failure.clone(), asked_wait);
        if let Some(failure) = failure {
            self.notice(Happened::JobFailed { job: Job::Custom(name), failure });
        }
    }

    /// One row per job, for people.
    pub(super) fn job_rows(&self) -> Vec<JobRow> {
        let has_claims = self.claims.values().any(|claim| is_refreshed(&claim.stage));
        [Job::Candidates, Job::Refresh, Job::Sweep]
            .into_iter()
            .chain(self.jobs.custom.keys().cloned().map(Job::Custom))
            .filter_map(|job| {
                let state = self.job(&job)?;
                Some(JobRow {
                    in_progress: state.open,
                    next: self.job_due(&job).filter(|_| job != Job::Refresh || has_claims),
                    last_run: state.last_wall,
                    failure: state.failure.clone(),
                    job,
                })
            })
            .collect()
    }
}

/// Claims that are read on an interval. A check or a removal under way speaks for itself.
pub(super) const fn is_refreshed(stage: &Stage) -> bool {
    matches!(
        stage,
        Stage::Running { .. }
            | Stage::Stopping { .. }
            | Stage::Waiting { .. }
            | Stage::Blocked { .. }
    )
}
