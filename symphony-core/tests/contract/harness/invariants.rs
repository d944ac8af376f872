//! Invariants, checked with every effect and after every step.

use std::collections::BTreeMap;

use symphony_core::IssueId;
use symphony_core::orchestrator::{Effect, Removal, Start};
use symphony_core::run::RunId;
use symphony_core::snapshot::{Snapshot, Unstarted};
use symphony_core::tracker::Poll;

use super::{Harness, Live, Stage, run};

impl Harness {
    /// Records an effect, which must be allowed now.
    pub(super) fn record_effect(&mut self, effect: &Effect) {
        if let Some(run) = run::target_run(effect) {
            assert!(self.runs.contains_key(&run), "not a live run: {effect:?}");
        }
        match effect {
            Effect::Read { read, generation, poll } => {
                assert!(Some(*read) > self.last_read, "{read:?} is not new");
                assert_eq!(*generation, self.configuration.generation);
                assert_asks_something_once(poll);
                self.last_read = Some(*read);
                self.reads.insert(*read, poll.clone());
            }
            Effect::Start(start) => self.record_start(start),
            Effect::NextTurn { run, turn, .. } => {
                let live = self.awaiting(*run, effect);
                live.turns += 1;
                assert_eq!(*turn, live.turns);
                assert!(*turn <= live.start.max_turns, "too many turns");
            }
            Effect::Finish { run } => self.awaiting(*run, effect).finishing = true,
            Effect::Stop { run, .. } => {
                let live = self.runs.get_mut(run).expect("live");
                assert!(!live.stopped, "stopped twice: {effect:?}");
                live.stopped = true;
                live.awaits_answer = false;
            }
            Effect::Remove { removal, issue, workspace } => {
                let folder = folder(workspace);
                assert!(!self.in_use(&folder), "{folder} is removed while in use");
                let issue = (**issue).clone();
                let open = self.removals.insert(*removal, (issue, workspace.clone()));
                assert_eq!(open, None, "{removal:?} is not new");
            }
            Effect::RunJob { name } => {
                assert!(!self.jobs.contains(&name.to_string()), "{name} runs");
                self.jobs.push(name.to_string());
            }
            Effect::RecheckWorkflow => (),
        }
    }

    fn record_start(&mut self, start: &Start) {
        let barred = self.paused || self.broken || self.closing;
        assert!(!barred, "nothing may start now: {start:?}");
        assert_eq!(start.run.boot, self.boot);
        assert!(Some(start.run) > self.last_run, "{} is not new", start.run);
        let folder = start.key.folded();
        assert!(!self.in_use(&folder), "{folder} is already in use");
        let twin = self.runs.values().find(|live| live.start.issue.id == start.issue.id);
        assert!(twin.is_none(), "two runs of {}", start.issue.id);
        self.last_run = Some(start.run);
        self.names.insert(start.run, super::name(&start.issue.id));
        let live = Live {
            start: start.clone(),
            turns: 0,
            awaits_answer: false,
            finishing: false,
            stopped: false,
        };
        self.runs.insert(start.run, live);
        let limit = self.configuration.settings.agent.max_concurrent_agents as usize;
        assert!(self.runs.len() <= limit, "more than {limit} runs");
    }

    /// A run whose turn ended and that was not answered yet.
    fn awaiting(&mut self, run: RunId, effect: &Effect) -> &mut Live {
        let live = self.runs.get_mut(&run).expect("live");
        assert!(live.awaits_answer, "no turn ended: {effect:?}");
        live.awaits_answer = false;
        live
    }

    fn in_use(&self, wanted: &str) -> bool {
        let live = self.runs.values().map(|live| live.start.key.folded());
        let removed = self.removals.values().map(|(_, removal)| folder(removal));
        live.chain(removed).any(|folder| folder == wanted)
    }

    /// What must be true after every step.
    pub(super) fn check_invariants(&self) {
        let wakeup = self.orchestrator.next_wakeup();
        assert!(
            wakeup.is_none_or(|at| at > self.now.mono),
            "a deadline is left over: {wakeup:?} at {:?}",
            self.now.mono
        );

        let snapshot = self.snapshot();
        let shown: Vec<_> = snapshot.running.iter().map(|row| row.run).collect();
        let mut live: Vec<_> = self.runs.values().map(|live| &live.start).collect();
        live.sort_by(|a, b| a.issue.id.cmp(&b.issue.id));
        assert_eq!(shown, live.iter().map(|start| start.run).collect::<Vec<_>>());
        assert_eq!(snapshot.slots.used as usize, live.len());

        let stages = stages(&snapshot);
        let rows = snapshot.running.len()
            + snapshot.waiting.len()
            + snapshot.blocked.len()
            + snapshot.checking.len()
            + snapshot.cleaning.len();
        assert_eq!(stages.len(), rows, "an issue is in two stages");

        let explained = self.orchestrator.explain().unstarted;
        let mut counts = BTreeMap::new();
        for row in &explained {
            *counts.entry(row.reason.as_str().to_owned()).or_default() += 1;
        }
        assert_eq!(snapshot.candidates.reasons, counts);
        let (elsewhere, mut first): (Vec<_>, Vec<_>) =
            explained.into_iter().partition(Unstarted::is_listed_elsewhere);
        let unclaimed: usize = snapshot.candidates.unclaimed.values().sum();
        assert_eq!(unclaimed, first.len());
        first.extend(elsewhere);
        first.truncate(200);
        assert_eq!(snapshot.candidates.first, first);
    }
}

fn assert_asks_something_once(poll: &Poll) {
    let lists = poll.candidates.as_ref().is_some_and(|query| !query.states.is_empty());
    assert!(lists || !poll.ids.is_empty());
    let ids = &poll.ids;
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "asked twice: {ids:?}");
}

fn folder(removal: &Removal) -> String {
    match removal {
        Removal::Recorded(record) => record.key.folded(),
        Removal::Stray(key) => key.folded(),
    }
}

/// Where each claimed issue is.
pub(super) fn stages(snapshot: &Snapshot) -> BTreeMap<IssueId, Stage> {
    let mut stages = BTreeMap::new();
    for row in &snapshot.running {
        let stage = match row.stopping {
            None => Stage::Running,
            Some(_) => Stage::Stopping,
        };
        stages.insert(row.issue.id.clone(), stage);
    }
    let waiting = snapshot.waiting.iter().map(|row| (&row.issue, Stage::Waiting));
    let blocked = snapshot.blocked.iter().map(|row| (&row.issue, Stage::Blocked));
    let checking = snapshot.checking.iter().map(|row| (&row.issue, Stage::Checking));
    let cleaning = snapshot.cleaning.iter().map(|row| (&row.issue, Stage::Cleaning));
    for (issue, stage) in waiting.chain(blocked).chain(checking).chain(cleaning) {
        stages.insert(issue.id.clone(), stage);
    }
    stages
}
