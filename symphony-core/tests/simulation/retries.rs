//! What follows the end of a run: contract section 7, with exact times.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::Question;
use symphony_core::orchestrator::{BlockReason, RunEnd, StopReason};
use symphony_core::run::RunId;
use symphony_core::time::Mono;
use symphony_core::{FailureKind, Issue, StateKind};

use crate::claims::{Entry, Lineage, Outcome, Until};
use crate::eligibility::is_terminal;
use crate::oracle::Oracle;
use crate::runs::{FinishReason, RunModel};

impl Lineage {
    /// After a failure, a stall, or an operator's retry: the next attempt, in a new conversation.
    pub(crate) fn again(&mut self) {
        self.attempt = Some(self.attempt.unwrap_or(0) + 1);
        self.forget_thread();
        self.resume_open = false;
        self.interruptions = 0;
        self.retry = true;
        self.interrupted = true;
    }

    /// The next run begins a new conversation.
    pub(crate) fn forget_thread(&mut self) {
        self.resume = None;
        self.unanswered = false;
        self.asked = None;
    }

    fn waiting(&self, until: Mono) -> Outcome {
        Outcome::Waiting { attempt: self.attempt.unwrap_or(0), until: Until::At(until) }
    }
}

impl Oracle {
    pub(crate) fn run_ended(&mut self, run: RunId, end: &RunEnd) {
        let Some(model) = self.runs.remove(&run) else {
            return;
        };
        let took = self.now.mono.since(model.started.mono);
        let issue = self.claims.get(&model.issue).map(|entry| Arc::clone(&entry.issue));
        // Other settings may say that it is not over after all.
        let settings = Arc::clone(&self.config.settings);
        let issue = issue.filter(|issue| is_terminal(&issue.state, &settings));
        self.sums.ended(&model, end, took, issue.and_then(|issue| is_completed(&issue)));
        self.pace.active(self.now.mono);
        let mut outcomes = self.after_run(run, &model, end);
        self.holds.ended(run);
        let of_other = |entry: &Entry| entry.scope != self.config.scope;
        if self.claims.get(&model.issue).is_some_and(of_other) {
            // Its row stays, for the return of its scope.
            self.step.parked.insert(model.issue.clone(), outcomes.clone());
            outcomes.retain(|outcome| *outcome == Outcome::Cleaning);
            outcomes.push(Outcome::Free);
        }
        self.step.outcomes.insert(model.issue, outcomes);
    }

    fn after_run(&mut self, run: RunId, model: &RunModel, end: &RunEnd) -> Vec<Outcome> {
        if let RunEnd::Failed(failure) = end
            && failure.kind.is_limit()
        {
            let backoff = self.settings().agent.max_retry_backoff;
            self.holds.begin(&model.agent, run, failure, backoff, self.now);
        }
        if matches!(end, RunEnd::Succeeded | RunEnd::InputRequired { .. } | RunEnd::Failed(_)) {
            self.holds.may_work(run);
        }
        if let Some((why, _)) = model.stop {
            return self.after_stop(model, why, end);
        }
        // Within its grace the issue is over, whatever becomes of the turn (8.2).
        let decided = match model.over {
            Some(_) if model.finish.is_some() => None,
            Some(StopReason::Terminal) => Some(self.cleaned(&model.issue)),
            Some(_) => Some(vec![Outcome::Free]),
            None => None,
        };
        let mut outcomes = match model.finish {
            _ if decided.is_some() => decided.unwrap_or_default(),
            Some(FinishReason::Terminal) if model.seen_active || model.seen_inactive => {
                // A newer read said otherwise: cleaning is skipped (6.3).
                let mut outcomes = vec![Outcome::Free];
                if model.seen_active {
                    outcomes.extend(self.after_own_end(run, model, end));
                }
                outcomes
            }
            Some(FinishReason::Terminal) => self.cleaned(&model.issue),
            Some(FinishReason::Inactive) if model.seen_active => {
                let mut outcomes = vec![Outcome::Free];
                outcomes.extend(self.after_own_end(run, model, end));
                outcomes
            }
            Some(FinishReason::Inactive) => vec![Outcome::Free],
            Some(FinishReason::Unreadable | FinishReason::TurnFailed | FinishReason::Storage)
                if is_limit(end) =>
            {
                self.held(model, end)
            }
            Some(FinishReason::Storage) if *end == RunEnd::Succeeded => {
                self.postponed(model);
                let until = self.now.mono + self.backoff(1);
                if let Some(entry) = self.claims.get_mut(&model.issue) {
                    entry.lineage.stored = true;
                }
                vec![Outcome::Waiting {
                    attempt: model.attempt.unwrap_or(0),
                    until: Until::At(until),
                }]
            }
            Some(FinishReason::Unreadable | FinishReason::TurnFailed | FinishReason::Storage) => {
                vec![self.after_failure(model)]
            }
            Some(FinishReason::MaxTurns) | None => self.after_own_end(run, model, end),
        };
        // What was read while it finished may count already, or at the next refresh.
        if model.finish.is_some() {
            if model.seen_terminal {
                outcomes.extend(self.cleaned(&model.issue));
            }
            if model.seen_inactive {
                outcomes.push(Outcome::Free);
            }
            if model.operator_stop {
                outcomes.push(Outcome::Blocked(BlockReason::Operator));
            }
        }
        if *end == RunEnd::Succeeded {
            self.holds.works(run);
        }
        outcomes
    }

    fn after_stop(&mut self, model: &RunModel, why: StopReason, end: &RunEnd) -> Vec<Outcome> {
        let mut outcomes = match why {
            StopReason::Terminal => self.cleaned(&model.issue),
            StopReason::NotActive | StopReason::Gone => vec![Outcome::Free],
            StopReason::ShutDown if model.operator_stop => {
                self.next_attempt(model);
                vec![Outcome::Blocked(BlockReason::Operator)]
            }
            StopReason::ShutDown => match end {
                RunEnd::InputRequired { question } => self.asked_person(model, question),
                _ => {
                    self.postponed(model);
                    let attempt = model.attempt.unwrap_or(0);
                    vec![Outcome::Waiting { attempt, until: Until::Now }]
                }
            },
            StopReason::Operator => {
                self.next_attempt(model);
                vec![Outcome::Blocked(BlockReason::Operator)]
            }
            StopReason::Stalled if is_limit(end) => self.held(model, end),
            StopReason::Stalled => {
                let stalled = self.after_failure(model);
                match end {
                    RunEnd::InputRequired { question } => {
                        vec![stalled, Outcome::Blocked(BlockReason::Question(question.clone()))]
                    }
                    _ => vec![stalled],
                }
            }
            other => unreachable!("the simulation does not know {other:?}"),
        };
        // What follows only escalates: retry, then release, then clean. Reads after the stop may
        // raise it; a newer one that is not terminal takes the cleaning back.
        let raised =
            matches!(why, StopReason::Stalled | StopReason::Operator | StopReason::ShutDown);
        let sure_terminal = sure_terminal(model);
        let sure_inactive = sure_inactive(model);
        // A read asked just before an operator's stop may or may not count (4.8).
        let mut open = if why == StopReason::Operator { outcomes.clone() } else { Vec::new() };
        // The issue is active, and an operator stopped it: it waits for one (4.7).
        let active = model.seen_active && !model.seen_inactive && !model.seen_terminal;
        if model.operator_stop && active {
            self.next_attempt(model);
            return vec![Outcome::Blocked(BlockReason::Operator)];
        }
        if raised && sure_terminal {
            open.extend(self.cleaned(&model.issue));
            return open;
        }
        if raised && sure_inactive {
            open.push(Outcome::Free);
            return open;
        }
        if why == StopReason::Terminal
            && (model.seen_active || model.seen_inactive)
            && !model.seen_terminal
        {
            return vec![Outcome::Free];
        }
        if model.seen_terminal {
            outcomes.extend(self.cleaned(&model.issue));
        }
        if model.seen_inactive || model.seen_active {
            outcomes.push(Outcome::Free);
        }
        if model.operator_stop {
            outcomes.push(Outcome::Blocked(BlockReason::Operator));
        }
        outcomes
    }

    fn after_own_end(&mut self, run: RunId, model: &RunModel, end: &RunEnd) -> Vec<Outcome> {
        match end {
            RunEnd::Succeeded => vec![self.after_success(model)],
            RunEnd::Failed(failure) if failure.kind.is_limit() => self.held(model, end),
            RunEnd::Failed(_) => {
                self.holds.may_work(run);
                vec![self.after_failure(model)]
            }
            RunEnd::InputRequired { question } => {
                self.holds.may_work(run);
                self.asked_person(model, question)
            }
            RunEnd::Cancelled => vec![Outcome::Same],
        }
    }

    /// A question is asked again, or answered, in the conversation that asked it (10.6).
    fn asked_person(&mut self, model: &RunModel, question: &Question) -> Vec<Outcome> {
        self.next_attempt(model);
        if let Some(entry) = self.claims.get_mut(&model.issue) {
            let thread = model.thread.clone().map(|thread| (thread, model.agent.clone()));
            entry.lineage.unanswered = thread.is_some();
            entry.lineage.resume = thread;
        }
        vec![Outcome::Blocked(BlockReason::Question(question.clone()))]
    }

    /// The next run takes over where this one stood (16.3, 16.4).
    fn postponed(&mut self, model: &RunModel) {
        self.keep_attempt(model);
        if let Some(entry) = self.claims.get_mut(&model.issue) {
            let thread = model.thread.clone().map(|thread| (thread, model.agent.clone()));
            entry.lineage.resume = thread;
            entry.lineage.asked.clone_from(&model.asked);
        }
    }

    /// The agent refused: it waits for the hold, with its time or without one.
    fn held(&mut self, model: &RunModel, end: &RunEnd) -> Vec<Outcome> {
        let is_of_the_machine =
            matches!(end, RunEnd::Failed(failure) if failure.kind == FailureKind::Machine);
        let until =
            self.holds.all.get(&model.agent).map(|hold| hold.until.clone()).unwrap_or_default();
        self.keep_attempt(model);
        if let Some(entry) = self.claims.get_mut(&model.issue) {
            entry.lineage.held = true;
            if is_of_the_machine {
                // It never reached its conversation, which is as it was.
                entry.lineage.resume = model.resume.clone().map(|id| (id, model.agent.clone()));
                entry.lineage.unanswered = model.unanswered;
                entry.lineage.asked.clone_from(&model.asked);
            }
        }
        let attempt = model.attempt.unwrap_or(0);
        let timed = until.into_iter().map(|at| Outcome::Waiting { attempt, until: Until::At(at) });
        timed.chain([Outcome::Waiting { attempt, until: Until::Now }]).collect()
    }

    /// The claim goes on with the attempt it had, in a new conversation.
    fn keep_attempt(&mut self, model: &RunModel) {
        if let Some(entry) = self.claims.get_mut(&model.issue) {
            let lineage = &mut entry.lineage;
            lineage.attempt = model.attempt;
            lineage.held = false;
            lineage.forget_thread();
            lineage.resume_open = false;
            lineage.retry = true;
            lineage.interrupted = true;
        }
    }

    /// What comes after the run is the next attempt.
    fn next_attempt(&mut self, model: &RunModel) {
        self.keep_attempt(model);
        if let Some(entry) = self.claims.get_mut(&model.issue) {
            entry.lineage.again();
        }
    }

    fn after_failure(&mut self, model: &RunModel) -> Outcome {
        self.next_attempt(model);
        let delay = self.backoff(model.attempt.unwrap_or(0) + 1);
        let until = self.now.mono + delay;
        let entry = self.claims.get(&model.issue);
        entry.map_or(Outcome::Same, |entry| entry.lineage.waiting(until))
    }

    fn after_success(&mut self, model: &RunModel) -> Outcome {
        let Some(entry) = self.claims.get_mut(&model.issue) else {
            return Outcome::Same;
        };
        let changed = entry.issue.state != model.state_at_start
            || entry.issue.updated_at != model.updated_at_start;
        let lineage = &mut entry.lineage;
        lineage.unchanged = if changed { 0 } else { lineage.unchanged + 1 };
        lineage.attempt = Some(1);
        lineage.retry = true;
        lineage.resume = model.thread.clone().map(|thread| (thread, model.agent.clone()));
        lineage.unanswered = false;
        lineage.asked.clone_from(&model.asked);
        lineage.interruptions = 0;
        lineage.resume_open = false;
        let unchanged = lineage.unchanged;
        let delay =
            if unchanged <= 1 { Duration::from_secs(1) } else { self.backoff(unchanged - 1) };
        Outcome::Waiting { attempt: 1, until: Until::At(self.now.mono + delay) }
    }
}

/// Whether the last that was read of the issue, or the reason it was to finish for, is its end.
fn sure_terminal(model: &RunModel) -> bool {
    let finish = model.finish == Some(FinishReason::Terminal);
    (model.seen_terminal || finish) && !model.seen_active && !model.seen_inactive
}

/// Whether what was last read of the issue is that it is not to be worked on.
fn sure_inactive(model: &RunModel) -> bool {
    let finish = model.finish == Some(FinishReason::Inactive);
    (model.seen_inactive || finish) && !model.seen_active && !model.seen_terminal
}

/// Whether an issue that is over was completed; `None` where its kind says neither (6.4).
fn is_completed(issue: &Issue) -> Option<bool> {
    match issue.state_kind {
        Some(StateKind::Completed) => Some(true),
        Some(StateKind::Cancelled) => Some(false),
        Some(_) => None,
        None => {
            Some(!["cancelled", "canceled", "duplicate", "closed"].contains(&issue.state.key()))
        }
    }
}

/// Whether the agent refuses every run.
fn is_limit(end: &RunEnd) -> bool {
    matches!(end, RunEnd::Failed(failure) if failure.kind.is_limit())
}
