//! What is asked of the tracker, and where each answer goes: jobs on an interval that travel
//! together (contract 4.3–4.5, 12.1), and every other read.

use std::sync::Arc;

use crate::failure::Failure;
use crate::issue::IssueId;
use crate::store::PollRow;
use crate::tracker::{CandidateQuery, Candidates, Poll, Purpose};

use super::backlog::{PollAnswer, SPARE_CHECKS};
use super::claims::Claim;
use super::pacing::bounded_wish;
use super::reads::{Asked, Found, PollParts, asked_upkeep_wait, asked_wait, no_answer};
use super::{Answer, Effect, Job, NoticeKind, Orchestrator, ReadId};

impl Orchestrator {
    /// Asks the tracker for a list, for issues by id, or both.
    pub(super) fn ask(
        &mut self,
        asked: Asked,
        candidates: Option<CandidateQuery>,
        ids: Vec<IssueId>,
    ) -> ReadId {
        let (read, generation) = (self.ids.read(), self.configuration.generation);
        let poll = Poll { purpose: asked.purpose(), candidates, ids };
        self.backlog.asked(&asked, &poll, &self.claims);
        self.reads.open(read, generation, asked, self.now.mono);
        self.out.effects.push(Effect::Read { read, generation, poll });
        read
    }

    /// Takes in the answer of a read.
    pub(super) fn answered(&mut self, read: ReadId, answer: Answer) {
        let Some(asked) = self.reads.close(read) else {
            return;
        };
        self.pacing.requests.count(self.now.wall, asked.purpose(), answer.requests);
        if matches!(asked, Asked::Abandoned(_)) {
            return;
        }
        let Answer { candidates, by_id, next_poll, budget, .. } = answer;
        if let Some(budget) = budget {
            self.pacing.requests.note_budget(budget);
        }
        let candidates = candidates.unwrap_or_else(|| Err(no_answer()));
        let found = Found::new(by_id.unwrap_or_else(|| Err(no_answer())));
        if let (Some(purpose), Some(failure)) = (asked.purpose_by_id(), found.failure()) {
            self.out.notice(NoticeKind::ReadFailed { purpose, failure: failure.clone() });
        }
        match asked {
            Asked::Poll(parts) => {
                let wish = next_poll.filter(|_| parts.candidates);
                self.poll_answered(read, parts, candidates, &found);
                if let Some(wish) = wish {
                    let wish = bounded_wish(wish, self.schedule().job_pace().candidates);
                    self.reads.jobs.candidates.postpone(self.now.mono + wish);
                }
            }
            Asked::Check { chosen } => self.check_answered(read, chosen, &found),
            Asked::Turn { runs } => self.turns_answered(read, runs, &found),
            Asked::Strays => self.strays_answered(read, candidates),
            Asked::Delivery { claimed, others } => {
                self.delivery_answered(read, claimed, others, &found);
            }
            Asked::Abandoned(_) => {}
        }
    }

    /// Starts what is due.
    pub(super) fn run_jobs(&mut self) {
        let (now, pace) = (self.now, self.schedule().job_pace());
        let (claims, folders, jobs) = (&self.claims, &self.folders, &mut self.reads.jobs);
        jobs.skip_if(&Job::Refresh, now, &pace, || !claims.values().any(Claim::is_refreshed));
        jobs.skip_if(&Job::Sweep, now, &pace, || {
            folders.unclaimed(claims).next().is_none() && !folders.has_unmatched_strays()
        });
        if let Some([candidates, refresh, sweep]) = self.reads.jobs.travellers(self.now.mono, &pace)
        {
            self.poll(candidates, refresh, sweep);
        }
        self.reads.jobs.drop_wishes(&pace);
        for name in self.reads.jobs.begin_custom(self.now, &pace) {
            self.out.effects.push(Effect::RunJob { name });
        }
    }

    /// One read for every job that is due. Validation decides whether candidates are asked for;
    /// claimed issues are read in any case (contract 4.4).
    fn poll(&mut self, candidates: bool, refresh: bool, sweep: bool) {
        let now = self.now;
        self.out.recheck_workflow();
        let jobs = &self.reads.jobs;
        let parts = PollParts {
            candidates: candidates && self.lifecycle.problems().is_empty(),
            refresh: refresh.then(|| {
                let refreshed = self.claims.iter().filter(|(_, claim)| claim.is_refreshed());
                refreshed.map(|(id, claim)| (id.clone(), claim.version())).collect()
            }),
            sweep: sweep.then(|| self.folders.unclaimed(&self.claims).cloned().collect()),
            manual: (candidates && jobs.candidates.is_manual())
                || (refresh && jobs.refresh.is_manual()),
        };
        let query = parts.candidates.then(|| CandidateQuery {
            states: self.settings().tracker.active_states.clone(),
            enough: self.settings().agent.max_concurrent_agents as usize
                + SPARE_CHECKS
                + self.claims.len()
                + self.eligibility().idle_candidates(),
        });
        let refreshed = parts.refresh.iter().flatten().map(|(id, _)| id);
        let ids: Vec<IssueId> = refreshed.chain(parts.sweep.iter().flatten()).cloned().collect();
        let asks = query.is_some() || !ids.is_empty();
        let jobs = &mut self.reads.jobs;
        for (is_due, asks, state) in [
            (candidates, parts.candidates, &mut jobs.candidates),
            (refresh, asks, &mut jobs.refresh),
            (sweep, asks, &mut jobs.sweep),
        ] {
            if is_due {
                state.begin(now, asks);
            }
        }
        if asks {
            self.ask(Asked::Poll(parts), query, ids);
        }
        if sweep {
            self.read_strays();
        }
        if asks || sweep {
            self.write_polls();
        }
    }

    /// Writes when the tracker was last read, and how often today.
    pub(super) fn write_polls(&mut self) {
        self.journal.write_polls(PollRow {
            scope: self.configuration.scope.clone(),
            last_runs: self.reads.jobs.last_runs(),
            spent: self.pacing.requests.spent().clone(),
        });
    }

    /// Takes in the answer of a poll: first claims and records, then the candidates (4.4).
    fn poll_answered(
        &mut self,
        read: ReadId,
        parts: PollParts,
        candidates: Result<Candidates, Failure>,
        found: &Found,
    ) {
        let now = self.now.mono;
        let jobs = &mut self.reads.jobs;
        let failure = found.failure();
        if parts.refresh.is_some() {
            jobs.refresh.end(now, failure.cloned(), asked_upkeep_wait);
        }
        if parts.sweep.is_some() {
            jobs.sweep.end(now, failure.cloned(), asked_wait);
        }
        let candidates = parts.candidates.then_some(candidates);
        if let Some(result) = &candidates {
            jobs.candidates.end(now, result.as_ref().err().cloned(), asked_wait);
        }
        let list = candidates.as_ref().and_then(|result| result.as_ref().ok());
        let answer = PollAnswer { parts: &parts, found, list };
        self.backlog.answered(read, &answer, &self.claims, &self.reads, now);
        self.refreshed(read, parts.refresh.unwrap_or_default(), found);
        self.swept(read, parts.sweep.unwrap_or_default(), found);
        match candidates {
            Some(Ok(list)) => {
                let compare = self.settings().polling.activity.is_some();
                if self.backlog.keep(read, list, now, compare) {
                    self.pacing.touch(now);
                }
                self.reads.refill.want_now();
            }
            Some(Err(failure)) => {
                self.out.notice(NoticeKind::ReadFailed { purpose: Purpose::Candidates, failure });
                // What is due without a list, as after a restart, does not wait for one.
                self.reads.refill.want_now();
            }
            None => {}
        }
    }

    /// Takes in the end of an embedder's job.
    pub(super) fn job_ended(&mut self, name: Arc<str>, outcome: Result<(), Failure>) {
        let job = Job::Custom(name);
        let Some(state) = self.reads.jobs.get_mut(&job) else {
            return;
        };
        let failure = outcome.err();
        state.end(self.now.mono, failure.clone(), asked_wait);
        if let Some(failure) = failure {
            self.out.notice(NoticeKind::JobFailed { job, failure });
        }
    }
}
