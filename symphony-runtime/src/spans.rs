//! The tracing spans of a run: the run is a span, its phases are spans within it, and turns
//! within those (contract 6.4, 13.1).
//!
//! They have the level of errors, so that every line of a run has its fields whatever is filtered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use symphony_core::orchestrator::{Phase, RunEnd, Start};
use tracing::field::Empty;
use tracing::{Span, error_span};

use crate::plain::safe;

/// The spans of one run: cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RunSpans(Arc<Mutex<SpanState>>);

/// Where the run is.
#[derive(Debug)]
struct SpanState {
    /// All closed from the run's end on, even while clones exist.
    run: Span,
    phase: Option<(Phase, Span)>,
    turn: Span,
}

impl RunSpans {
    pub(crate) fn new(start: &Start) -> Self {
        let run = error_span!(
            parent: None,
            "run",
            issue_id = safe(&start.issue.id),
            issue_identifier = safe(&start.issue.identifier),
            run = %start.run,
            attempt = start.attempt,
            outcome = Empty,
            error = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        Self(Arc::new(Mutex::new(SpanState { run, phase: None, turn: Span::none() })))
    }

    pub(crate) fn run(&self) -> Span {
        self.lock().run.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SpanState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another phase begins, and the one before it ends.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut now = self.lock();
        if now.phase.as_ref().is_none_or(|(before, _)| *before != phase) {
            let begun = Some((phase, named(phase, &now.run)));
            let before = std::mem::replace(&mut now.phase, begun);
            drop(now);
            drop(before); // not within the lock: a subscriber now hears of its end
        }
    }

    /// A turn begins.
    pub(crate) fn turn(&self, number: u32) -> Span {
        let mut now = self.lock();
        let phase = now.phase.as_ref().map_or(&now.run, |(_, span)| span);
        let turn = error_span!(
            parent: phase,
            "turn",
            turn = number,
            session_id = Empty,
            outcome = Empty,
            otel.status_code = Empty,
        );
        now.turn = turn.clone();
        turn
    }

    /// The turn has this id.
    pub(crate) fn session(&self, session_id: &str) {
        let turn = self.lock().turn.clone();
        turn.record("session_id", safe(session_id));
    }

    /// A turn has ended.
    pub(crate) fn turn_ended(&self, outcome: &'static str) {
        let turn = std::mem::replace(&mut self.lock().turn, Span::none());
        turn.record("outcome", outcome);
        if outcome == "failed" {
            turn.record("otel.status_code", "ERROR");
        }
    }

    /// The run has ended.
    pub(crate) fn end(&self, end: &RunEnd) {
        let mut now = self.lock();
        let run = std::mem::replace(&mut now.run, Span::none());
        let last = now.phase.take();
        drop(now);
        drop(last);
        let (outcome, error) = end_fields(end);
        run.record("outcome", outcome);
        if let Some(error) = error {
            run.record("error", &error);
            if let RunEnd::Failed(_) = end {
                run.record("otel.status_code", "ERROR");
                run.record("otel.status_description", &error);
            }
        }
    }
}

/// A span must have its name where it is written.
fn named(phase: Phase, run: &Span) -> Span {
    match phase {
        Phase::PreparingWorkspace => error_span!(parent: run, "preparing_workspace"),
        Phase::BuildingPrompt => error_span!(parent: run, "building_prompt"),
        Phase::LaunchingAgent => error_span!(parent: run, "launching_agent"),
        Phase::InitializingSession => error_span!(parent: run, "initializing_session"),
        Phase::StreamingTurn => error_span!(parent: run, "streaming_turn"),
        Phase::Finishing => error_span!(parent: run, "finishing"),
        _ => error_span!(parent: run, "other_phase"),
    }
}

/// The worker's last word, and what went wrong.
fn end_fields(end: &RunEnd) -> (&'static str, Option<String>) {
    match end {
        RunEnd::Succeeded => ("succeeded", None),
        RunEnd::Cancelled => ("cancelled", None),
        RunEnd::Failed(failure) => ("failed", Some(safe(failure))),
        RunEnd::InputRequired { question } => ("input_required", Some(safe(question))),
        _ => ("other", None),
    }
}
