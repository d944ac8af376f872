//! Which part of Linear is ours: a project, a team, or what both have in common.

use symphony_core::{StateKind, StateSet};

use crate::normal;
use crate::queries::{
    Issue, IssueFilter, NullableProjectFilter, ProjectFilter, StringComparator, TeamFilter,
    WorkflowStateFilter,
};

/// The scope of a tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Board {
    /// As the file spells it.
    pub(crate) project: Option<String>,
    /// The key of a team.
    pub(crate) team: Option<String>,
}

impl Board {
    /// Its name in records and state files.
    pub(crate) fn name(&self) -> String {
        let part = |what, name: &Option<String>| name.as_ref().map(|name| format!("{what}:{name}"));
        let parts = [part("project", &self.project), part("team", &self.team)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Linear's id of the project is the end of what stands in its address, and people copy either.
    fn slugs(&self) -> Option<Vec<String>> {
        let slug = self.project.as_ref()?;
        let mut slugs = vec![slug.clone()];
        slugs.extend(slug.rsplit_once('-').map(|(_, id)| id.to_owned()));
        Some(slugs)
    }

    pub(crate) fn project_filter(&self) -> Option<ProjectFilter> {
        let slug_id = Some(StringComparator::one_of(self.slugs()?));
        Some(ProjectFilter { slug_id })
    }

    pub(crate) fn team_filter(&self) -> Option<TeamFilter> {
        let key = Some(StringComparator::like(self.team.as_deref()?));
        Some(TeamFilter { key })
    }

    /// The issues of the scope in these states, whatever their case.
    pub(crate) fn filter(&self, states: &StateSet) -> IssueFilter {
        let project = self.project_filter().map(|ProjectFilter { slug_id }| slug_id);
        let name = |name: &str| Some(StringComparator::like(name.trim()));
        let named = |state: &symphony_core::StateName| WorkflowStateFilter {
            name: name(state.as_str()),
            or: None,
        };
        let states = states.names().iter().map(named).collect();
        IssueFilter {
            project: project.map(|slug_id| NullableProjectFilter { slug_id }),
            state: Some(WorkflowStateFilter { name: None, or: Some(states) }),
            team: self.team_filter(),
            ..IssueFilter::default()
        }
    }

    /// Whether an issue is ours. What was trashed or moved away is not; what was put into the
    /// archive when it was over is.
    pub(crate) fn holds(&self, issue: &Issue) -> bool {
        let slug = issue.project.as_ref().and_then(|project| project.slug_id.as_deref());
        let key = issue.team.as_ref().and_then(|team| team.key.as_deref());
        let in_project =
            self.slugs().is_none_or(|slugs| slugs.iter().any(|ours| Some(ours.as_str()) == slug));
        let in_team = self
            .team
            .as_ref()
            .is_none_or(|ours| key.is_some_and(|key| key.eq_ignore_ascii_case(ours)));
        let kind = issue.state.as_ref().and_then(normal::kind);
        let is_over = matches!(kind, Some(StateKind::Completed | StateKind::Cancelled));
        let is_trash = issue.trashed == Some(true) || (issue.archived_at.is_some() && !is_over);
        in_project && in_team && !is_trash
    }
}
