//! Runs and removals, in larger steps.

use symphony_core::orchestrator::{Command, Event, Removal, RemovalId};
use symphony_core::{Failure, FailureKind, Issue};

use super::{Harness, Run, id, name};

impl Harness {
    /// Puts the issues on the board and lets each start and reach its first turn.
    pub(crate) fn works_on<const N: usize>(&mut self, issues: [Issue; N]) {
        let names = issues.each_ref().map(|issue| name(&issue.id));
        self.board(issues);
        if self.reads.is_empty() {
            self.command(Command::PollNow);
        }
        self.settle();
        for name in &names {
            self.run(name).works();
        }
        self.asked();
        self.starts();
    }

    /// The live run of the issue.
    pub(crate) fn run(&mut self, name: &str) -> Run<'_> {
        Run::of(self, name)
    }

    /// The issue's turn ends, is read, and is answered.
    pub(crate) fn turn_ends(&mut self, name: &str) {
        self.run(name).turn_ends();
        self.live(50);
    }

    /// The run ends as it should: told to finish after a turn.
    pub(crate) fn ends_normally(&mut self, name: &str) {
        if !self.run(name).is_at_work() {
            self.run(name).works();
        }
        self.turn_ends(name);
        assert_eq!(self.told(), [format!("finish {name}")]);
        self.run(name).ends_well();
    }

    /// The issue moves to `Done`; its run ends with the turn, and its workspace is removed.
    pub(crate) fn completes(&mut self, name: &str) {
        let mut issue = self.board[id(name).as_str()].clone();
        issue.state = "Done".into();
        self.board([issue]);
        self.ends_normally(name);
        self.removed(name);
    }

    /// Issues whose workspace is being removed.
    pub(crate) fn removals(&self) -> Vec<String> {
        let issues = self.removals.values().map(|(issue, _)| &issue.id);
        issues.map(name).collect()
    }

    /// What exactly is being removed for the issue.
    pub(crate) fn removal(&self, issue: &str) -> Removal {
        self.removals[&self.removal_id(issue)].1.clone()
    }

    fn removal_id(&self, issue: &str) -> RemovalId {
        let open = self.removals.iter();
        *open
            .clone()
            .find(|(_, (removed, _))| removed.id == id(issue))
            .unwrap_or_else(|| panic!("{issue} is not being removed"))
            .0
    }

    pub(crate) fn removed(&mut self, issue: &str) {
        self.removal_ends(issue, Ok(()));
    }

    pub(crate) fn removal_fails(&mut self, issue: &str) {
        self.removal_ends(issue, Err(Failure::new(FailureKind::Workspace, "busy")));
    }

    fn removal_ends(&mut self, issue: &str, outcome: Result<(), Failure>) {
        let removal = self.removal_id(issue);
        self.removals.remove(&removal);
        self.event(Event::Removed { removal, outcome });
    }
}
