//! What is asked of Linear: one document for a whole poll, with variables only.

#![expect(unused_qualifications, reason = "the derives write them")]

use cynic::{Id, InputObject, QueryFragment, QueryVariables, Scalar};

mod schema {
    cynic::use_schema!("schema.graphql");
}

/// Labels of an issue in the first answer. Where there are as many, more are asked for: that is
/// cheaper than to ask of every issue whether there are more.
pub(crate) const LABELS_PER_ISSUE: i32 = 10;
/// Relations of an issue in the first answer.
pub(crate) const RELATIONS_PER_ISSUE: i32 = 10;
/// Both, in a [`Rest`]. An issue that has as many cannot be read.
pub(crate) const REST_PAGE_SIZE: i32 = 250;
/// Teams of a project, and states of a team.
pub(crate) const TEAMS_PER_PROJECT: i32 = 10;
pub(crate) const STATES_PER_TEAM: i32 = 30;

/// An instant, as Linear writes it.
#[derive(Clone, Debug, Scalar)]
#[cynic(graphql_type = "DateTime")]
pub(crate) struct DateTime(pub(crate) String);

/// A whole poll. Parts that are not wanted are left out by the server, and are as small as can be.
#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Query", variables = "PollVariables")]
pub(crate) struct Poll {
    #[cynic(rename = "issues", alias)]
    #[arguments(filter: $candidates, first: $candidates_first, after: $after, sort: $sort)]
    #[directives(include(if: $ask_candidates))]
    pub(crate) candidates: Option<IssuePage>,
    #[cynic(rename = "issues", alias)]
    #[arguments(filter: $claimed, first: $claimed_first, includeArchived: true)]
    #[directives(include(if: $ask_claimed))]
    pub(crate) claimed: Option<IssuePage>,
    #[arguments(filter: $project, first: 1)]
    #[directives(include(if: $ask_project))]
    pub(crate) projects: Option<Projects>,
    #[arguments(filter: $team, first: 1)]
    #[directives(include(if: $ask_team))]
    pub(crate) teams: Option<Teams>,
}

#[derive(Clone, Debug, QueryVariables)]
pub(crate) struct PollVariables {
    pub(crate) ask_candidates: bool,
    pub(crate) candidates: IssueFilter,
    pub(crate) candidates_first: i32,
    pub(crate) after: Option<String>,
    pub(crate) sort: Option<Vec<IssueSortInput>>,
    pub(crate) ask_claimed: bool,
    pub(crate) claimed: IssueFilter,
    pub(crate) claimed_first: i32,
    pub(crate) ask_project: bool,
    pub(crate) project: ProjectFilter,
    pub(crate) ask_team: bool,
    pub(crate) team: TeamFilter,
}

impl PollVariables {
    /// A poll for nothing: every part is left out, and as small as can be, should the server count
    /// it all the same.
    pub(crate) fn nothing() -> Self {
        let none = || Some(StringComparator::one_of(Vec::new()));
        Self {
            ask_candidates: false,
            candidates: IssueFilter::ids([]),
            candidates_first: 1,
            after: None,
            sort: None,
            ask_claimed: false,
            claimed: IssueFilter::ids([]),
            claimed_first: 1,
            ask_project: false,
            project: ProjectFilter { slug_id: none() },
            ask_team: false,
            team: TeamFilter { key: none() },
        }
    }
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueConnection")]
pub(crate) struct IssuePage {
    pub(crate) nodes: Vec<Issue>,
    pub(crate) page_info: PageInfo,
}

#[derive(Debug, QueryFragment)]
pub(crate) struct PageInfo {
    pub(crate) has_next_page: bool,
    pub(crate) end_cursor: Option<String>,
}

#[derive(Debug, QueryFragment)]
pub(crate) struct Issue {
    pub(crate) id: Option<Id>,
    pub(crate) identifier: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) priority: Option<f64>,
    pub(crate) branch_name: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) created_at: Option<DateTime>,
    pub(crate) updated_at: Option<DateTime>,
    pub(crate) archived_at: Option<DateTime>,
    pub(crate) trashed: Option<bool>,
    pub(crate) assignee: Option<Assignee>,
    pub(crate) project: Option<ProjectSlug>,
    pub(crate) team: Option<TeamKey>,
    pub(crate) state: Option<State>,
    #[arguments(first: 10)]
    pub(crate) labels: Option<Labels>,
    #[arguments(first: 10)]
    pub(crate) inverse_relations: Option<Relations>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "User")]
pub(crate) struct Assignee {
    pub(crate) id: Option<Id>,
    pub(crate) email: Option<String>,
    pub(crate) is_me: Option<bool>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Project")]
pub(crate) struct ProjectSlug {
    pub(crate) slug_id: Option<String>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Team")]
pub(crate) struct TeamKey {
    pub(crate) id: Option<Id>,
    pub(crate) key: Option<String>,
}

#[derive(Clone, Debug, QueryFragment)]
#[cynic(graphql_type = "WorkflowState")]
pub(crate) struct State {
    pub(crate) name: Option<String>,
    #[cynic(rename = "type")]
    pub(crate) kind: Option<String>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueLabelConnection")]
pub(crate) struct Labels {
    pub(crate) nodes: Vec<LabelName>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueLabel")]
pub(crate) struct LabelName {
    pub(crate) name: Option<String>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueRelationConnection")]
pub(crate) struct Relations {
    pub(crate) nodes: Vec<Relation>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueRelation")]
pub(crate) struct Relation {
    #[cynic(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) issue: Option<RelatedIssue>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Issue")]
pub(crate) struct RelatedIssue {
    pub(crate) id: Option<Id>,
    pub(crate) identifier: Option<String>,
    pub(crate) trashed: Option<bool>,
    pub(crate) state: Option<State>,
}

/// Labels and relations of issues that have more than fit beside them.
#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Query", variables = "RestVariables")]
pub(crate) struct Rest {
    #[arguments(filter: $filter, first: $first, includeArchived: true)]
    pub(crate) issues: RestPage,
}

#[derive(Clone, Debug, QueryVariables)]
pub(crate) struct RestVariables {
    pub(crate) filter: IssueFilter,
    pub(crate) first: i32,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueConnection")]
pub(crate) struct RestPage {
    pub(crate) nodes: Vec<RestIssue>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Issue")]
pub(crate) struct RestIssue {
    pub(crate) id: Option<Id>,
    #[arguments(first: 250)]
    pub(crate) labels: Option<Labels>,
    #[arguments(first: 250)]
    pub(crate) inverse_relations: Option<Relations>,
}

/// What `symphony check` wants to know of the credential and the labels.
#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "Query", variables = "SurveyVariables")]
pub(crate) struct Survey {
    pub(crate) viewer: Viewer,
    pub(crate) organization: Organization,
    #[arguments(filter: $labels, first: 250)]
    pub(crate) issue_labels: LabelNames,
}

#[derive(Clone, Debug, QueryVariables)]
pub(crate) struct SurveyVariables {
    pub(crate) labels: IssueLabelFilter,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "User")]
pub(crate) struct Viewer {
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
}

#[derive(Debug, QueryFragment)]
pub(crate) struct Organization {
    pub(crate) name: Option<String>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "IssueLabelConnection")]
pub(crate) struct LabelNames {
    pub(crate) nodes: Vec<LabelName>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "ProjectConnection")]
pub(crate) struct Projects {
    pub(crate) nodes: Vec<Project>,
}

#[derive(Debug, QueryFragment)]
pub(crate) struct Project {
    pub(crate) name: Option<String>,
    #[arguments(first: 10)]
    pub(crate) teams: Option<Teams>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "TeamConnection")]
pub(crate) struct Teams {
    pub(crate) nodes: Vec<Team>,
}

#[derive(Debug, QueryFragment)]
pub(crate) struct Team {
    pub(crate) name: Option<String>,
    #[arguments(first: 30)]
    pub(crate) states: Option<States>,
}

#[derive(Debug, QueryFragment)]
#[cynic(graphql_type = "WorkflowStateConnection")]
pub(crate) struct States {
    pub(crate) nodes: Vec<State>,
}

/// A filter never has a null in it: what is absent is not sent, because `in: null` may match all.
#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct IssueFilter {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<IssueIdComparator>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<NumberComparator>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<NullableProjectFilter>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<WorkflowStateFilter>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) team: Option<TeamFilter>,
}

impl IssueFilter {
    /// These issues. No ids match no issue.
    pub(crate) fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let ids = ids.into_iter().map(Id::new).collect();
        Self { id: Some(IssueIdComparator { r#in: Some(ids) }), ..Self::default() }
    }

    /// One issue as people name it: by its identifier, which is a team's key and a number, or else
    /// by its id.
    pub(crate) fn name(name: &str) -> Self {
        let number = name.split_once('-').and_then(|(key, number)| {
            let number: u32 = number.parse().ok()?;
            Some((StringComparator::like(key), f64::from(number)))
        });
        match number {
            Some((key, number)) => Self {
                number: Some(NumberComparator { eq: Some(number) }),
                team: Some(TeamFilter { key: Some(key) }),
                ..Self::default()
            },
            None => Self::ids([name]),
        }
    }
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct NumberComparator {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) eq: Option<f64>,
}

#[derive(Clone, Debug, InputObject)]
#[cynic(graphql_type = "IssueIDComparator")]
pub(crate) struct IssueIdComparator {
    #[cynic(rename = "in", skip_serializing_if = "Option::is_none")]
    pub(crate) r#in: Option<Vec<Id>>,
}

#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct StringComparator {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) eq_ignore_case: Option<String>,
    #[cynic(rename = "in", skip_serializing_if = "Option::is_none")]
    pub(crate) r#in: Option<Vec<String>>,
}

impl StringComparator {
    pub(crate) fn one_of(texts: Vec<String>) -> Self {
        Self { r#in: Some(texts), ..Self::default() }
    }

    pub(crate) fn like(text: &str) -> Self {
        Self { eq_ignore_case: Some(text.to_owned()), ..Self::default() }
    }
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct NullableProjectFilter {
    pub(crate) slug_id: Option<StringComparator>,
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct ProjectFilter {
    pub(crate) slug_id: Option<StringComparator>,
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct TeamFilter {
    pub(crate) key: Option<StringComparator>,
}

#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct WorkflowStateFilter {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<StringComparator>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) or: Option<Vec<WorkflowStateFilter>>,
}

#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct IssueLabelFilter {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<StringComparator>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) or: Option<Vec<IssueLabelFilter>>,
}

#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct IssueSortInput {
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<CreatedAtSort>,
    #[cynic(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<PrioritySort>,
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct CreatedAtSort {
    pub(crate) order: Option<PaginationSortOrder>,
}

#[derive(Clone, Debug, InputObject)]
pub(crate) struct PrioritySort {
    pub(crate) no_priority_first: Option<bool>,
    pub(crate) order: Option<PaginationSortOrder>,
    pub(crate) use_priority_sort_order_tiebreaker: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, cynic::Enum)]
#[cynic(rename_all = "None")]
pub(crate) enum PaginationSortOrder {
    Ascending,
    Descending,
}
