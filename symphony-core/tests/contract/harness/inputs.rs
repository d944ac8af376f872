//! Inputs: operator commands, deliveries, edits of the file, jobs of an embedder.

use symphony_core::orchestrator::{Command, Event, Generation, Workspaces};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::{Failure, Settings};

use super::{Harness, id};

impl Harness {
    pub(crate) fn command(&mut self, command: Command) {
        match command {
            Command::Pause => self.paused = true,
            Command::Resume => self.paused = false,
            Command::ShutDown => self.closing = true,
            _ => (),
        }
        self.event(Event::Command(command));
    }

    /// The tracker tells by itself that something happened to these issues.
    pub(crate) fn delivered<const N: usize>(&mut self, names: [&str; N]) {
        self.event(Event::Delivered { issues: names.map(id).to_vec() });
    }

    /// Another valid file, read by the same tracker.
    pub(crate) fn reloads(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = (*self.configuration.settings).clone();
        change(&mut settings);
        self.configuration.settings = settings.into();
        self.reload(None);
    }

    pub(crate) fn scope(&self) -> String {
        self.configuration.scope.as_str().to_owned()
    }

    /// Another valid file that needs another tracker.
    pub(crate) fn reloads_tracker(&mut self, scope: &str) {
        let Generation(generation) = self.configuration.generation;
        self.configuration.generation = Generation(generation + 1);
        self.configuration.scope = scope.into();
        self.reload(None);
    }

    /// Another valid file, with another workspace root.
    pub(crate) fn reloads_root(&mut self, root: &str, workspaces: Workspaces) {
        let mut settings = (*self.configuration.settings).clone();
        settings.workspace.root = root.into();
        self.configuration.settings = settings.into();
        self.reload(Some(workspaces));
    }

    /// Another valid file, with a key that nothing reads.
    pub(crate) fn reloads_with_warning(&mut self, path: &str) {
        let warning = Problem::new(ProblemKind::UnknownKey, "is unknown and ignored");
        self.configuration.warnings = vec![warning.with_path(path)].into();
        self.reload(None);
    }

    /// The same file without that key.
    pub(crate) fn reloads_without_warnings(&mut self) {
        self.configuration.warnings = Default::default();
        self.reload(None);
    }

    fn reload(&mut self, workspaces: Option<Workspaces>) {
        self.broken = false;
        let configuration = self.configuration.clone();
        let claims = self.rows().claims;
        self.event(Event::Reloaded { configuration, workspaces, claims });
    }

    /// The file becomes invalid.
    pub(crate) fn file_breaks(&mut self, message: &str) {
        self.broken = true;
        self.event(Event::ReloadFailed {
            problems: vec![Problem::new(ProblemKind::InvalidSetting, message)],
        });
    }

    /// An embedder's job comes back.
    pub(crate) fn job_ends(&mut self, name: &str, outcome: Result<(), Failure>) {
        self.jobs.retain(|job| job != name);
        self.event(Event::JobEnded { name: name.into(), outcome });
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.orchestrator.is_drained()
    }
}
