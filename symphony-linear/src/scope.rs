//! Whether the project and the team exist, and the states that the workflow file names.

use std::collections::BTreeSet;

use symphony_core::{StateName, StateSet};

use crate::board::Board;
use crate::error::LinearError;
use crate::queries::{Poll, STATES_PER_TEAM, State, States, TEAMS_PER_PROJECT, Team};

/// What Linear says of the scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The project's name.
    pub(crate) project: Option<String>,
    /// The team's name.
    pub(crate) team: Option<String>,
    /// The names of workflow states, in Linear's spelling.
    pub(crate) states: Vec<StateName>,
    /// Whether these are all.
    pub(crate) complete: bool,
}

impl Surroundings {
    /// Reads them off the answer to a poll that asked for them.
    pub(crate) fn read(board: &Board, poll: &Poll) -> Result<Self, LinearError> {
        let mut found = Self { complete: true, ..Self::default() };
        if let Some(slug) = &board.project {
            let project = poll.projects.as_ref().and_then(|page| page.nodes.first());
            let project = project.ok_or_else(|| missing("project_slug", "project", slug))?;
            found.project = Some(project.name.clone().unwrap_or_default());
            // Where a team is named too, its states are those that count.
            if let (Some(teams), None) = (&project.teams, &board.team) {
                found.complete &= is_all(teams.nodes.len(), TEAMS_PER_PROJECT);
                teams.nodes.iter().for_each(|team| found.add(team));
            }
        }
        if let Some(key) = &board.team {
            let team = poll.teams.as_ref().and_then(|page| page.nodes.first());
            let team = team.ok_or_else(|| missing("team_key", "team", key))?;
            found.team = Some(team.name.clone().unwrap_or_default());
            found.add(team);
        }
        Ok(found)
    }

    fn add(&mut self, team: &Team) {
        let Some(States { nodes }) = &team.states else { return };
        self.complete &= is_all(nodes.len(), STATES_PER_TEAM);
        for State { name, .. } in nodes {
            let name = StateName::new(name.as_deref().unwrap_or_default());
            if !name.is_blank() && !self.states.contains(&name) {
                self.states.push(name);
            }
        }
    }

    /// Those of the names that no workflow state has.
    pub(crate) fn unknown<'n>(&self, names: &'n StateSet) -> Vec<&'n StateName> {
        let known: BTreeSet<&StateName> = self.states.iter().collect();
        let unknown = names.names().iter().filter(|name| !known.contains(name));
        unknown.filter(|_| self.complete).collect()
    }

    /// The names there are, for people.
    pub(crate) fn known(&self) -> String {
        let names: Vec<&str> = self.states.iter().map(StateName::as_str).collect();
        names.join(", ")
    }
}

/// A full page may not be the last.
fn is_all(count: usize, page: i32) -> bool {
    i32::try_from(count).is_ok_and(|count| count < page)
}

fn missing(key: &str, what: &str, name: &str) -> LinearError {
    LinearError::Scope(format!(
        "tracker.provider.{key}: Linear has no {what} {name:?} that this key can see"
    ))
}
