//! From a list of candidates to running agents: choosing, checking, starting (contract 4.5, 4.6,
//! section 5, 7.3).

use std::sync::Arc;

use crate::issue::{Issue, IssueId};
use crate::policy::{self, Rank, Standing};
use crate::snapshot::Reason;
use crate::workspace::{HostId, WorkspaceKey};

use super::claims::{Claim, Origin, Run, Stage, mark};
use super::holds::HoldGate;
use super::reads::{Asked, Found, Seen};
use super::{Effect, NoticeKind, Orchestrator, ReadId, ReleaseReason, Start};

impl Origin {
    fn rank(self, issue: &Issue) -> Rank<'_> {
        match self {
            Self::Fresh => Rank::fresh(issue),
            Self::Retry => Rank::retry(issue),
        }
    }
}

impl Orchestrator {
    /// Chooses the best issues for the free slots and reads them again, in one read (5.4).
    pub(super) fn fill_slots(&mut self) {
        if self.schedule().next_refill().is_none_or(|at| at > self.now.mono) {
            return;
        }
        self.reads.refill.take();
        let chosen = self.eligibility().choose();
        if chosen.is_empty() {
            return;
        }
        let ids: Vec<IssueId> = chosen.iter().map(|(id, _)| id.clone()).collect();
        self.out.recheck_workflow();
        let read = self.ask(Asked::Check { chosen: ids.clone() }, None, ids);
        for (id, fresh) in chosen {
            let origin = match fresh {
                None => Origin::Retry,
                Some((issue, key)) => {
                    let stage = Stage::Checking { read, origin: Origin::Fresh };
                    let host = HostId::local();
                    let (issue, scope) = (Arc::new(issue), self.configuration.scope.clone());
                    self.claims.add(Claim::new(issue, ReadId(0), scope, key, host, stage));
                    self.reads.forget_unclaimed(&id);
                    Origin::Fresh
                }
            };
            self.claims.check(&id, read, origin);
        }
    }

    /// Takes in the read of chosen issues: each is judged afresh, best first (contract 5.4, 7.3,
    /// 7.4).
    pub(super) fn check_answered(&mut self, read: ReadId, chosen: Vec<IssueId>, found: &Found) {
        let max = self.settings().agent.max_retry_backoff;
        self.reads.refill.note(found.failure(), self.now.mono, max);
        let mut present: Vec<(Arc<Issue>, Origin)> = Vec::new();
        for id in chosen {
            let Some(origin) = self.claims.origin(&id, read) else {
                continue;
            };
            match (found.see(&id), origin) {
                (Seen::Present(issue), _) => present.push((Arc::clone(issue), origin)),
                (Seen::Absent, Origin::Fresh) => self.let_go(&id, read, Some(Reason::Gone)),
                (Seen::Absent, Origin::Retry) => {
                    self.claims.saw(&id, read);
                    self.release(&id, ReleaseReason::Gone);
                }
                (Seen::Failed(failure), Origin::Retry) => {
                    self.wait(&id, Some(failure.clone()), |claim, max_backoff| {
                        claim.read_backoff(failure, max_backoff)
                    });
                }
                (Seen::Failed(failure), Origin::Fresh) => {
                    let whole_read = found.failure().is_some();
                    if !whole_read {
                        let message = failure.message.clone();
                        self.notice_of(&id, None, NoticeKind::Unreadable { message });
                    }
                    self.let_go(&id, read, (!whole_read).then_some(Reason::Unreadable));
                }
            }
        }
        present.sort_by(|(a, a_origin), (b, b_origin)| a_origin.rank(a).cmp(&b_origin.rank(b)));
        for (issue, origin) in present {
            self.judge(read, issue, origin);
        }
        self.reads.refill.want_when_freed();
    }

    /// Drops the claim of a fresh candidate that does not start; what was learned keeps it from
    /// being chosen again.
    fn let_go(&mut self, id: &IssueId, read: ReadId, learned: Option<Reason>) {
        if let Some(reason) = learned {
            self.backlog.learn(id, read, reason);
        }
        self.unclaim(id);
    }

    fn judge(&mut self, read: ReadId, issue: Arc<Issue>, origin: Origin) {
        let id = issue.id.clone();
        // Its slots and its folder are those of the issue as it is now.
        let moved = self.claims.get(&id).is_some_and(|claim| {
            let known = claim.issue();
            known.state != issue.state || known.identifier != issue.identifier
        });
        if moved {
            self.backlog.update(read, &issue);
        }
        self.accept(&id, read, issue);
        let Some(issue) = self.claims.get(&id).map(|claim| Arc::clone(claim.issue())) else {
            return;
        };
        match (policy::standing(&issue, &self.settings().tracker), self.eligibility().unfit(&issue))
        {
            // A list that was asked for later knows better.
            (Standing::Terminal, _) if self.backlog.shows_alive_since(&id, read) => {
                self.step_back(&id, origin);
            }
            (Standing::Terminal, _) => self.clean(&id),
            (Standing::Active, None)
                if origin == Origin::Fresh && self.backlog.lacks(&id, read) =>
            {
                self.unclaim(&id);
            }
            (_, Some(reason)) if origin == Origin::Fresh => {
                self.let_go(&id, read, Some(reason));
            }
            (Standing::Inactive, _) => self.release(&id, ReleaseReason::NotActive),
            (_, Some(_)) => self.release(&id, ReleaseReason::NotEligible),
            (Standing::Active, None) if self.lifecycle.may_start() => {
                match self.eligibility().slot_for(&issue) {
                    Ok(host) => self.start(&id, host),
                    Err(_) => self.step_back(&id, origin),
                }
            }
            (Standing::Active, None) => self.step_back(&id, origin),
        }
    }

    /// Puts an issue back that is eligible, but cannot start now: it keeps its attempt (7.3).
    fn step_back(&mut self, id: &IssueId, origin: Origin) {
        match origin {
            Origin::Fresh => self.unclaim(id),
            Origin::Retry => {
                self.claims.make_ready(id);
                let issue = self.claims.get(id).map(|claim| Arc::clone(claim.issue()));
                if issue.is_some_and(|issue| self.eligibility().slot_for(&issue).is_err()) {
                    self.notice_of(id, None, NoticeKind::Queued);
                }
            }
        }
    }

    fn start(&mut self, id: &IssueId, host: HostId) {
        let settings = Arc::clone(&self.configuration.settings);
        let record = self.folders.record(id).cloned();
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        let issue = Arc::clone(claim.issue());
        let Ok(key) = record.as_ref().map_or_else(
            || WorkspaceKey::derive(issue.identifier.as_str()),
            |record| Ok(record.key.clone()),
        ) else {
            debug_assert!(false, "a start without a workspace key");
            return;
        };
        let run = self.ids.run();
        let agent: Arc<str> = Arc::from(settings.agent.kind.as_str());
        claim.failure = None;
        if claim.thread.as_ref().is_none_or(|thread| thread.agent != agent) {
            (claim.thread, claim.asked) = (None, None);
        }
        let resume = claim.thread.as_ref().map(|thread| thread.id.clone());
        let unanswered = std::mem::take(&mut claim.unanswered) && resume.is_some();
        let attempt = claim.attempt;
        if self.eligibility().hold_gate() == HoldGate::OneProbe {
            self.pacing.holds.begin_probe(&agent, run);
        }
        let mut live = Run::new(id.clone(), agent, &self.configuration, self.now, mark(&issue));
        live.unanswered = unanswered;
        live.resumes.clone_from(&resume);
        self.claims.start(run, live, key.clone(), host.clone());
        self.folders.hold(&key, id);
        self.totals.started += 1;
        self.pacing.touch(self.now.mono);
        let (state, max_turns) = (issue.state.clone(), settings.agent.max_turns);
        self.out.effects.push(Effect::Start(Start {
            run,
            issue,
            attempt,
            key,
            host,
            record,
            resume,
            unanswered,
            max_turns,
        }));
        self.notice_of(id, Some(run), NoticeKind::Started { attempt, state });
    }
}
