//! The workflow file as people edit it: good, bad, and back again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{Configuration, Generation};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::{ActivitySettings, HostLimit};
use symphony_core::{HostId, Label, Scope, Settings, StateName, StateSet};

use crate::board::SCOPES;
use crate::faults::{Fault, Luck};
use crate::plan::Plan;
use crate::workspaces::ROOTS;

/// What the file says now.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) config: Configuration,
    pub(crate) scope: usize,
    pub(crate) root: usize,
    /// What the file as it stands will lead to when it is read.
    pub(crate) edited: Option<Edited>,
    pub(crate) luck: Luck,
}

/// A file that was edited and not yet read.
#[derive(Clone, Debug)]
pub(crate) enum Edited {
    Good { config: Configuration, scope: usize, root: usize },
    Bad(Vec<Problem>),
}

impl Files {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut luck = Luck::new(plan.seed, 6, plan.faults);
        let mut settings = plain();
        vary(&mut settings, &mut luck);
        let gap = luck.rng.pick(&[0, 0, 2_000]);
        let config = Configuration {
            settings: Arc::new(settings),
            generation: Generation(1),
            scope: Scope::from(SCOPES[0]),
            min_read_gap: Duration::from_millis(gap),
            warnings: Arc::default(),
        };
        Self { config, scope: 0, root: 0, edited: None, luck }
    }

    /// The name of the root in force.
    pub(crate) fn root_name(&self) -> &'static str {
        ROOTS[self.root]
    }

    /// A person edits the file. `live` is how many agents run now.
    pub(crate) fn edit(&mut self, live: u32) {
        if self.luck.strikes(Fault::ReloadBad, 250) {
            let message = self.luck.rng.pick(&["must be positive", "is no number"]);
            let problem = Problem::new(ProblemKind::InvalidSetting, message);
            self.edited = Some(Edited::Bad(vec![problem.with_path("agent.max_turns")]));
            return;
        }
        let mut config = self.config.clone();
        let mut settings = Settings::clone(&config.settings);
        let (mut scope, mut root) = (self.scope, self.root);
        self.change(&mut settings, live);
        if self.luck.strikes(Fault::RootChanged, 60) {
            root = 1 - root;
        }
        if self.luck.strikes(Fault::GenerationChanged, 200) {
            config.generation.0 += 1;
            if self.luck.strikes(Fault::ScopeChanged, 400) {
                scope = 1 - scope;
            }
        }
        settings.workspace.root = PathBuf::from(ROOTS[root]);
        config.scope = Scope::from(SCOPES[scope]);
        config.settings = Arc::new(settings);
        self.luck.tally.count(Fault::ReloadGood);
        self.edited = Some(Edited::Good { config, scope, root });
    }

    fn change(&mut self, settings: &mut Settings, live: u32) {
        let luck = &mut self.luck;
        if live > 1 && luck.strikes(Fault::LimitLowered, 300) {
            settings.agent.max_concurrent_agents = live / 2;
        } else {
            settings.agent.max_concurrent_agents =
                u32::try_from(luck.rng.between(1, 10)).unwrap_or(1);
        }
        if luck.strikes(Fault::StatesChanged, 200) {
            let active = luck.rng.pick(&[
                &["Todo", "In Progress"][..],
                &["In Progress", "Rework"],
                &["todo", "in progress", "Rework", "Review"],
            ]);
            settings.tracker.active_states = StateSet::new(active.iter().copied());
            let terminal = luck.rng.pick(&[
                &["Done", "Cancelled", "Closed"][..],
                &["Done", "Closed", "Review"],
                &["Done"],
            ]);
            settings.tracker.terminal_states = StateSet::new(terminal.iter().copied());
        }
        if luck.strikes(Fault::LabelsChanged, 150) {
            let labels = luck.rng.pick(&[&[][..], &["ready"], &["Other"], &[""]]);
            settings.tracker.required_labels =
                labels.iter().map(|label| Label::new(label)).collect();
        }
        if luck.strikes(Fault::IntervalsChanged, 300) {
            vary_intervals(settings, luck);
        }
        if luck.strikes(Fault::ActivityChanged, 150) {
            vary_activity(settings, luck);
        }
        if luck.strikes(Fault::HostsChanged, 150) {
            vary_hosts(settings, luck);
        }
        if luck.strikes(Fault::StallChanged, 150) {
            vary_stall(settings, luck);
        }
        if luck.strikes(Fault::BackoffChanged, 200) {
            vary_backoff(settings, luck);
        }
        if luck.strikes(Fault::KindChanged, 80) {
            let other = if settings.agent.kind == "codex" { "other" } else { "codex" };
            other.clone_into(&mut settings.agent.kind);
        }
        vary_states_limits(settings, luck);
    }

    /// The file of the calm tail, for this kind of agent: nothing in it keeps work back.
    pub(crate) fn mend(&mut self, agent: &str) {
        self.luck.calm();
        let mut settings = plain();
        agent.clone_into(&mut settings.agent.kind);
        settings.agent.max_concurrent_agents = 4;
        settings.polling.jobs.sweep = Duration::from_secs(600);
        settings.tracker.required_labels.clone_from(&self.config.settings.tracker.required_labels);
        settings.tracker.required_labels.retain(|label| !label.is_blank());
        // Workspaces stay where they are, and so must their hosts.
        settings.hosts = all_hosts(4);
        settings.workspace.root = PathBuf::from(ROOTS[0]);
        let mut config = self.config.clone();
        config.generation.0 += 1;
        config.scope = Scope::from(SCOPES[0]);
        config.settings = Arc::new(settings);
        self.edited = Some(Edited::Good { config, scope: 0, root: 0 });
    }
}

fn plain() -> Settings {
    let active = StateSet::new(["Todo", "In Progress"]);
    let terminal = StateSet::new(["Done", "Cancelled", "Closed"]);
    Settings::new("memory", active, terminal, PathBuf::from(ROOTS[0]))
}

fn vary(settings: &mut Settings, luck: &mut Luck) {
    vary_intervals(settings, luck);
    vary_backoff(settings, luck);
    vary_stall(settings, luck);
    vary_states_limits(settings, luck);
    settings.agent.max_concurrent_agents = u32::try_from(luck.rng.between(1, 10)).unwrap_or(1);
    settings.agent.max_turns = u32::try_from(luck.rng.between(1, 5)).unwrap_or(1);
    settings.tracker.timeout = Duration::from_secs(luck.rng.pick(&[5, 10, 30]));
    if luck.rng.per_mille(300) {
        vary_activity(settings, luck);
    }
    if luck.rng.per_mille(200) {
        vary_hosts(settings, luck);
    }
    if luck.rng.per_mille(300) {
        settings.tracker.required_labels = vec![Label::new("Ready")];
    }
}

fn vary_intervals(settings: &mut Settings, luck: &mut Luck) {
    settings.polling.interval = Duration::from_secs(luck.rng.pick(&[5, 15, 30, 30, 60, 120]));
    settings.polling.jobs.candidates =
        luck.rng.pick(&[None, None, Some(20), Some(300)]).map(Duration::from_secs);
    settings.polling.jobs.refresh =
        luck.rng.pick(&[None, None, Some(7), Some(90)]).map(Duration::from_secs);
    settings.polling.jobs.sweep = Duration::from_secs(luck.rng.pick(&[60, 600, 3600]));
}

fn vary_activity(settings: &mut Settings, luck: &mut Luck) {
    settings.polling.activity = match luck.rng.below(3) {
        0 => None,
        1 => Some(ActivitySettings::default()),
        _ => Some(ActivitySettings {
            idle_after: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            dormant_after: Duration::from_secs(300),
            dormant: Duration::from_secs(240),
        }),
    };
}

fn vary_hosts(settings: &mut Settings, luck: &mut Luck) {
    settings.hosts = match luck.rng.below(3) {
        0 => Vec::new(),
        1 => all_hosts(1),
        _ => vec![
            HostLimit { id: HostId::local(), max_agents: 2 },
            HostLimit { id: HostId::from("far"), max_agents: 1 },
        ],
    };
}

fn all_hosts(max_agents: u32) -> Vec<HostLimit> {
    ["local", "far", "away"]
        .iter()
        .map(|name| HostLimit { id: HostId::from(*name), max_agents })
        .collect()
}

fn vary_stall(settings: &mut Settings, luck: &mut Luck) {
    settings.agent.common.stall_timeout =
        luck.rng.pick(&[None, Some(45), Some(120), Some(300)]).map(Duration::from_secs);
}

fn vary_backoff(settings: &mut Settings, luck: &mut Luck) {
    settings.agent.max_retry_backoff = Duration::from_secs(luck.rng.pick(&[3, 25, 300, 300, 3600]));
}

fn vary_states_limits(settings: &mut Settings, luck: &mut Luck) {
    let mut limits = BTreeMap::new();
    if luck.rng.per_mille(300) {
        limits.insert(StateName::from("in progress"), luck.rng.pick(&[1, 2, 3]));
    }
    if luck.rng.per_mille(150) {
        limits.insert(StateName::from("TODO"), luck.rng.pick(&[1, 2]));
    }
    settings.agent.max_concurrent_agents_by_state = limits;
}
