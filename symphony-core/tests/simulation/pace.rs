//! How often the tracker is asked (contract 4.1, 12): not before it is due, not after, and no
//! storms.

use std::collections::VecDeque;
use std::time::Duration;

use symphony_core::orchestrator::{Answer, Event, Job, Restored, RunEvent};
use symphony_core::snapshot::{Mode, Polling};
use symphony_core::store::PollRow;
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::{Issue, Scope, Settings};

use crate::reads::{Purpose, ReadModel, asked_wait};
use crate::violation::{Check, ensure};

/// The longest a tracker's suggestion is followed.
const MAX_SUGGESTED_WAIT: Duration = Duration::from_secs(3600);

/// One job's times.
#[derive(Debug, Default)]
struct JobPace {
    asked: Option<Mono>,
    /// Whether something since the last time lets it come early.
    excused: bool,
}

/// Everything about the pace.
#[derive(Debug)]
pub(crate) struct Pace {
    candidates: JobPace,
    refresh: JobPace,
    sweep: JobPace,
    first_poll: Mono,
    quiet: bool,
    checked: Option<Mono>,
    /// Until when a failed read before a start may keep others back.
    checks_wait: Mono,
    checks_failed: u32,
    /// The last thing that surely is activity, and the last that may be.
    active: Mono,
    perhaps_active: Mono,
    reads: VecDeque<Mono>,
    causes: VecDeque<Mono>,
    manual: VecDeque<Mono>,
    requests: u64,
    day: i64,
    requests_sure: bool,
    saved: Option<Wall>,
    unsaved: Option<Wall>,
    /// Until when a refusal or a suggestion may put polls off.
    put_off: Mono,
    /// Since when candidates could be asked for.
    able: Option<Mono>,
    /// Since when a run lived and no refresh was open.
    watched: Option<Mono>,
    wall_of_boot: Wall,
    mono_of_boot: Mono,
}

impl Pace {
    pub(crate) fn new(restored: &Restored, now: Now) -> Self {
        let spent = restored.rows.polls.as_ref().map(|row| row.spent.clone()).unwrap_or_default();
        // A clock that was set back does not wipe the counts.
        let today = spent.day >= now.wall.day();
        Self {
            candidates: JobPace::default(),
            refresh: JobPace::default(),
            sweep: JobPace::default(),
            first_poll: now.mono,
            quiet: false,
            checked: None,
            checks_wait: now.mono,
            checks_failed: 0,
            active: now.mono,
            perhaps_active: now.mono,
            reads: VecDeque::new(),
            causes: VecDeque::new(),
            manual: VecDeque::new(),
            requests: if today { spent.requests.values().sum() } else { 0 },
            day: now.wall.day(),
            requests_sure: spent.day <= now.wall.day(),
            saved: None,
            unsaved: None,
            put_off: now.mono,
            able: None,
            watched: None,
            wall_of_boot: now.wall,
            mono_of_boot: now.mono,
        }
    }

    /// A restart within seconds of the last poll waits for the rest of them (4.1).
    pub(crate) fn not_before(&mut self, first_poll: Mono) {
        self.first_poll = first_poll;
    }

    pub(crate) fn quiet(&mut self, on: bool) {
        self.quiet = on;
    }

    pub(crate) fn active(&mut self, now: Mono) {
        self.active = now;
        self.perhaps_active = now;
    }

    /// Takes in what may let jobs come early, and what explains reads.
    pub(crate) fn told(&mut self, now: Mono, event: &Event) {
        match event {
            Event::Command(_) | Event::Activity => {
                self.active(now);
                self.excuse(now);
            }
            Event::Delivered { .. } => {
                self.active(now);
                self.causes.push_back(now);
            }
            Event::Reloaded { .. } | Event::ReloadFailed { .. } | Event::QuietHours { .. } => {
                self.perhaps_active = now;
                self.excuse(now);
            }
            Event::Run { news: RunEvent::Ended(_), .. } => {
                // In which state a blocked issue is left is read at once.
                self.refresh.excused = true;
                self.causes.push_back(now)
            }
            Event::Run { news: RunEvent::TurnEnded, .. } | Event::Storage(None) => {
                self.causes.push_back(now)
            }
            _ => {}
        }
    }

    /// Something explains a read.
    pub(crate) fn cause(&mut self, now: Mono) {
        self.causes.push_back(now);
    }

    /// Something lets every job come early.
    pub(crate) fn excuse(&mut self, now: Mono) {
        for job in [&mut self.candidates, &mut self.refresh, &mut self.sweep] {
            job.excused = true;
        }
        self.causes.push_back(now);
    }

    /// A candidate is listed: a new one, and one in another state, are activity.
    /// While nothing depends on it, it may go unnoticed.
    pub(crate) fn listed(&mut self, now: Mono, known: Option<&Issue>, issue: &Issue, counts: bool) {
        match known {
            None if counts => self.active(now),
            Some(known) if counts && known.state != issue.state => self.active(now),
            None => self.perhaps_active = now,
            Some(known) if known != issue => self.perhaps_active = now,
            Some(_) => {}
        }
    }

    /// A poll goes out: no job before its time.
    pub(crate) fn asked(
        &mut self,
        now: Mono,
        candidates: bool,
        refresh: bool,
        sweep: bool,
        settings: &Settings,
    ) -> Check {
        let early = now < self.first_poll && candidates && !self.candidates.excused;
        ensure!(
            !early,
            "a restart is no request storm (4.1)",
            "polled at {now:?}, not before {:?}",
            self.first_poll
        );
        let polling = &settings.polling;
        let shortest = |own: Option<Duration>| {
            let base = own.unwrap_or(polling.interval);
            polling
                .activity
                .as_ref()
                .map_or(base, |activity| base.min(activity.idle).min(activity.dormant))
        };
        for (asked, job, interval, what) in [
            (candidates, &mut self.candidates, shortest(polling.jobs.candidates), "candidates"),
            (refresh, &mut self.refresh, shortest(polling.jobs.refresh), "refresh"),
            (sweep, &mut self.sweep, polling.jobs.sweep, "sweep"),
        ] {
            if !asked {
                continue;
            }
            let since = job.asked.map(|last| now.since(last));
            let due = since.is_none_or(|since| since >= interval * 9 / 10);
            ensure!(
                due || job.excused,
                "a job runs on its interval (12.1)",
                "{what} after {since:?}, interval {interval:?}"
            );
            *job = JobPace { asked: Some(now), excused: false };
        }
        self.count_read(now, settings)
    }

    /// A poll goes out because an operator asked for it: candidates and refresh keep the tracker's
    /// least gap each, however often that happens (4.7).
    pub(crate) fn asked_by_operator(&mut self, now: Mono, gap: Duration) -> Check {
        self.manual.push_back(now);
        if self.manual.len() > 2 {
            let first = self.manual.pop_front();
            ensure!(
                first.is_none_or(|first| now.since(first) >= gap),
                "manual polls keep the least gap (4.7)",
                "three since {first:?}"
            );
        }
        Ok(())
    }

    /// A read before a start goes out.
    pub(crate) fn checked(&mut self, now: Mono) {
        self.checked = Some(now);
        self.reads.push_back(now);
    }

    /// A read because of deliveries goes out.
    pub(crate) fn read(&mut self, now: Mono) {
        self.reads.push_back(now);
    }

    fn count_read(&mut self, now: Mono, settings: &Settings) -> Check {
        self.reads.push_back(now);
        let minute = Duration::from_secs(60);
        while self.reads.front().is_some_and(|at| now.since(*at) > minute) {
            self.reads.pop_front();
        }
        while self.causes.front().is_some_and(|at| now.since(*at) > minute * 2) {
            self.causes.pop_front();
        }
        let per_minute = 60_000 / settings.polling.interval.as_millis().max(1);
        let allowed = 30 + 4 * per_minute + 4 * self.causes.len() as u128;
        ensure!(
            self.reads.len() as u128 <= allowed,
            "reads are no storm (4.5)",
            "{} reads in a minute, {} causes",
            self.reads.len(),
            self.causes.len()
        );
        Ok(())
    }

    /// An answer came in.
    pub(crate) fn answered(
        &mut self,
        now: Now,
        model: &ReadModel,
        answer: &Answer,
        backoff: impl Fn(u32) -> Duration,
    ) {
        self.count_day(now);
        self.requests += u64::from(answer.requests);
        let failures = [
            answer.candidates.as_ref().and_then(|part| part.as_ref().err()),
            answer.by_id.as_ref().and_then(|part| part.as_ref().err()),
        ];
        for failure in failures.into_iter().flatten() {
            self.excuse(now.mono);
            let wait = asked_wait(failure).unwrap_or(Duration::ZERO);
            self.put_off = self.put_off.max(now.mono + wait);
        }
        if matches!(model.purpose, Purpose::Check(_)) {
            // Reads before a start that fail one after the other back off like attempts.
            let failure = failures[1];
            self.checks_failed = if failure.is_some() { self.checks_failed + 1 } else { 0 };
            let wait = failure.map_or(Duration::ZERO, |failure| {
                asked_wait(failure).unwrap_or_else(|| backoff(self.checks_failed))
            });
            self.checks_wait = self.checks_wait.max(now.mono + wait);
        }
        let asked_for_list = matches!(model.purpose, Purpose::Poll { candidates: true, .. });
        if let Some(span) = answer.next_poll.filter(|_| asked_for_list) {
            self.excuse(now.mono);
            self.put_off = self.put_off.max(now.mono + span.min(MAX_SUGGESTED_WAIT));
        }
        // Any answer may show a state change, and so be activity.
        self.perhaps_active = now.mono;
        if matches!(model.purpose, Purpose::Poll { candidates: true, .. }) {
            let asked = now.wall.as_unix_millis()
                - i64::try_from(now.mono.since(model.asked).as_millis()).unwrap_or(0);
            self.unsaved = Some(Wall::from_unix_millis(asked));
        }
    }

    fn count_day(&mut self, now: Now) {
        // A clock that was moved makes days ambiguous.
        let drift = now.wall.as_unix_millis() - self.wall_of_boot.as_unix_millis();
        let passed = i64::try_from(now.mono.since(self.mono_of_boot).as_millis()).unwrap_or(0);
        self.requests_sure &= drift == passed;
        if now.wall.day() != self.day {
            self.day = now.wall.day();
            self.requests = 0;
        }
    }

    pub(crate) fn saved(&mut self, saved: &PollRow, scope: &Scope) -> Check {
        ensure!(
            saved.scope == *scope,
            "what is saved is about the scope in force (12.4)",
            "{:?} instead of {scope:?}",
            saved.scope
        );
        self.saved = saved.last_runs.get(&Job::Candidates).copied();
        Ok(())
    }

    /// A poll's time is saved by the time its answer was handled (12.4).
    pub(crate) fn check_saved(&mut self) -> Check {
        if let Some(asked) = self.unsaved.take()
            && self.requests_sure
        {
            let saved = self.saved.is_some_and(|at| at >= asked);
            ensure!(
                saved,
                "last runs survive a restart (12.4)",
                "asked at {asked}, saved {:?}",
                self.saved
            );
        }
        Ok(())
    }

    /// Whether a failed read before a start may keep others back.
    pub(crate) fn checks_wait(&self, now: Mono) -> bool {
        self.checks_wait > now
    }

    /// By when the next read before a start must go out.
    pub(crate) fn next_check(&self, now: Mono, gap: Duration) -> Mono {
        let gap = self.checked.map_or(now, |checked| checked + gap);
        let next = gap.max(self.checks_wait);
        // A wake-up is after now in any case.
        next.max(now + Duration::from_millis(1))
    }

    /// What the snapshot shows of polling.
    pub(crate) fn check(
        &mut self,
        now: Now,
        shown: &Polling,
        able: bool,
        wakeup: Option<Mono>,
        settings: &Settings,
    ) -> Check {
        ensure!(
            shown.quiet == self.quiet,
            "the snapshot equals the world",
            "quiet hours {}",
            shown.quiet
        );
        self.count_day(now);
        if self.requests_sure {
            let requests: u64 = shown.requests_today.values().sum();
            ensure!(
                requests == self.requests,
                "requests are counted (12.7)",
                "{:?}, not {}",
                shown.requests_today,
                self.requests
            );
        }
        self.check_mode(now.mono, shown.mode, settings)?;
        for row in &shown.jobs {
            let late =
                row.next.is_some_and(|next| next <= now.mono || wakeup.is_none_or(|at| at > next));
            ensure!(
                !late,
                "a wake-up for every deadline",
                "{row:?} at {:?}, wake-up {wakeup:?}",
                now.mono
            );
        }
        let able =
            able && !shown.jobs.iter().any(|row| row.job == Job::Candidates && row.in_progress);
        self.able = if able { self.able.or(Some(now.mono)) } else { None };
        if let Some(since) = self.able {
            let longest = Self::longest(settings);
            let last =
                self.candidates.asked.unwrap_or(self.first_poll).max(since).max(self.put_off);
            let waited = now.mono.since(last);
            let most = longest * 2 + settings.tracker.timeout + Duration::from_secs(5);
            ensure!(
                waited <= most,
                "candidates are asked for in time (12.1)",
                "not for {waited:?}: {:?}",
                shown.jobs
            );
        }
        Ok(())
    }

    /// While a run lives its issue is read, also when the tracker wants silence for hours (12.6).
    pub(crate) fn check_refreshed(
        &mut self,
        now: Mono,
        shown: &Polling,
        lives: bool,
        settings: &Settings,
    ) -> Check {
        let open = shown.jobs.iter().any(|row| row.job == Job::Refresh && row.in_progress);
        self.watched = if lives && !open { self.watched.or(Some(now)) } else { None };
        let Some(since) = self.watched else {
            return Ok(());
        };
        let last = self.refresh.asked.unwrap_or(self.first_poll).max(since);
        let waited = now.since(last);
        let base = settings.polling.jobs.refresh.unwrap_or(settings.polling.interval);
        let most = base * 2 + Duration::from_secs(305);
        ensure!(
            waited <= most,
            "claimed issues are read in time (12.6)",
            "not for {waited:?}: {:?}",
            shown.jobs
        );
        Ok(())
    }

    fn longest(settings: &Settings) -> Duration {
        let polling = &settings.polling;
        let base = polling.jobs.candidates.unwrap_or(polling.interval);
        let slow = polling.activity.clone().unwrap_or_default();
        base.max(slow.idle).max(slow.dormant)
    }

    fn check_mode(&self, now: Mono, mode: Mode, settings: &Settings) -> Check {
        let allowed = match &settings.polling.activity {
            _ if self.quiet => vec![Mode::Dormant],
            None => vec![Mode::Active],
            Some(activity) => {
                let mode_after = |silence: Duration| {
                    if silence >= activity.dormant_after {
                        Mode::Dormant
                    } else if silence >= activity.idle_after {
                        Mode::Idle
                    } else {
                        Mode::Active
                    }
                };
                let latest = mode_after(now.since(self.active));
                let earliest = mode_after(now.since(self.perhaps_active));
                [Mode::Active, Mode::Idle, Mode::Dormant]
                    .into_iter()
                    .filter(|mode| (earliest..=latest).contains(mode))
                    .collect()
            }
        };
        ensure!(
            allowed.contains(&mode),
            "the pace follows activity (12.2)",
            "{mode:?} instead of {allowed:?}"
        );
        Ok(())
    }
}
