//! What a service would start now, and why not the rest: the real scheduler, one read, no effects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{
    Answer, Configuration, Effect, Event, Generation, Orchestrator, Restored, Step,
};
use symphony_core::snapshot::{Explanation, Verdict};
use symphony_core::time::Now;
use symphony_core::tracker::{Candidates, IssuesById, Poll, Tracker};
use symphony_core::{Issue, IssueId, Scope};

use crate::clock::Clock;
use crate::inspect::Usable;
use crate::reader;

/// What a service would do that was started now, with nothing left of an earlier life.
#[derive(Debug)]
#[non_exhaustive]
pub struct DryRun {
    /// What it would start, in order.
    pub starts: Vec<Arc<Issue>>,
    /// Why it would not start the rest, in the order in which they would start.
    pub explanation: Explanation,
    /// When that was.
    pub now: Now,
}

/// No board needs more rounds: each starts something.
const MAX_ROUNDS: usize = 10_000;

impl Usable {
    /// Reads the tracker once and lets the scheduler decide. Nothing is locked, started or written.
    ///
    /// # Errors
    /// The verdict that says why the tracker could not be read.
    pub async fn dry_run(&self) -> Result<DryRun, Verdict> {
        let mut clock = Clock::start();
        let now = clock.now();
        let configuration = Configuration {
            settings: Arc::clone(self.settings()),
            generation: Generation::default(),
            scope: Scope::from("dry run"),
            min_read_gap: Duration::ZERO,
            warnings: self.workflow.warnings.clone().into(),
        };
        let (orchestrator, step) = Orchestrator::new(configuration, Restored::default(), now);
        let mut rehearsal = Rehearsal {
            orchestrator,
            tracker: Arc::clone(&self.tracker),
            limit: self.settings().tracker.timeout,
            read: None,
            starts: Vec::new(),
            now,
        };
        rehearsal.play(step).await;
        let explanation = rehearsal.orchestrator.explain();
        if let Verdict::PollFailed(_) = explanation.verdict {
            return Err(explanation.verdict);
        }
        Ok(DryRun { starts: rehearsal.starts, explanation, now })
    }
}

/// A scheduler whose effects are only noted. Its clock stands still: nothing takes any time.
struct Rehearsal {
    orchestrator: Orchestrator,
    tracker: Arc<dyn Tracker>,
    limit: Duration,
    /// What the one read brought.
    read: Option<Answer>,
    starts: Vec<Arc<Issue>>,
    now: Now,
}

impl Rehearsal {
    async fn play(&mut self, first: Step) {
        let mut effects = VecDeque::from(first.effects);
        for _ in 0..MAX_ROUNDS {
            let event = match effects.pop_front() {
                Some(Effect::Read { read, poll, .. }) => {
                    let answer = self.answer(poll).await;
                    Event::Answered { read, answer }
                }
                Some(Effect::Start(start)) => {
                    self.starts.push(start.issue);
                    continue;
                }
                Some(_) => continue,
                None if self.orchestrator.next_wakeup().is_some_and(|at| at <= self.now.mono) => {
                    Event::Wake
                }
                None => return,
            };
            effects.extend(self.orchestrator.handle(self.now, event).effects);
        }
    }

    /// The first list is read from the tracker; whatever is asked later is answered from it.
    async fn answer(&mut self, mut poll: Poll) -> Answer {
        match &mut poll.candidates {
            Some(candidates) if self.read.is_none() => {
                candidates.enough = usize::MAX; // every issue is to have its answer
                let answer = reader::read(Arc::clone(&self.tracker), poll, self.limit).await;
                self.read = Some(answer.clone());
                answer
            }
            candidates => Answer {
                candidates: candidates.as_ref().map(|_| Ok(Candidates::default())),
                ..self.known(&poll.ids)
            },
        }
    }

    fn known(&self, ids: &[IssueId]) -> Answer {
        let list = self.read.as_ref().and_then(|answer| answer.candidates.as_ref());
        let issues = list.and_then(|list| list.as_ref().ok()).map(|list| list.issues.iter());
        let found = issues.into_iter().flatten().filter(|issue| ids.contains(&issue.id));
        let found = IssuesById { found: found.cloned().collect(), unreadable: Vec::new() };
        Answer { by_id: Some(Ok(found)), ..Answer::default() }
    }
}
