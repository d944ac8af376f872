//! The oracle: keeps its own account of what the orchestrator was told and did, so that every step
//! can be judged by the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{
    BlockReason, Command, Configuration, Effect, Event, Generation, Phase, ReadId, Removal,
    RemovalId, Restored, RunEvent, Start, Step, StopReason, TurnText, Workspaces,
};
use symphony_core::run::RunId;
use symphony_core::store::ClaimRow;
use symphony_core::time::{Mono, Now};
use symphony_core::{Issue, IssueId, Scope, Settings, WorkspaceRecord};

use crate::books::Books;
use crate::claims::{Deeds, Entry, Outcome, Until, View};
use crate::deliveries::{DeliveryModel, Told};
use crate::eligibility::{is_active, is_routable, is_terminal};
use crate::holds::HoldsModel;
use crate::pace::Pace;
use crate::reads::ReadModel;
use crate::runs::{RunModel, name};
use crate::totals::Sums;
use crate::violation::{Check, ensure};
use crate::workspaces::path_of;

/// Everything there is to know from outside.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) now: Now,
    pub(crate) config: Configuration,
    pub(crate) boot: u64,
    pub(crate) valid: bool,
    pub(crate) paused: bool,
    pub(crate) shutting_down: bool,
    /// Whether nothing can be written for the next life.
    pub(crate) storage: bool,
    pub(crate) claims: BTreeMap<IssueId, Entry>,
    pub(crate) runs: BTreeMap<RunId, RunModel>,
    pub(crate) reads: BTreeMap<ReadId, ReadModel>,
    pub(crate) removals: BTreeMap<RemovalId, (IssueId, Removal)>,
    /// Each issue's record, or several possibilities after the root changed.
    pub(crate) records: BTreeMap<IssueId, Vec<Option<WorkspaceRecord>>>,
    pub(crate) strays: Vec<symphony_core::WorkspaceKey>,
    pub(crate) kept: Kept,
    pub(crate) deliveries: DeliveryModel,
    pub(crate) holds: HoldsModel,
    pub(crate) sums: Sums,
    pub(crate) books: Books,
    pub(crate) pace: Pace,
    pub(crate) last_read: u64,
    pub(crate) step: StepModel,
    /// Issues that had a claim since the last list.
    pub(crate) was_claimed: BTreeSet<IssueId>,
    /// Issues that had a workspace under two roots: which of them is known is left open.
    pub(crate) two_rooted: BTreeSet<IssueId>,
    last_run: u64,
    last_removal: u64,
}

/// The last list of candidates, and what later reads said of them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) list: Vec<Arc<Issue>>,
    /// The read that brought it.
    pub(crate) read: ReadId,
    pub(crate) read_at: Option<Mono>,
    pub(crate) more: bool,
    /// Newer views of issues that were read by id since: `None` for one that was not there.
    pub(crate) newer: BTreeMap<IssueId, Vec<(ReadId, Option<Arc<Issue>>)>>,
    /// Those that were read before a start since, and could not start for a reason of their own.
    pub(crate) rejected: BTreeMap<IssueId, ReadId>,
    /// Those that could not be read since.
    pub(crate) failed: BTreeMap<IssueId, ReadId>,
    pub(crate) list_failed: bool,
    /// Whether it names an issue twice.
    pub(crate) repeats: bool,
    /// Whether it comes from a tracker that is gone: what is still made of it is left open.
    pub(crate) stale: bool,
    /// Whether it is forgotten, and the next one is waited for.
    pub(crate) forgotten: bool,
    /// What reads because of deliveries said, where they were asked for after the list.
    pub(crate) delivered: BTreeMap<IssueId, Told>,
}

impl Kept {
    /// Whether something that was asked for after this read, a list or a read because of a delivery,
    /// shows that the issue is not over.
    pub(crate) fn shows_alive_since(&self, id: &IssueId, read: u64) -> bool {
        match self.told_since(id, read) {
            Some(told) => !told.over,
            None => self.read.0 > read && self.lists(id),
        }
    }

    pub(crate) fn lists(&self, id: &IssueId) -> bool {
        self.list.iter().any(|issue| issue.id == *id)
    }

    /// An issue cannot start, as a read newer than the list shows.
    pub(crate) fn reject(&mut self, id: &IssueId, read: ReadId) {
        if read > self.read {
            self.rejected.insert(id.clone(), read);
        }
    }
}

/// An issue that was read before its start and may go, in dispatch order.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) issue: Arc<Issue>,
    pub(crate) retry: bool,
    /// Whether it is left open if it may start.
    pub(crate) unsure: bool,
}

/// The delay of 7.2.
pub(crate) fn backoff(settings: &Settings, attempt: u32) -> Duration {
    let doubled = 10_000_u64.saturating_mul(1 << attempt.saturating_sub(1).min(40));
    Duration::from_millis(doubled).min(settings.agent.max_retry_backoff)
}

/// What may answer a turn's end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TurnAnswer {
    /// The first one, with this text.
    First(Arc<Issue>, TurnText),
    Next(Vec<Arc<Issue>>),
    Finish(crate::runs::FinishReason),
    Nothing,
}

/// What is expected of one step, and what it did.
#[derive(Debug, Default)]
pub(crate) struct StepModel {
    pub(crate) outcomes: BTreeMap<IssueId, Vec<Outcome>>,
    pub(crate) deeds: BTreeMap<IssueId, Deeds>,
    pub(crate) turns: BTreeMap<RunId, Vec<TurnAnswer>>,
    pub(crate) queue: Vec<Judged>,
    /// Views of issues that this step brought: the claim must, or may, show one of them.
    pub(crate) brought: BTreeMap<IssueId, (Vec<Arc<Issue>>, bool)>,
    pub(crate) check_read: Option<Vec<IssueId>>,
    pub(crate) refreshed: Option<Vec<IssueId>>,
    /// Claims that leave with their scope.
    pub(crate) left: BTreeSet<IssueId>,
    /// What may become of claims of another scope whose run ended.
    pub(crate) parked: BTreeMap<IssueId, Vec<Outcome>>,
    /// The scope that was in force before.
    pub(crate) old_scope: Option<Scope>,
    pub(crate) polls: u32,
    pub(crate) poll: Option<ReadId>,
    pub(crate) read_before: u64,
    pub(crate) holds_before: usize,
    /// Whether the read before a start came back.
    pub(crate) checked_back: bool,
    /// Whether the event frees a slot or brings a list, so that starts must be looked for.
    pub(crate) refill: bool,
    /// Whether the kept list was changed.
    pub(crate) revised: bool,
    /// Whether nothing at all may come of the event.
    pub(crate) nothing: bool,
    /// Whether claims may change in ways that the contract leaves open.
    pub(crate) open: bool,
}

impl Oracle {
    pub(crate) fn new(config: Configuration, restored: &Restored, now: Now) -> Self {
        let mut oracle = Self {
            now,
            config,
            boot: restored.boot,
            valid: true,
            paused: restored.rows.operator.paused,
            shutting_down: false,
            storage: false,
            claims: BTreeMap::new(),
            runs: BTreeMap::new(),
            reads: BTreeMap::new(),
            removals: BTreeMap::new(),
            records: BTreeMap::new(),
            strays: Vec::new(),
            kept: Kept::default(),
            deliveries: DeliveryModel::default(),
            holds: HoldsModel::new(&restored.rows.holds, now),
            sums: Sums::new(&restored.rows),
            books: Books::new(&restored.rows),
            pace: Pace::new(restored, now),
            last_read: 0,
            last_run: 0,
            last_removal: 0,
            was_claimed: BTreeSet::new(),
            two_rooted: BTreeSet::new(),
            step: StepModel::default(),
        };
        oracle.on_disk(&restored.workspaces);
        for row in &restored.rows.claims {
            let entry = Entry::restored(row, oracle.settings(), now);
            oracle.claims.insert(row.issue.id.clone(), entry);
        }
        oracle
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// Takes over what is under the root. What is known of another root may be kept or forgotten.
    fn on_disk(&mut self, workspaces: &Workspaces) {
        let old = std::mem::take(&mut self.records);
        let known: BTreeSet<String> =
            old.values().flatten().flatten().map(|record| record.key.folded()).collect();
        let live: BTreeSet<String> = self.runs.values().map(|model| model.key.folded()).collect();
        for record in &workspaces.records {
            let possible = self.records.entry(record.issue.clone()).or_default();
            possible.push(Some(record.clone()));
            // A folder of that name under the other root may keep this one out.
            let folded = record.key.folded();
            if known.contains(&folded) || live.contains(&folded) || possible.len() > 1 {
                possible.push(None);
            }
        }
        for (issue, possible) in old {
            if self.records.contains_key(&issue) {
                self.two_rooted.insert(issue.clone());
            }
            let now = self.records.entry(issue).or_insert_with(|| vec![None]);
            now.extend(possible);
        }
        self.strays.clone_from(&workspaces.strays);
    }

    /// Whether the issue surely has a record; `None` when that is open.
    pub(crate) fn has_record(&self, issue: &IssueId) -> Option<bool> {
        let Some(possible) = self.records.get(issue) else {
            return Some(false);
        };
        let some = possible.iter().any(Option::is_some);
        let none = possible.iter().any(Option::is_none);
        (some != none).then_some(some)
    }

    fn is_in_scope(&self, issue: &IssueId) -> bool {
        let records = self.records.get(issue).into_iter().flatten().flatten();
        records.into_iter().all(|record| record.scope == self.config.scope)
    }

    /// The outcomes of an issue that is over: its workspace is removed, if it has one.
    pub(crate) fn cleaned(&self, issue: &IssueId) -> Vec<Outcome> {
        // What is left of it is swept by the next life.
        if self.shutting_down {
            return vec![Outcome::Free];
        }
        // A list that was asked for later may know better, and another may live in the folder.
        let known = self.claims.get(issue).map(|entry| entry.known);
        let alive = known.is_some_and(|known| self.kept.shows_alive_since(issue, known));
        let keys = self.records.get(issue).into_iter().flatten().flatten();
        let mut keys = keys.map(|record| record.key.folded());
        let lived_in = keys.any(|key| {
            let runs =
                self.runs.values().any(|model| model.issue != *issue && model.key.folded() == key);
            let goes = self
                .removals
                .values()
                .any(|(owner, removal)| owner != issue && removal.key().folded() == key);
            runs || goes
        });
        // Other settings may say that it is not over after all.
        let settings = &self.config.settings;
        let revived =
            self.claims.get(issue).is_some_and(|entry| !is_terminal(&entry.issue.state, settings));
        if alive || lived_in || revived {
            return vec![Outcome::Cleaning, Outcome::Free];
        }
        match self.has_record(issue) {
            // After a change of scope it is left to the sweep of its own.
            Some(true) if !self.is_in_scope(issue) => vec![Outcome::Cleaning, Outcome::Free],
            Some(true) => vec![Outcome::Cleaning],
            Some(false) => vec![Outcome::Free],
            None => vec![Outcome::Cleaning, Outcome::Free],
        }
    }

    /// Takes in an event before the orchestrator does, and works out what it must come to.
    pub(crate) fn told(&mut self, now: Now, event: &Event, wakeup: Option<Mono>) -> Check {
        self.now = now;
        self.withdraw_graces();
        self.step = StepModel {
            read_before: self.last_read,
            holds_before: self.holds.all.len(),
            ..StepModel::default()
        };
        match event {
            Event::Wake => self.step.nothing = wakeup.is_none_or(|at| at > now.mono),
            Event::Answered { read, answer } => self.answered(*read, answer),
            Event::Run { run, news } => self.run_news(*run, news),
            Event::Removed { removal, outcome } => self.removed(*removal, outcome.is_ok()),
            Event::Reloaded { configuration, workspaces, claims } => {
                self.reloaded(configuration, workspaces.as_ref(), claims)
            }
            Event::Storage(failure) => self.stored(failure.is_none()),
            Event::ReloadFailed { .. } => self.valid = false,
            Event::Command(command) => self.commanded(command),
            Event::QuietHours { on } => self.pace.quiet(*on),
            Event::Activity => self.pace.active(now.mono),
            Event::Delivered { issues } => self.delivered(issues),
            Event::JobAdded { .. } | Event::JobEnded { .. } => {}
        }
        let frees = matches!(event, Event::Run { news: RunEvent::Ended(_), .. });
        self.step.refill |= (frees && !self.step.nothing)
            || *event == Event::Storage(None)
            || self.step.checked_back
            || self.step.revised;
        self.pace.told(now.mono, event);
        self.withdraw_graces();
        Ok(())
    }

    /// A grace that is over stops nothing if other settings have made the issue active (2.7).
    fn withdraw_graces(&mut self) {
        let settings = Arc::clone(&self.config.settings);
        for model in
            self.runs.values_mut().filter(|model| model.grace.is_some_and(|by| by <= self.now.mono))
        {
            let issue = self.claims.get(&model.issue).map(|entry| &entry.issue);
            if issue.is_some_and(|i| is_active(&i.state, &settings) && is_routable(i, &settings)) {
                model.end_grace();
            }
        }
    }

    fn run_news(&mut self, run: RunId, news: &RunEvent) {
        let Some(model) = self.runs.get_mut(&run) else {
            self.step.nothing = true;
            return;
        };
        model.told(news, self.now.mono);
        let issue = model.issue.clone();
        match news {
            RunEvent::Workspace(record) => {
                self.records.insert(issue, vec![Some(record.clone())]);
            }
            RunEvent::WorkspaceGone => {
                self.records.remove(&issue);
            }
            RunEvent::Agent(update) => self.agent_update(run, update),
            RunEvent::TurnEnded => self.holds.works(run),
            RunEvent::Ended(end) => self.run_ended(run, end),
            RunEvent::Phase(Phase::InitializingSession) => self.holds.launched(run),
            RunEvent::Opened(opened) => self.opened(run, opened),
            RunEvent::Phase(_) => {}
        }
    }

    fn agent_update(&mut self, run: RunId, update: &symphony_core::agent::AgentUpdate) {
        use symphony_core::agent::AgentUpdate;
        match update {
            AgentUpdate::Usage { thread, total } => {
                let (new, cost) = self.sums.used(thread, total);
                if new.total > 0 || cost > 0 {
                    self.books.unwritten.get_or_insert(self.now.mono);
                    self.holds.works(run)
                } else {
                    self.holds.may_work(run)
                }
                if let Some(model) = self.runs.get_mut(&run) {
                    model.tokens.input += new.input;
                    model.tokens.cached_input += new.cached_input;
                    model.tokens.output += new.output;
                    model.tokens.reasoning_output += new.reasoning_output;
                    model.tokens.total += new.total;
                    model.cost += cost;
                }
            }
            AgentUpdate::RateLimits(limits) => {
                self.holds.limits = Some(Arc::clone(limits));
                if let Some(model) = self.runs.get(&run) {
                    self.holds.limits_of.clone_from(&model.agent);
                }
            }
            _ => {}
        }
    }

    fn removed(&mut self, removal: RemovalId, gone: bool) {
        let Some((issue, what)) = self.removals.remove(&removal) else {
            self.step.nothing = true;
            return;
        };
        if gone {
            match &what {
                Removal::Recorded(record) => {
                    if let Some(possible) = self.records.get_mut(&issue) {
                        possible.retain(|known| {
                            known.as_ref().is_none_or(|known| known.path != record.path)
                        });
                        if self.two_rooted.contains(&issue) {
                            possible.push(None);
                        }
                        if possible.iter().all(Option::is_none) {
                            self.records.remove(&issue);
                        }
                    }
                }
                Removal::Stray(key) => self.strays.retain(|stray| stray != key),
            }
            self.step.outcomes.insert(issue, vec![Outcome::Free]);
            return;
        }
        let Some(Entry { view: View::Cleaning { failures, .. }, .. }) = self.claims.get(&issue)
        else {
            return;
        };
        let failures = failures + 1;
        let outcome = if failures >= 3 || self.shutting_down {
            Outcome::Free
        } else {
            let until = self.now.mono + self.backoff(failures);
            Outcome::CleaningAgain { failures, until }
        };
        self.step.outcomes.insert(issue, vec![outcome]);
    }

    /// Whether the removal fails for the third time: it is then left to the sweep.
    pub(crate) fn gives_up(&self, removal: RemovalId, event: &Event) -> bool {
        let issue = self.removals.get(&removal).map(|(issue, _)| issue);
        let view = issue.and_then(|issue| self.claims.get(issue)).map(|entry| &entry.view);
        matches!(event, Event::Removed { outcome: Err(_), .. })
            && matches!(view, Some(View::Cleaning { failures: 2, .. }))
    }

    /// The store can be written again, or not: what waited for it is due (16.3).
    fn stored(&mut self, works: bool) {
        self.storage = !works;
        for (id, entry) in self.claims.iter().filter(|(_, entry)| works && entry.lineage.stored) {
            if let View::Waiting { attempt, .. } = entry.view {
                let due = Outcome::Waiting { attempt, until: Until::Now };
                self.step.outcomes.insert(id.clone(), vec![due]);
            }
        }
    }

    /// Claims leave with their scope, and those that were left in the new one are back (16.4).
    fn rescope(&mut self, claims: &[ClaimRow]) {
        let is_left = |entry: &Entry| {
            entry.scope != self.config.scope
                && !matches!(entry.view, View::Running { .. } | View::Cleaning { .. })
        };
        let left = self.claims.iter().filter(|(_, entry)| is_left(entry));
        self.step.left = left.map(|(id, _)| id.clone()).collect();
        for id in &self.step.left {
            self.step.outcomes.insert(id.clone(), vec![Outcome::Free]);
        }
        for row in claims {
            let entry = Entry::restored(row, self.settings(), self.now);
            self.sums.restore(row);
            let known = self.claims.get(&row.issue.id).map(|entry| &entry.view);
            // The scope is back before its run ended: the claim never left.
            if !matches!(known, Some(View::Running { .. } | View::Cleaning { .. })) {
                self.step.left.remove(&row.issue.id);
                self.step.outcomes.remove(&row.issue.id);
                self.claims.insert(row.issue.id.clone(), entry);
            }
        }
    }

    fn reloaded(
        &mut self,
        config: &Configuration,
        workspaces: Option<&Workspaces>,
        claims: &[ClaimRow],
    ) {
        let (old, new) = (&self.config.settings.tracker, &config.settings.tracker);
        self.kept.stale |= config.generation != self.config.generation || old != new;
        self.kept.rejected.clear();
        self.valid = true;
        self.reloaded_deliveries(config);
        if config.generation != self.config.generation {
            // What was asked of the old tracker is asked again.
            let due = self.now.mono + Duration::from_millis(50);
            for pending in self.runs.values_mut().filter_map(|model| model.pending.as_mut()) {
                if pending.read.take().is_some() {
                    pending.due = due;
                }
            }
        }
        let old_scope = std::mem::replace(&mut self.config, config.clone()).scope;
        if old_scope != self.config.scope {
            self.rescope(claims);
        }
        self.step.old_scope = Some(old_scope);
        let agent = &config.settings.agent;
        self.holds.other_agent(&agent.kind);
        for model in self.runs.values_mut().filter(|model| model.agent == agent.kind) {
            model.stall_timeout = agent.common.stall_timeout;
        }
        if let Some(workspaces) = workspaces {
            self.on_disk(workspaces);
        }
        // What the new states and labels mean for claims shows at once or at the next refresh.
        self.step.open = true;
    }

    fn commanded(&mut self, command: &Command) {
        match command {
            Command::Pause => self.paused = true,
            Command::Resume => {
                self.step.refill = std::mem::replace(&mut self.paused, false);
            }
            Command::ClearHolds => {
                self.step.refill = !std::mem::take(&mut self.holds.all).is_empty();
            }
            Command::PollNow => {}
            Command::Stop(issue) => {
                let why = BlockReason::Operator;
                if let Some(entry) = self.claims.get_mut(issue) {
                    entry.commanded = self.last_read;
                    entry.lineage.resume_open = true;
                    entry.seen = false;
                }
                let outcomes = match self.claims.get(issue).map(|entry| &entry.view) {
                    Some(View::Running { run, stopping }) => {
                        if let Some(model) = self.runs.get_mut(run) {
                            model.operator_stop = true;
                        }
                        match stopping {
                            None => vec![Outcome::Stopping(StopReason::Operator)],
                            Some(_) => vec![Outcome::Same],
                        }
                    }
                    Some(View::Checking { .. } | View::Waiting { .. } | View::Blocked { .. }) => {
                        vec![Outcome::Blocked(why)]
                    }
                    Some(View::Cleaning { .. }) | None => vec![Outcome::Same],
                };
                self.step.outcomes.insert(issue.clone(), outcomes);
            }
            Command::Retry(issue) => {
                let Some(entry) = self.claims.get_mut(issue) else {
                    return;
                };
                entry.commanded = self.last_read;
                if matches!(entry.view, View::Blocked { .. } | View::Waiting { .. }) {
                    entry.lineage.retry = true;
                    let attempt = entry.lineage.attempt.unwrap_or(0);
                    let outcome = Outcome::Waiting { attempt, until: Until::Now };
                    self.step.outcomes.insert(issue.clone(), vec![outcome]);
                }
            }
            Command::ShutDown => self.shut_down(),
        }
    }

    fn shut_down(&mut self) {
        if self.shutting_down {
            return;
        }
        self.shutting_down = true;
        for (issue, entry) in &self.claims {
            let outcomes = match &entry.view {
                View::Running { stopping: None, .. } => {
                    vec![Outcome::Stopping(StopReason::ShutDown)]
                }
                View::Running { .. } | View::Cleaning { until: None, .. } => vec![Outcome::Same],
                View::Cleaning { .. } => vec![Outcome::Free],
                View::Checking { attempt } if entry.lineage.retry => {
                    let attempt = attempt.unwrap_or(0);
                    vec![Outcome::Waiting { attempt, until: Until::Now }]
                }
                View::Checking { .. } => vec![Outcome::Free],
                // Nothing is let go: the next life goes on with it (16.4).
                View::Waiting { .. } | View::Blocked { .. } => vec![Outcome::Same],
            };
            self.step.outcomes.insert(issue.clone(), outcomes);
        }
    }

    /// Judges what a step asks for, one effect after the other.
    pub(crate) fn did(&mut self, effect: &Effect) -> Check {
        ensure!(!self.step.nothing, "old news changes nothing", "it led to {effect:?}");
        match effect {
            Effect::Read { read, generation, poll } => {
                self.check_read_id(*read, *generation)?;
                self.asked(*read, *generation, poll)
            }
            Effect::Start(start) => self.started(start),
            Effect::NextTurn { run, turn, issue, client_id, text } => {
                self.next_turn(*run, *turn, issue, client_id, *text)
            }
            Effect::Finish { run } => self.finishing(*run),
            Effect::Stop { run, why } => self.stopping(*run, *why),
            Effect::Remove { removal, issue, workspace } => {
                self.removing(*removal, issue, workspace)
            }
            Effect::RecheckWorkflow | Effect::RunJob { .. } => {
                ensure!(!self.shutting_down, "nothing begins after shutdown", "{effect:?}");
                Ok(())
            }
        }
    }

    fn check_read_id(&mut self, read: ReadId, generation: Generation) -> Check {
        ensure!(
            read.0 > self.last_read,
            "later reads have greater ids",
            "{read:?} after {}",
            self.last_read
        );
        ensure!(
            generation == self.config.generation,
            "reads ask the tracker in force",
            "{read:?} asks {generation:?}"
        );
        ensure!(!self.shutting_down, "nothing begins after shutdown", "{read:?}");
        self.last_read = read.0;
        Ok(())
    }

    fn started(&mut self, start: &Start) -> Check {
        let Start { run, issue, .. } = start;
        ensure!(
            run.boot == self.boot && run.number > self.last_run,
            "a run id is never used again",
            "{run} after {}.{}",
            self.boot,
            self.last_run
        );
        self.last_run = run.number;
        self.check_start(start)?;
        let path = match &start.record {
            Some(record) => record.path.clone(),
            None => {
                path_of(&self.settings().workspace.root.to_string_lossy(), &start.host, &start.key)
            }
        };
        let agent = self.settings().agent.kind.clone();
        let folded = path.to_string_lossy().to_ascii_lowercase();
        for (other, model) in &self.runs {
            ensure!(
                model.issue != issue.id,
                "one live run per issue",
                "{} lives, {run} starts",
                name(*other, model)
            );
            ensure!(
                model.path.to_string_lossy().to_ascii_lowercase() != folded,
                "one live run per folder",
                "{} lives in {folded}, {run} starts",
                name(*other, model)
            );
        }
        for (owner, removal) in self.removals.values() {
            let (key, gone) = match removal {
                Removal::Recorded(record) => (&record.key, record.path == path),
                Removal::Stray(key) => (key, *key == start.key),
            };
            ensure!(
                !gone && key.folded() != start.key.folded() && *owner != issue.id,
                "no start in a workspace being removed",
                "run {run} of {} starts in {key}",
                issue.id
            );
        }
        self.holds.started(&agent, *run, self.now.mono)?;
        let mut model = RunModel::new(start, path, &self.config.settings, self.now);
        if model.attempt.is_some_and(|attempt| attempt == 0) {
            model.attempt = None;
        }
        if let Some(entry) = self.claims.get_mut(&issue.id) {
            model.asked = entry.lineage.asked.take().filter(|_| start.resume.is_some());
            entry.lineage.unanswered = false;
            entry.lineage.stored = false;
        }
        self.runs.insert(*run, model);
        self.sums.started();
        self.pace.active(self.now.mono);
        self.step.deeds.entry(issue.id.clone()).or_default().started = Some(*run);
        Ok(())
    }

    fn stopping(&mut self, run: RunId, why: StopReason) -> Check {
        let now = self.now.mono;
        let Some(model) = self.runs.get_mut(&run) else {
            ensure!(false, "a run is stopped only while it lives", "{run} is not live: {why:?}");
            return Ok(());
        };
        ensure!(
            model.stop.is_none(),
            "a run is stopped at most once",
            "{}: {:?}, now {why:?}",
            name(run, model),
            model.stop
        );
        if why == StopReason::Stalled {
            let earliest = model.stall().map(|(earliest, _)| earliest);
            ensure!(
                earliest.is_some_and(|at| at <= now),
                "a stall is silence (8.1)",
                "{} is stopped at {now:?}, not before {earliest:?}",
                name(run, model)
            );
        }
        if matches!(why, StopReason::Terminal | StopReason::NotActive) {
            ensure!(
                model.grace.is_none_or(|by| by <= now),
                "a turn may end by itself within its grace (8.2)",
                "{} is stopped at {now:?}, {:?} left",
                name(run, model),
                model.grace
            );
        }
        model.stop = Some((why, now));
        model.ordered = None;
        model.stopped_after = self.last_read;
        model.pending = None;
        model.seen_active = false;
        self.step.turns.remove(&run);
        self.step.deeds.entry(model.issue.clone()).or_default().stopped = Some(why);
        Ok(())
    }

    fn removing(&mut self, removal: RemovalId, issue: &Issue, what: &Removal) -> Check {
        ensure!(
            removal.0 > self.last_removal,
            "removal ids grow",
            "{removal:?} after {}",
            self.last_removal
        );
        self.last_removal = removal.0;
        let free = self.runs.values().find(|model| model.issue == issue.id);
        ensure!(free.is_none(), "nothing is removed under a live run", "{free:?}");
        match what {
            Removal::Recorded(record) => {
                let known = self
                    .records
                    .get(&issue.id)
                    .is_some_and(|possible| possible.contains(&Some(record.clone())));
                ensure!(
                    known,
                    "removal uses the recorded path (9.6)",
                    "{record:?} of {}",
                    issue.id
                );
            }
            Removal::Stray(key) => {
                ensure!(
                    self.strays.contains(key),
                    "removal uses the recorded path (9.6)",
                    "{key} is no stray"
                );
            }
        }
        self.removals.insert(removal, (issue.id.clone(), what.clone()));
        self.step.deeds.entry(issue.id.clone()).or_default().removing = true;
        Ok(())
    }

    /// The delay of 7.2.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        backoff(self.settings(), attempt)
    }

    /// What must hold of the step as a whole once all its effects are known.
    pub(crate) fn ended_step(&mut self, step: &Step) -> Check {
        if self.step.nothing {
            let is_nothing = step.effects.is_empty() && step.writes.is_empty();
            ensure!(is_nothing, "old news changes nothing", "{step:?}");
        }
        ensure!(
            self.step.polls <= 1,
            "one poll at a time (4.5)",
            "{} polls in one step",
            self.step.polls
        );
        self.check_queue()?;
        self.check_turns()?;
        self.check_notices(step)?;
        self.check_writes(step)
    }
}
