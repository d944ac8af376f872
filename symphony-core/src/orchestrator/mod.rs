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
//! };
//! let (_, step) = Orchestrator::new(configuration, Restored::default(), Now::default());
//! assert!(step.effects.iter().any(|effect| matches!(effect, Effect::Read { .. })));
//! ```

mod best;
mod claim;
mod command;
mod decisions;
mod deliveries;
mod dispatch;
mod event;
mod explain;
mod grace;
mod holds;
mod jobs;
mod kept;
mod keys;
mod outcome;
mod pacing;
mod read;
mod reconcile;
mod run;
mod slots;
mod totals;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::agent::{AgentUpdate, RateLimits};
use crate::budget::BudgetView;
use crate::issue::IssueId;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::snapshot::{CandidatesView, HoldRow, Slots, Totals};
use crate::time::{Mono, Now};
use crate::workspace::{Scope, WorkspaceKey, WorkspaceRecord};

use claim::Claim;
use deliveries::Deliveries;
use dispatch::Refill;
use jobs::Jobs;
use kept::Kept;
use pacing::Pace;
use read::OpenRead;
use run::{Run, TurnReads};

pub use event::*;

/// The state of all scheduling. See the [module](self) for how it is used.
#[derive(Debug)]
pub struct Orchestrator {
    configuration: Configuration,
    /// What is wrong with the workflow file now; starts wait until there is nothing.
    problems: Vec<Problem>,
    paused: bool,
    shutting_down: bool,
    /// What operators had stopped when the service was told to end: its claims are let go.
    stopped_at_end: Vec<StoppedIssue>,

    /// The one map of claims: what runs, waits or is blocked are views of it.
    claims: BTreeMap<IssueId, Claim>,
    /// Details of live runs, by run, so that a sign of life costs one lookup.
    runs: BTreeMap<RunId, Run>,
    slots: Slots,
    /// At most one deadline per claim.
    deadlines: BTreeSet<(Mono, IssueId)>,
    /// Waiting claims that may start as soon as there is a slot.
    ready: BTreeSet<IssueId>,

    reads: BTreeMap<ReadId, OpenRead>,
    removals: BTreeMap<RemovalId, IssueId>,
    jobs: Jobs,
    turns: TurnReads,
    refill: Refill,
    deliveries: Deliveries,
    kept: Kept,

    /// By scope, because the same id in another scope is another issue.
    records: BTreeMap<Scope, BTreeMap<IssueId, WorkspaceRecord>>,
    strays: Vec<WorkspaceKey>,
    strays_matched: bool,
    strays_told: bool,
    /// Who holds which folder, by the key's folded form.
    keys: BTreeMap<String, IssueId>,

    holds: BTreeMap<String, HoldRow>,
    /// Holds that ended up to here have been acted on.
    told_holds: Mono,
    pace: Pace,
    totals: Totals,
    /// The last limits that an agent reported, and its kind.
    rate_limits: Option<(Arc<str>, Arc<RateLimits>)>,
    budget: Option<BudgetView>,
    spent: Spent,

    boot: u64,
    last_run: u64,
    last_id: u64,

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
        let mut this = Self {
            configuration,
            problems: Vec::new(),
            paused: false,
            shutting_down: false,
            stopped_at_end: Vec::new(),
            claims: BTreeMap::new(),
            runs: BTreeMap::new(),
            slots: Slots::default(),
            deadlines: BTreeSet::new(),
            ready: BTreeSet::new(),
            reads: BTreeMap::new(),
            removals: BTreeMap::new(),
            jobs: Jobs::default(),
            turns: TurnReads::default(),
            refill: Refill::default(),
            deliveries: Deliveries::default(),
            kept: Kept::default(),
            records: BTreeMap::new(),
            strays: Vec::new(),
            strays_matched: false,
            strays_told: false,
            keys: BTreeMap::new(),
            holds: BTreeMap::new(),
            told_holds: now.mono,
            pace: Pace { last_activity: now.mono, ..Pace::default() },
            totals: Totals::default(),
            rate_limits: None,
            budget: None,
            spent: restored.spent,
            boot: restored.boot,
            last_run: 0,
            last_id: 0,
            now,
            wakeup: None,
            out: Step::default(),
            view: OnceLock::new(),
        };
        this.take_over(restored.workspaces);
        this.restore_decisions(restored.decisions);
        this.restore_jobs(restored.job_ages);
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
            Event::Reloaded { configuration, workspaces } => {
                self.reloaded(configuration, workspaces);
            }
            Event::ReloadFailed { problems } => self.reload_failed(problems),
            Event::Command(command) => self.command(command),
            Event::QuietHours { on } => self.pace.quiet = on,
            Event::Activity => self.touch(),
            Event::Delivered { issues } => self.delivered(issues),
            Event::JobAdded { name, interval } => self.add_job(name, interval),
            Event::JobEnded { name, outcome } => self.job_ended(name, outcome),
        }
        // Signs of life arrive by the million and wake nothing up.
        if is_routine && self.wakeup.is_none_or(|at| at > now.mono) && self.refill_is_idle() {
            return std::mem::take(&mut self.out);
        }
        self.settle()
    }

    /// When [`handle`](Self::handle) is to be called if nothing else happens. May be early.
    #[must_use]
    pub const fn next_wakeup(&self) -> Option<Mono> {
        self.wakeup
    }

    /// Whether nothing is left to wait for after [`Command::ShutDown`].
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.shutting_down && self.runs.is_empty() && self.removals.is_empty()
    }

    /// Does everything that is due: deadlines, then reads, then slots (contract 4.4).
    fn settle(&mut self) -> Step {
        self.view.take();
        let now = self.now.mono;
        while let Some((at, id)) = self.deadlines.first()
            && *at <= now
        {
            let id = id.clone();
            self.claim_due(&id);
        }
        self.holds_due();
        self.fresh_due();
        self.doubts_due();
        if !self.shutting_down {
            self.read_turns();
            self.run_jobs();
            self.fill_slots();
            self.read_deliveries();
        }
        self.tell_mode();
        self.wakeup = self.find_wakeup();
        std::mem::take(&mut self.out)
    }

    fn find_wakeup(&self) -> Option<Mono> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        if self.shutting_down {
            return deadline;
        }
        let refill = self.next_refill();
        let fresh = self.refill.fresh_from;
        let deliveries = self.next_delivery();
        [deadline, self.turns.due(), self.next_job(), refill, fresh, self.next_hold(), deliveries]
            .into_iter()
            .flatten()
            .min()
    }

    fn settings(&self) -> &Settings {
        &self.configuration.settings
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn effect(&mut self, effect: Effect) {
        self.out.effects.push(effect);
    }

    fn notice(&mut self, what: Happened) {
        self.out.notices.push(Notice { issue: None, run: None, what });
    }

    fn notice_of(&mut self, id: &IssueId, run: Option<RunId>, what: Happened) {
        let issue = self
            .claims
            .get(id)
            .map(|claim| IssueName { id: id.clone(), identifier: claim.issue.identifier.clone() });
        self.out.notices.push(Notice { issue, run, what });
    }
}

/// Events that only say that an agent lives: they change no deadline and free nothing.
const fn is_routine(event: &Event) -> bool {
    matches!(
        event,
        Event::Wake
            | Event::Run {
                news: RunNews::Agent(
                    AgentUpdate::Alive
                        | AgentUpdate::Event(_)
                        | AgentUpdate::Session { .. }
                        | AgentUpdate::Usage { .. }
                        | AgentUpdate::RateLimits(_)
                        | AgentUpdate::ToolBegan
                        | AgentUpdate::UnrequestedTurn
                ),
                ..
            }
    )
}
