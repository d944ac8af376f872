//! Ends of turns: read together, and answered with another turn or the end (contract 10.1).

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::{ClientTurnId, LastTurnState, Opened};
use symphony_core::orchestrator::{Effect, NoticeKind, ReadId, Step, TurnText};
use symphony_core::run::RunId;
use symphony_core::store::AskedTurn;
use symphony_core::tracker::{IssuesById, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, Issue, IssueId};

use crate::claims::View;
use crate::eligibility::{is_active, is_routable, is_terminal};
use crate::oracle::{Oracle, TurnAnswer};
use crate::reads::{Said, Sayings, asked_upkeep_wait, failure_of};
use crate::runs::{FinishReason, RunModel, name};
use crate::violation::{Check, ensure};

const BATCH: Duration = Duration::from_millis(50);

/// How long a turn waits for the store (16.3).
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(300);

/// What the agent is told first; `None` where the turn that was asked last had failed (16.3).
fn first_text(model: &RunModel, opened: &Opened) -> Option<TurnText> {
    if model.unanswered {
        return Some(TurnText::Unanswered);
    }
    let is_other = opened.thread.is_some() && opened.thread != model.resume;
    let Some(asked) = model.asked.as_ref().filter(|_| model.resume.is_some() && !is_other) else {
        return Some(TurnText::Prompt);
    };
    let Some(last) = &opened.last_turn else {
        // Either there is none, so that it never came to the agent, or the agent says nothing.
        let is_mute = opened.thread.is_none();
        return Some(if is_mute { TurnText::RestartedWithPrompt } else { asked.text });
    };
    match (last.client_id.as_ref().map(|id| *id == asked.client_id), last.state) {
        (None, _) | (_, LastTurnState::Unknown) => Some(TurnText::RestartedWithPrompt),
        (Some(false), _) => Some(asked.text),
        (Some(true), LastTurnState::Completed) => Some(TurnText::Continue),
        (Some(true), LastTurnState::Interrupted) => Some(TurnText::Restarted),
        (Some(true), _) => None,
    }
}

impl Oracle {
    fn run_of(&self, issue: &IssueId) -> Option<RunId> {
        self.runs.iter().find(|(_, model)| model.issue == *issue).map(|(run, _)| *run)
    }

    /// Whether the issue's run waits for an answer to its turn, and is not being read.
    pub(crate) fn pending_turn(&self, issue: &IssueId) -> bool {
        let run = self.run_of(issue).and_then(|run| self.runs.get(&run));
        run.is_some_and(|model| {
            model.pending.as_ref().is_some_and(|pending| pending.read.is_none())
        })
    }

    pub(crate) fn turns_asked(&mut self, read: ReadId, ids: &[IssueId]) -> Check {
        for id in ids {
            ensure!(self.pending_turn(id), "a turn's end is read once", "{id} in {ids:?}");
            let Some(run) = self.run_of(id) else { continue };
            if let Some(pending) = self.runs.get_mut(&run).and_then(|model| model.pending.as_mut())
            {
                pending.read = Some(read);
            }
        }
        Ok(())
    }

    pub(crate) fn turns_answered(
        &mut self,
        read: ReadId,
        ids: &[IssueId],
        stale: bool,
        part: Option<&Result<IssuesById, Failure>>,
    ) {
        let now = self.now.mono;
        let sayings = match part {
            Some(Ok(by_id)) if !stale => Some(Sayings::new(by_id)),
            _ => None,
        };
        let failure = failure_of(part).cloned();
        for id in ids {
            let Some(run) = self.run_of(id) else { continue };
            let waits = self
                .runs
                .get(&run)
                .and_then(|model| model.pending.as_ref())
                .is_some_and(|pending| pending.read == Some(read));
            if !waits {
                continue;
            }
            let said = sayings.as_ref().map(|sayings| sayings.of(id));
            let answers = match said {
                None if stale => {
                    self.wait_again(run, now + BATCH, 0);
                    vec![TurnAnswer::Nothing]
                }
                None | Some(Said::Unreadable) => self.turn_unread(run, failure.as_ref()),
                // A list that was asked for later knows better than "it is over".
                Some(Said::Issue(issue))
                    if is_terminal(&issue.state, self.settings())
                        && self.claims.get(id).is_none_or(|entry| entry.known <= read.0)
                        && self.kept.shows_alive_since(id, read.0) =>
                {
                    self.wait_again(run, now + BATCH, 0);
                    vec![TurnAnswer::Nothing]
                }
                Some(said) => {
                    self.newer(read, id, &said);
                    self.decide(run, read, id, &said)
                }
            };
            self.step.turns.insert(run, answers);
        }
        // Those that waited for this read to come back go next.
        for model in self.runs.values_mut() {
            if let Some(pending) = model.pending.as_mut().filter(|pending| pending.read.is_none()) {
                pending.due = pending.due.max(now + BATCH);
            }
        }
    }

    fn wait_again(&mut self, run: RunId, due: symphony_core::time::Mono, failures: u32) {
        if let Some(pending) = self.runs.get_mut(&run).and_then(|model| model.pending.as_mut()) {
            pending.read = None;
            pending.due = due;
            pending.failures += failures;
        }
    }

    fn turn_unread(&mut self, run: RunId, failure: Option<&Failure>) -> Vec<TurnAnswer> {
        let failures = self
            .runs
            .get(&run)
            .and_then(|model| model.pending.as_ref())
            .map_or(0, |pending| pending.failures)
            + 1;
        // A limit is not the fault of the read, and uses up no try.
        let kind = failure.map(|failure| failure.kind);
        let limited = kind == Some(FailureKind::Tracker(TrackerErrorKind::RateLimited));
        let failures = if limited { failures - 1 } else { failures };
        if failures > 3 {
            return vec![TurnAnswer::Finish(FinishReason::Unreadable)];
        }
        let delay =
            failure.and_then(asked_upkeep_wait).unwrap_or_else(|| self.backoff(failures.max(1)));
        self.wait_again(run, self.now.mono + delay, u32::from(!limited));
        vec![TurnAnswer::Nothing]
    }

    fn decide(
        &mut self,
        run: RunId,
        read: ReadId,
        id: &IssueId,
        said: &Said<'_>,
    ) -> Vec<TurnAnswer> {
        let settings = Arc::clone(&self.config.settings);
        let Some((turn, max_turns)) =
            self.runs.get(&run).map(|model| (model.turn, model.max_turns))
        else {
            return vec![TurnAnswer::Nothing];
        };
        let Said::Issue(issue) = said else {
            return vec![TurnAnswer::Finish(FinishReason::Inactive)];
        };
        // A newer answer may have come in first: then its view stays, and either decides.
        let older = self.claims.get(id).is_some_and(|entry| entry.known > read.0);
        let answer = if is_terminal(&issue.state, &settings) {
            TurnAnswer::Finish(FinishReason::Terminal)
        } else if !is_active(&issue.state, &settings) || !is_routable(issue, &settings) {
            TurnAnswer::Finish(FinishReason::Inactive)
        } else if turn >= max_turns {
            TurnAnswer::Finish(FinishReason::MaxTurns)
        } else {
            let mut views = vec![Arc::new((*issue).clone())];
            views.extend(
                self.claims.get(id).filter(|_| older).map(|entry| Arc::clone(&entry.issue)),
            );
            TurnAnswer::Next(views)
        };
        self.bring(id, issue, !older);
        if !older {
            if let Some(entry) = self.claims.get_mut(id) {
                entry.known = read.0;
            }
            return vec![answer];
        }
        // Or nothing comes of it, and it is read again.
        self.wait_again(run, self.now.mono + BATCH, 0);
        let known = self.claims.get(id).map(|entry| Arc::clone(&entry.issue));
        let other = known.map(|issue| {
            if turn >= max_turns {
                TurnAnswer::Finish(FinishReason::MaxTurns)
            } else {
                TurnAnswer::Next(vec![issue])
            }
        });
        std::iter::once(answer).chain(other).chain([TurnAnswer::Nothing]).collect()
    }

    /// A session is open: its first turn is asked, with a text that depends on what became of the
    /// turn that was asked last (16.3).
    pub(crate) fn opened(&mut self, run: RunId, opened: &Opened) {
        let Some(model) = self.runs.get(&run) else {
            return;
        };
        if model.stop.is_some() || model.finish.is_some() {
            return;
        }
        let Some(issue) = self.claims.get(&model.issue).map(|entry| Arc::clone(&entry.issue))
        else {
            return;
        };
        let answer = match first_text(model, opened) {
            Some(text) => TurnAnswer::First(issue, text),
            None => TurnAnswer::Finish(FinishReason::TurnFailed),
        };
        self.step.turns.insert(run, vec![answer]);
    }

    pub(crate) fn next_turn(
        &mut self,
        run: RunId,
        turn: u32,
        issue: &Arc<Issue>,
        client_id: &ClientTurnId,
        text: TurnText,
    ) -> Check {
        let answers = self.step.turns.remove(&run);
        let now = self.now.mono;
        let Some(model) = self.runs.get_mut(&run) else {
            ensure!(false, "a turn follows only in a live run", "{run}");
            return Ok(());
        };
        let next = answers.iter().flatten().find_map(|answer| match answer {
            TurnAnswer::Next(views) => Some((views.as_slice(), TurnText::Continue)),
            TurnAnswer::First(view, text) => Some((std::slice::from_ref(view), *text)),
            _ => None,
        });
        ensure!(
            (model.pending.is_some() || turn == 1) && next.is_some(),
            "a turn follows only an answer that says so (10.1)",
            "{}: {answers:?}",
            name(run, model)
        );
        let (views, expected) = next.unwrap_or((&[], text));
        ensure!(
            text == expected,
            "an agent is told what fits its last turn (16.3)",
            "{}: {text:?} instead of {expected:?}",
            name(run, model)
        );
        let own = ClientTurnId::of_turn(run, turn);
        ensure!(*client_id == own, "a turn has its own id (16.3)", "{client_id}, not {own}");
        ensure!(
            views.iter().any(|view| view == issue),
            "a turn has the issue as just read",
            "{issue:?} instead of {views:?}"
        );
        ensure!(
            turn == model.turn + 1 && turn <= model.max_turns,
            "turns are counted (10.1)",
            "{} goes from turn {} to {turn} of {}",
            name(run, model),
            model.turn,
            model.max_turns
        );
        model.turn = turn;
        model.ordered = Some(now);
        model.asked = Some(AskedTurn { client_id: client_id.clone(), number: turn, text });
        model.pending = None;
        model.changed = false;
        model.over = None;
        model.line = now;
        model.news = now;
        Ok(())
    }

    pub(crate) fn finishing(&mut self, run: RunId) -> Check {
        let answers = self.step.turns.remove(&run);
        let Some(model) = self.runs.get_mut(&run) else {
            ensure!(false, "a run finishes only while it lives", "{run}");
            return Ok(());
        };
        ensure!(
            model.stop.is_none() && model.finish.is_none(),
            "a run finishes once",
            "{}: {:?}, {:?}",
            name(run, model),
            model.finish,
            model.stop
        );
        let now = self.now.mono;
        let is_late = model.ordered.is_some_and(|since| since + STORE_PATIENCE <= now);
        let finish = answers.iter().flatten().find_map(|answer| match answer {
            TurnAnswer::Finish(why) => Some(*why),
            _ => None,
        });
        let finish = finish.or(is_late.then_some(FinishReason::Storage));
        ensure!(
            finish.is_some(),
            "a run finishes only after an answer that says so (10.1)",
            "{}: {answers:?}",
            name(run, model)
        );
        model.finish = finish;
        model.ordered = None;
        model.pending = None;
        model.seen_active = false;
        model.seen_inactive = false;
        model.seen_terminal = false;
        Ok(())
    }

    /// Every turn whose issue was read got its answer.
    pub(crate) fn check_turns(&mut self) -> Check {
        let unanswered =
            self.step.turns.iter().find(|(_, answers)| !answers.contains(&TurnAnswer::Nothing));
        ensure!(unanswered.is_none(), "the end of a turn is answered (10.1)", "{unanswered:?}");
        Ok(())
    }

    /// Notices say what the effects do: one for each start, stop and end.
    pub(crate) fn check_notices(&self, step: &Step) -> Check {
        let mut due: Vec<(RunId, &str)> = Vec::new();
        for effect in &step.effects {
            match effect {
                Effect::Start(start) => due.push((start.run, "started")),
                Effect::Stop { run, .. } => due.push((*run, "stopping")),
                Effect::NextTurn { run, turn: 2.., .. } => due.push((*run, "continued")),
                _ => {}
            }
        }
        for notice in &step.notices {
            let what = match &notice.what {
                NoticeKind::Started { .. } => "started",
                NoticeKind::Stopping { .. } => "stopping",
                NoticeKind::Continued { .. } => "continued",
                _ => continue,
            };
            let known = notice.run.and_then(|run| due.iter().position(|told| *told == (run, what)));
            ensure!(known.is_some(), "notices say what happened", "{notice:?} without its effect");
            if let Some(index) = known {
                due.swap_remove(index);
            }
        }
        ensure!(due.is_empty(), "notices say what happened", "nothing said of {due:?}");
        Ok(())
    }

    /// Whether the claim is shown as running.
    pub(crate) fn is_running(&self, issue: &IssueId) -> bool {
        self.claims.get(issue).is_some_and(|entry| matches!(entry.view, View::Running { .. }))
    }
}
