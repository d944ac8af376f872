//! From Linear's record to an issue as Symphony knows it (contract section 1).

use serde_json::{Map, Value};
use symphony_core::time::Wall;
use symphony_core::{Blocker, Identifier, Issue, IssueId, Label, StateKind, StateName};

use crate::queries;

/// The user that an issue must be assigned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedAssignee {
    /// The owner of the key: Linear says of each user whether that is it, so nothing is looked up.
    Me,
    /// A user's id.
    Id(String),
    /// A user's email address.
    Email(String),
}

impl WantedAssignee {
    fn matches(&self, user: &queries::Assignee) -> bool {
        match self {
            Self::Me => user.is_me == Some(true),
            Self::Id(id) => user.id.as_ref().is_some_and(|found| found.inner() == id),
            Self::Email(email) => {
                user.email.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(email))
            }
        }
    }
}

/// A record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) id: IssueId,
    pub(crate) message: String,
}

/// The id of a record; empty where it has none.
pub(crate) fn id(node: &queries::Issue) -> &str {
    node.id.as_ref().map_or("", |id| id.inner())
}

/// Whether labels or relations may go on beyond what came with the record.
pub(crate) fn overflows(node: &queries::Issue, labels: i32, relations: i32) -> bool {
    let full = |count: usize, most: i32| i32::try_from(count).is_ok_and(|count| count >= most);
    node.labels.as_ref().is_some_and(|page| full(page.nodes.len(), labels))
        || node.inverse_relations.as_ref().is_some_and(|page| full(page.nodes.len(), relations))
}

/// Whether every part came that decides what becomes of the issue. Linear promises them all: without
/// one nothing can be said, least of all that the issue is no longer ours.
pub(crate) const fn is_whole(node: &queries::Issue) -> bool {
    node.labels.is_some() && node.inverse_relations.is_some() && node.team.is_some()
}

/// The issue in a record. Without an id, an identifier, a title or a state it is none (1.3), and
/// with half of its labels or blockers it would be another one.
pub(crate) fn issue(node: queries::Issue, wanted: Option<&WantedAssignee>) -> Result<Issue, Flaw> {
    let flaw = |message: String| Flaw { id: IssueId::from(id(&node)), message };
    if overflows(&node, queries::REST_PAGE_SIZE, queries::REST_PAGE_SIZE) {
        let most = queries::REST_PAGE_SIZE;
        return Err(flaw(format!("the issue has {most} labels or relations, or more")));
    }
    if !is_whole(&node) {
        return Err(flaw("the record lacks its labels, its relations or its team".to_owned()));
    }
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    let state = node.state.as_ref();
    let name = state.map(|state| text(&state.name)).unwrap_or_default();
    let mut issue = Issue::new(id(&node), &text(&node.identifier), &text(&node.title), &name)
        .map_err(|malformed| flaw(malformed.to_string()))?;
    issue.state_kind = state.and_then(kind);
    issue.priority = node.priority.and_then(priority);
    issue.created_at = node.created_at.and_then(|at| Wall::parse(&at.0));
    issue.updated_at = node.updated_at.and_then(|at| Wall::parse(&at.0));
    issue.dispatchable = match (wanted, &node.assignee) {
        (None, _) => true,
        (Some(wanted), Some(user)) => wanted.matches(user),
        (Some(_), None) => false,
    };
    issue.kept_back_by =
        (!issue.dispatchable).then(|| "it is not assigned to tracker.provider.assignee".to_owned());
    let labels = node.labels.into_iter().flat_map(|page| page.nodes);
    issue.labels = Label::list(labels.filter_map(|label| label.name));
    let relations = node.inverse_relations.into_iter().flat_map(|page| page.nodes);
    issue.blocked_by = relations.filter_map(blocker).collect();
    issue.description = node.description.filter(|text| !text.is_empty());
    issue.branch_name = node.branch_name.filter(|text| !text.is_empty());
    issue.url = node.url.filter(|text| !text.is_empty());
    issue.assignee_id = node.assignee.and_then(|user| user.id).map(cynic::Id::into_inner);
    let team = node.team.and_then(|team| team.id);
    issue.native_ref =
        team.map(|id| Map::from_iter([("team_id".to_owned(), Value::String(id.into_inner()))]));
    Ok(issue)
}

/// Linear counts 1 to 4, and 0 is none.
fn priority(number: f64) -> Option<i64> {
    (1..=4).find(|rank: &i32| (f64::from(*rank) - number).abs() < 0.5).map(i64::from)
}

/// What a state means.
pub(crate) fn kind(state: &queries::State) -> Option<StateKind> {
    match state.kind.as_deref()? {
        "triage" | "backlog" => Some(StateKind::Backlog),
        "unstarted" => Some(StateKind::Unstarted),
        "started" => Some(StateKind::Started),
        "completed" => Some(StateKind::Completed),
        "canceled" | "cancelled" | "duplicate" => Some(StateKind::Cancelled),
        _ => None,
    }
}

/// The issue at the other end of a relation that blocks this one. In the trash it blocks nothing;
/// what cannot be seen is not known to be done (5.2).
fn blocker(relation: queries::Relation) -> Option<Blocker> {
    if relation.kind.as_deref() != Some("blocks") {
        return None;
    }
    let Some(issue) = relation.issue else { return Some(Blocker::default()) };
    (issue.trashed != Some(true)).then(|| Blocker {
        id: issue.id.map(|id| IssueId::from(id.into_inner())),
        identifier: issue.identifier.map(Identifier::from),
        state_kind: issue.state.as_ref().and_then(kind),
        state: issue.state.and_then(|state| state.name).map(StateName::new),
    })
}
