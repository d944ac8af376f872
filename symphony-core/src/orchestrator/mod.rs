//! The scheduler as a value with one function: events in, effects out (contract 4.3).
//!
//! It never waits, reads a clock, touches a file, logs or spawns. Everything it wants goes out as
//! an [`Effect`], everything it learns comes in as an [`Event`], and what people should know is a
//! [`Notice`]. Equal inputs give equal outputs in equal order, so a recorded run can be replayed.
//!
//! ```
//! use std::sync::Arc;
//! use symphony_core::orchestrator::{Configuration, Effect, Orchestrator, Restored};
//! use symphony_core::time::Now;
//! use symphony_core::{Scope, Settings, StateSet};
//!
//! let settings = Settings::new(
//!     "memory",
//!     StateSet::new(["Todo", "In Progress"]),
//!     StateSet::new(["Done"]),
//!     "/tmp/workspaces".into(),
//! );
//! let configuration = Configuration {
//!     settings: Arc::new(settings),
//!     generation: Default::default(),
//!     scope: Scope::from("board"),
//!     min_read_gap: Default::default(),
//!     warnings: Default::default(),
//! };
//! let (_, step) = Orchestrator::new(configuration, Restored::default(), Now::default());
//! assert!(step.effects.iter().any(|effect| matches!(effect, Effect::Read { .. })));
//! ```

mod backlog;
mod claims;
mod command;
mod dispatch;
mod eligibility;
mod event;
mod explain;
mod folders;
mod holds;
mod ids;
mod journal;
mod lifecycle;
mod pacing;
mod polls;
mod reads;
mod reconcile;
mod requests;
mod restore;
mod schedule;
mod settle;
mod stages;
mod totals;
mod turns;
mod view;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::agent::AgentUpdate;
use crate::issue::IssueId;
use crate::run::RunId;
use crate::settings::Settings;
use crate::snapshot::{CandidatesView, Explanation, Totals};
use crate::store::{ClaimRow, PollRow};
use crate::time::{Mono, Now};

use backlog::Backlog;
use claims::Claims;
use eligibility::Eligibility;
use folders::Folders;
use ids::Ids;
use journal::Journal;
use lifecycle::Lifecycle;
use pacing::Pacing;
use reads::Reads;
use schedule::ReadSchedule;

pub use event::{
    Answer, BlockReason, Command, Configuration, Effect, Event, Generation, IssueName, Job, Notice,
    NoticeKind, Outcome, Phase, ReadId, ReleaseReason, Removal, RemovalId, Restored, RunEnd,
    RunEvent, Start, Step, StopReason, TurnText, Workspaces,
};

/// The state of all scheduling. See the [module](self) for how it is used.
///
/// It is the table of events and the policy between its parts. Each part keeps its own fields true;
/// questions that need several parts are answered by two views that only borrow them, `Eligibility`
/// and `ReadSchedule`.
#[derive(Debug)]
pub struct Orchestrator {
    configuration: Configuration,
    lifecycle: Lifecycle,
    claims: Claims,
    folders: Folders,
    reads: Reads,
    backlog: Backlog,
    pacing: Pacing,
    totals: Totals,
    ids: Ids,
    journal: Journal,
    /// Claims of this scope that a live run of the same id in another scope keeps out.
    parked: BTreeMap<IssueId, ClaimRow>,

    now: Now,
    wakeup: Option<Mono>,
    out: Step,
    /// The candidates, judged; made anew when something that matters changed.
    view: OnceLock<Arc<CandidatesView>>,
}

impl Orchestrator {
    /// Starts with what survived the last life. The first step polls, unless that was done
    /// just before (contract 4.1).
    #[must_use]
    pub fn new(configuration: Configuration, restored: Restored, now: Now) -> (Self, Step) {
        let Restored { boot, rows, workspaces } = restored;
        let polls = rows.polls.filter(|polls| polls.scope == configuration.scope);
        let polls = polls.unwrap_or_else(|| PollRow::new(configuration.scope.clone()));
        let mut this = Self {
            lifecycle: Lifecycle::default(),
            claims: Claims::default(),
            folders: Folders::new(configuration.scope.clone(), workspaces),
            reads: Reads::default(),
            backlog: Backlog::default(),
            pacing: Pacing::new(now.mono, polls.spent),
            journal: Journal::new(rows.operator.clone(), rows.totals.clone()),
            totals: rows.totals,
            ids: Ids::new(boot),
            parked: BTreeMap::new(),
            configuration,
            now,
            wakeup: None,
            out: Step::default(),
            view: OnceLock::new(),
        };
        if this.lifecycle.set_paused(rows.operator.paused) {
            this.out.notice(NoticeKind::Paused);
        }
        this.end_open_runs(rows.open_runs);
        this.restore_holds(rows.holds);
        this.restore_claims(rows.claims);
        this.reads.jobs.restore(&polls.last_runs, &this.schedule().job_pace(), now);
        let step = this.settle();
        (this, step)
    }

    /// Takes in one event, then everything that is due, and says what to do.
    pub fn handle(&mut self, now: Now, event: Event) -> Step {
        self.now = now;
        let is_routine = is_routine(&event);
        match event {
            Event::Wake => {}
            Event::Run { run, news } => self.run_news(run, news),
            Event::Answered { read, answer } => self.answered(read, answer),
            Event::Removed { removal, outcome } => self.removed(removal, outcome),
            Event::Reloaded { configuration, workspaces, claims } => {
                self.reloaded(configuration, workspaces, claims);
            }
            Event::ReloadFailed { problems } => self.reload_failed(problems),
            Event::Command(command) => self.command(command),
            Event::Storage(failure) => self.storage(failure),
            Event::QuietHours { on } => self.pacing.set_quiet(on),
            Event::Activity => self.pacing.touch(now.mono),
            Event::Delivered { issues } => self.delivered(issues),
            Event::JobAdded { name, interval } => self.reads.jobs.add(name, interval, now),
            Event::JobEnded { name, outcome } => self.job_ended(name, outcome),
        }
        // Signs of life arrive by the million and wake nothing up, unless they end a hold.
        let is_idle = |due: Option<Mono>| due.is_none_or(|at| at > now.mono);
        let is_routine = is_routine && self.out.notices.is_empty();
        if is_routine && is_idle(self.wakeup) && is_idle(self.schedule().next_refill()) {
            return std::mem::take(&mut self.out);
        }
        self.settle()
    }

    /// Returns when [`handle`](Self::handle) is to be called if nothing else happens. May be early.
    #[must_use]
    pub const fn next_wakeup(&self) -> Option<Mono> {
        self.wakeup
    }

    /// Whether nothing is left to wait for after [`Command::ShutDown`].
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.lifecycle.is_shutting_down() && !self.claims.has_work()
    }

    /// Explains every candidate that is not running by its one reason, and the service by a verdict
    /// (contract 5.5).
    #[must_use]
    pub fn explain(&self) -> Explanation {
        self.eligibility().explain()
    }

    /// Borrows what decides which issues may start.
    fn eligibility(&self) -> Eligibility<'_> {
        Eligibility {
            settings: &self.configuration.settings,
            now: self.now.mono,
            lifecycle: &self.lifecycle,
            claims: &self.claims,
            folders: &self.folders,
            reads: &self.reads,
            backlog: &self.backlog,
            holds: &self.pacing.holds,
        }
    }

    /// Borrows what decides when reads are due.
    fn schedule(&self) -> ReadSchedule<'_> {
        ReadSchedule {
            configuration: &self.configuration,
            now: self.now.mono,
            lifecycle: &self.lifecycle,
            claims: &self.claims,
            reads: &self.reads,
            backlog: &self.backlog,
            pacing: &self.pacing,
        }
    }

    fn settings(&self) -> &Settings {
        &self.configuration.settings
    }

    /// Tells something about a claimed issue.
    fn notice_of(&mut self, id: &IssueId, run: Option<RunId>, what: NoticeKind) {
        let last_read = self.claims.get(id).map(|claim| Arc::clone(claim.issue()));
        let issue = last_read
            .as_ref()
            .map(|issue| IssueName { id: id.clone(), identifier: issue.identifier.clone() });
        self.out.notices.push(Notice { issue, last_read, run, what });
    }
}

/// Events that only say that an agent lives: they change no deadline and free nothing.
const fn is_routine(event: &Event) -> bool {
    matches!(
        event,
        Event::Wake
            | Event::Run {
                news: RunEvent::Agent(
                    AgentUpdate::Alive
                        | AgentUpdate::Event(_)
                        | AgentUpdate::Usage { .. }
                        | AgentUpdate::RateLimits(_)
                        | AgentUpdate::ToolBegan
                        | AgentUpdate::UnrequestedTurn
                ),
                ..
            }
    )
}
