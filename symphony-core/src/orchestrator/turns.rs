//! Live runs: signs of life, turn ends, and what follows the end (contract 8.1, 10.1).

use std::sync::Arc;

use crate::agent::{
    AgentErrorKind, AgentUpdate, ClientTurnId, LastTurnState, Opened, ThreadId, Usage,
};
use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId};
use crate::policy::{self, Standing};
use crate::run::RunId;
use crate::store::AskedTurn;

use super::claims::{After, Claim, Run, Stage, Thread, TurnStage, after_end, outcome, run_row};
use super::reads::{Asked, Found, Seen};
use super::{
    BlockReason, Effect, NoticeKind, Orchestrator, Outcome, Phase, ReadId, ReleaseReason, RunEnd,
    RunEvent, TurnText,
};

impl Orchestrator {
    /// Takes in news of a run; late news of a run that is over is dropped.
    pub(super) fn run_news(&mut self, id: RunId, news: RunEvent) {
        let now = self.now.mono;
        match news {
            RunEvent::Agent(update) => self.agent_update(id, update),
            RunEvent::Phase(phase) => {
                self.claims.change(id, |run| run.enter(phase, now));
                if phase == Phase::InitializingSession {
                    let ended = self.pacing.holds.launched(id);
                    self.holds_ended(ended);
                }
            }
            RunEvent::Workspace(record) => {
                if let Some(run) = self.claims.run(id) {
                    debug_assert_eq!(record.issue, run.issue, "a record of another issue");
                    self.folders.made(record);
                }
            }
            RunEvent::WorkspaceGone => {
                if let Some(run) = self.claims.run(id) {
                    self.folders.unmade(&run.scope, &run.issue);
                }
            }
            RunEvent::Opened(opened) => self.session_opened(id, opened),
            RunEvent::TurnEnded => self.turn_ended(id),
            RunEvent::Ended(end) => self.run_ended(id, end),
        }
    }

    /// Takes in a sign of life. This is the hottest path: one lookup, no allocation.
    fn agent_update(&mut self, id: RunId, update: AgentUpdate) {
        let now = self.now.mono;
        // The only one that is frequent and about the claim too.
        if let AgentUpdate::Usage { thread, total } = update {
            return self.count_usage(id, thread, &total);
        }
        let Some(run) = self.claims.run_mut(id) else {
            return;
        };
        run.last_alive = now;
        match update {
            AgentUpdate::Alive | AgentUpdate::Usage { .. } => {}
            AgentUpdate::Event(event) => run.last_event = Some(event),
            AgentUpdate::ToolBegan => run.open_tool_calls = run.open_tool_calls.saturating_add(1),
            AgentUpdate::UnrequestedTurn => {
                run.unrequested_turns = run.unrequested_turns.saturating_add(1);
            }
            AgentUpdate::ToolEnded { changed_issue } => {
                self.claims.change(id, |run| run.end_tool(changed_issue, now));
            }
            AgentUpdate::Session { thread, session_id, pid } => {
                run.session_id = Some(session_id);
                run.pid = pid;
                if let Some((run, claim)) = self.claims.live_mut(id) {
                    claim.thread = Some(Thread { id: thread, agent: Arc::clone(&run.agent) });
                    self.claims.touch_run(id);
                }
            }
            AgentUpdate::RateLimits(limits) => {
                self.pacing.holds.note_limits(&run.agent, limits);
            }
        }
    }

    /// The session is open. From here on a later run can resume its conversation; its first turn
    /// depends on what became of the last one that was asked (contract 16.3).
    fn session_opened(&mut self, id: RunId, mut opened: Opened) {
        let is_running = self.claims.is_running(id);
        let Some((run, claim)) = self.claims.live_mut(id) else {
            return;
        };
        let text = first_text(run, claim.asked.as_ref(), &opened);
        if let Some(thread) = opened.thread.take() {
            claim.thread = Some(Thread { id: thread, agent: Arc::clone(&run.agent) });
        }
        run.open(opened, self.now.mono);
        self.claims.touch_run(id);
        match text {
            _ if !is_running => {}
            Some(text) => self.order_turn(id, text),
            None => {
                let kind = FailureKind::Agent(AgentErrorKind::TurnFailed);
                let message = "the turn that a restart cut off had failed";
                self.finish(id, Some(After::Retry(Failure::new(kind, message))));
            }
        }
    }

    fn count_usage(&mut self, id: RunId, thread: ThreadId, total: &Usage) {
        let Some((run, claim)) = self.claims.live_mut(id) else {
            return;
        };
        run.last_alive = self.now.mono;
        let used = claim.counted.entry(thread).or_default().raise_to(total);
        used.add_to(&mut run.tokens, &mut run.cost);
        used.add_to(&mut self.totals.tokens, &mut self.totals.cost);
        if !used.is_empty() {
            run.has_new_usage = true;
            let due = self.journal.note_usage(self.now.mono);
            self.wakeup = Some(self.wakeup.map_or(due, |at| at.min(due)));
            let ended = self.pacing.holds.works(id);
            self.holds_ended(ended);
        }
    }

    fn turn_ended(&mut self, id: RunId) {
        let now = self.now.mono;
        let Some(run) = self.claims.run_mut(id) else {
            return;
        };
        run.last_alive = now;
        let is_open = run.has_turn();
        let ended = self.pacing.holds.works(id);
        self.holds_ended(ended);
        if !is_open || !self.claims.is_running(id) {
            return;
        }
        self.claims.change(id, Run::end_turn);
        if let Some((_, claim)) = self.claims.live_mut(id) {
            claim.asked = None;
        }
        self.claims.touch_run(id);
        self.reads.turns.wait_for_batch(id, now);
    }

    /// Reads the issues of the turns that ended, together.
    pub(super) fn read_turns(&mut self) {
        if self.reads.turns.due().is_none_or(|due| due > self.now.mono) {
            return;
        }
        let runs = self.reads.turns.take(self.now.mono);
        let ids = runs.iter().filter_map(|run| self.claims.run(*run)).map(|r| r.issue.clone());
        let ids = ids.collect();
        self.ask(Asked::Turn { runs }, None, ids);
    }

    /// Takes in the read after some turns: each run goes on, or finishes (contract 10.1).
    pub(super) fn turns_answered(&mut self, read: ReadId, runs: Vec<RunId>, found: &Found) {
        let (now, max_backoff) = (self.now.mono, self.settings().agent.max_retry_backoff);
        for id in runs {
            let is_running = self.claims.is_running(id);
            let Some(run) = self.claims.run_mut(id) else {
                continue;
            };
            if run.turn != TurnStage::Ended || !is_running {
                continue;
            }
            let issue = run.issue.clone();
            match found.see(&issue) {
                Seen::Failed(failure) => match run.retry_read(failure, max_backoff) {
                    Some(wait) => self.reads.turns.wait(id, now + wait),
                    None => self.finish(id, Some(After::Retry(failure.clone()))),
                },
                Seen::Absent if self.claims.is_older(&issue, read) => self.decide_turn(id),
                Seen::Absent => {
                    self.claims.saw(&issue, read);
                    self.finish(id, Some(After::Release(ReleaseReason::Gone)));
                }
                Seen::Present(fresh) => {
                    let standing = policy::standing(fresh, &self.settings().tracker);
                    if standing == Standing::Terminal
                        && !self.claims.is_older(&issue, read)
                        && self.backlog.shows_alive_since(&issue, read)
                    {
                        // A list that was asked for later knows better: so it is read once more.
                        self.reads.turns.wait_for_batch(id, now);
                        continue;
                    }
                    self.accept(&issue, read, Arc::clone(fresh));
                    self.decide_turn(id);
                }
            }
        }
    }

    fn decide_turn(&mut self, id: RunId) {
        let Some((run, claim)) = self.claims.live_mut(id) else {
            return;
        };
        match policy::standing(claim.issue(), &self.configuration.settings.tracker) {
            Standing::Terminal => self.finish(id, Some(After::Clean)),
            Standing::Inactive => self.finish(id, Some(After::Release(ReleaseReason::NotActive))),
            Standing::Active if run.turns >= run.max_turns => self.finish(id, None),
            Standing::Active => {
                let (turn, max_turns, name) = (run.turns + 1, run.max_turns, run.issue.clone());
                self.order_turn(id, TurnText::Continue);
                self.notice_of(&name, Some(id), NoticeKind::Continued { turn, max_turns });
            }
        }
    }

    /// Orders the next turn of a run. The agent gets it once it is recorded as asked, so that no
    /// later life asks the same again unawares (contract 16.3).
    fn order_turn(&mut self, id: RunId, text: TurnText) {
        let now = self.now.mono;
        self.claims.change(id, |run| run.begin_turn(now));
        let Some((run, claim)) = self.claims.live_mut(id) else {
            return;
        };
        let (turn, issue) = (run.turns, Arc::clone(claim.issue()));
        let client_id = ClientTurnId::of_turn(id, turn);
        claim.asked = Some(AskedTurn { client_id: client_id.clone(), number: turn, text });
        self.claims.touch_run(id);
        self.out.effects.push(Effect::NextTurn { run: id, turn, issue, client_id, text });
    }

    pub(super) fn finish(&mut self, id: RunId, then: Option<After>) {
        if self.claims.change(id, |run| run.finish(then)) {
            self.out.effects.push(Effect::Finish { run: id });
        }
    }

    /// Ends a run of which nothing is left: its slot is free and its claim moves on.
    fn run_ended(&mut self, id: RunId, end: RunEnd) {
        let Some(run) = self.claims.end_run(id) else {
            return;
        };
        self.reads.turns.forget(id);
        let Some(claim) = self.claims.get(&run.issue) else {
            return;
        };
        let took = self.now.mono.since(run.started.mono);
        let (issue, key) = (run.issue.clone(), claim.key().clone());
        let (asked, why) = match claim.stage() {
            // An issue that turns out to be active after all is not free: an operator stopped it.
            Stage::Stopping {
                then: After::Release(ReleaseReason::NotEligible),
                why,
                by_operator: true,
                ..
            } => (Some(After::Block(BlockReason::Operator)), Some(*why)),
            Stage::Stopping { then, why, .. } => (Some(then.clone()), Some(*why)),
            _ => (None, None),
        };
        let then = asked.as_ref().or(run.then.as_ref());
        let outcome = outcome(&run, &end, why, then, claim.issue(), &self.settings().tracker);
        self.totals.count_end(outcome, took);
        self.write_end(id, &run, outcome, &end);
        self.notice_of(&issue, Some(id), NoticeKind::Ended { outcome, end: end.clone(), took });
        let ended = self.pacing.holds.end_probe(&run.agent, id, &end);
        self.holds_ended(ended);
        self.pacing.touch(self.now.mono);
        self.reads.refill.want_when_freed();
        self.follow_end(&issue, run, asked, end);
        if self.claims.get(&issue).is_some_and(|claim| !claim.is_in_folder()) {
            self.park(&issue);
        }
        let is_in_it = |claim: &Claim| claim.is_in_folder() && claim.key().folded() == key.folded();
        if !self.claims.get(&issue).is_some_and(is_in_it) {
            self.folders.free(&key, &issue);
        }
    }

    /// Writes what came of a run.
    fn write_end(&mut self, id: RunId, run: &Run, outcome: Outcome, end: &RunEnd) {
        let Some(claim) = self.claims.get(&run.issue) else {
            return;
        };
        let mut row = run_row(id, run, claim);
        row.ended = Some(self.now.wall);
        row.outcome = Some(outcome);
        if let RunEnd::Failed(failure) = end {
            row.failure = Some(failure.clone());
        }
        self.journal.write_run(row, false);
    }

    /// Does what follows a run, and begins a hold where its agent refuses every run alike.
    fn follow_end(&mut self, issue: &IssueId, run: Run, asked: Option<After>, end: RunEnd) {
        if let RunEnd::Failed(failure) = &end
            && failure.kind.is_limit()
        {
            let max = self.settings().agent.max_retry_backoff;
            let until = self.pacing.holds.begin(&run.agent, failure, self.now, max);
            let (agent, why) = (run.agent.to_string(), failure.clone());
            self.out.notice(NoticeKind::HoldBegan { agent, until, failure: why });
            // A refusal does not count as an attempt, whatever else was to follow it.
            let is_refused = match (&asked, &run.then) {
                (Some(asked), _) => matches!(asked, After::Retry(_)),
                (None, then) => matches!(then, None | Some(After::Retry(_) | After::Postpone(_))),
            };
            if is_refused {
                let wait = self.now.mono.until(until);
                return self.wait(issue, Some(failure.clone()), |claim, _| {
                    if failure.kind == FailureKind::Machine {
                        // The agent was not reached: its conversation is as it was.
                        claim.unanswered = run.unanswered;
                    } else {
                        claim.forget_thread();
                    }
                    wait
                });
            }
        }
        match after_end(asked, run.then, end) {
            Some(then) => self.follow(issue, then),
            None => self.wait(issue, None, |claim, max| claim.succeed(&run.began_at, max)),
        }
    }

    /// Takes over a newer snapshot of a claimed issue.
    pub(super) fn accept(&mut self, id: &IssueId, read: ReadId, fresh: Arc<Issue>) {
        let tracker = &self.configuration.settings.tracker;
        let is_over = policy::is_over(Some(&fresh.state), fresh.state_kind, tracker);
        let accepted = self.claims.accept(id, read, fresh);
        if accepted.moved && is_over {
            self.backlog.note_over(id.clone());
        }
        if accepted.freed_slot {
            self.reads.refill.want_when_freed();
        }
        if accepted.moved {
            self.pacing.touch(self.now.mono);
        }
    }

    /// Resumes starts to these agents: claims that waited for nothing but their holds are due.
    pub(super) fn holds_ended(&mut self, agents: impl IntoIterator<Item = String>) {
        for agent in agents {
            self.out.notice(NoticeKind::HoldEnded { agent });
            self.wake_waiting(|failure| failure.kind.is_limit());
            self.reads.refill.want_now();
        }
    }
}

/// Returns what the agent is told in the first turn of a run, by what became of the turn that an
/// earlier life asked; `None` where that turn failed (contract 16.3).
fn first_text(run: &Run, asked: Option<&AskedTurn>, opened: &Opened) -> Option<TurnText> {
    if run.unanswered {
        return Some(TurnText::Unanswered);
    }
    // An agent that does not name its conversation may well have resumed it.
    let is_other = opened.thread.is_some() && opened.thread != run.resumes;
    let Some(asked) = asked.filter(|_| run.resumes.is_some() && !is_other) else {
        return Some(TurnText::Prompt);
    };
    let Some(last) = &opened.last_turn else {
        let is_named = opened.thread.is_some();
        // A conversation without a turn never got it.
        return Some(if is_named { asked.text } else { TurnText::RestartedWithPrompt });
    };
    let is_asked = last.client_id.as_ref().map(|id| *id == asked.client_id);
    match (is_asked, last.state) {
        (None, _) | (_, LastTurnState::Unknown) => Some(TurnText::RestartedWithPrompt),
        (Some(false), _) => Some(asked.text),
        (Some(true), LastTurnState::Completed) => Some(TurnText::Continue),
        (Some(true), LastTurnState::Interrupted) => Some(TurnText::Restarted),
        (Some(true), LastTurnState::Failed) => None,
    }
}
