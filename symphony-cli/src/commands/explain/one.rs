//! The one reason of one issue that is not a candidate: it is read once, and judged by the rules
//! that the scheduler has.

use anyhow::{Context as _, bail};
use symphony_core::policy::{self, Standing};
use symphony_core::{Issue, Settings, StateName};
use symphony_runtime::OpenTracker;

use super::super::find_issue;

/// What an issue is said to be here, beside the stages that the API names.
pub(super) const NOT_CANDIDATE: &str = "not_candidate";

/// A state this close to a misspelt one was meant.
const MIN_LIKENESS: f64 = 0.6;

/// Why an issue is where it is: in a word, and for people after its identifier.
pub(super) struct IssueReason<'a> {
    pub(super) identifier: String,
    pub(super) code: &'a str,
    pub(super) text: String,
}

/// Whether what agents change stays in the service, so that the file tells less than the service:
/// a board of the memory tracker that is written into the workflow file.
pub(super) fn is_kept_by_service(open: &OpenTracker) -> bool {
    let tracker = &open.settings.tracker;
    tracker.kind == "memory" && !tracker.provider.raw().contains_key("board")
}

/// Reads an issue and says why it is not worked on.
pub(super) async fn explain(
    open: &OpenTracker,
    name: &str,
) -> anyhow::Result<IssueReason<'static>> {
    let found = find_issue(open.tracker.as_ref(), name).await;
    let Some(issue) = found.context("the tracker cannot be read")? else {
        bail!("{name} does not exist in the scope of the tracker");
    };
    let (code, text) = judge(open, &issue).await?;
    Ok(IssueReason { identifier: issue.identifier.as_str().to_owned(), code, text })
}

async fn judge(open: &OpenTracker, issue: &Issue) -> anyhow::Result<(&'static str, String)> {
    let settings = &open.settings;
    let tracker = &settings.tracker;
    let state = issue.state.as_str();
    Ok(match policy::standing(issue, tracker) {
        Standing::Terminal => ("terminal", format!("is over: {state}")),
        Standing::Inactive if !tracker.active_states.contains(&issue.state) => {
            ("not_active", inactive(&issue.state, settings))
        }
        Standing::Inactive if !issue.dispatchable => {
            let rule = issue.kept_back_by.as_ref().map(|rule| format!(": {rule}"));
            let rule = rule.unwrap_or_default();
            ("not_dispatchable", format!("is kept back by the tracker's rules{rule}"))
        }
        Standing::Inactive => {
            let label = policy::missing_label(issue, tracker);
            let label = label.map_or("", |label| label.as_str());
            ("missing_label", format!("lacks the label {label:?} of tracker.required_labels"))
        }
        Standing::Active => match blocked(open, issue).await? {
            Some(text) => ("blocked_by", format!("is {text}")),
            None => ("next_read", "may start: it will be seen with the next poll".to_owned()),
        },
    })
}

fn inactive(state: &StateName, settings: &Settings) -> String {
    let tracker = &settings.tracker;
    let text = format!("is in `{}`, which is neither active nor terminal", state.as_str());
    let known = tracker.active_states.names().iter().chain(tracker.terminal_states.names());
    let likeness =
        |name: &StateName| strsim::normalized_damerau_levenshtein(state.key(), name.key());
    let closest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match closest.filter(|name| likeness(name) >= MIN_LIKENESS) {
        Some(name) => format!("{text}; did you mean `{}`?", name.as_str()),
        None => text,
    }
}

/// What keeps an issue from its start, and where that stands.
pub(super) async fn blocked(open: &OpenTracker, issue: &Issue) -> anyhow::Result<Option<String>> {
    let Some(blocker) = policy::open_blocker(issue, &open.settings.tracker) else {
        return Ok(None);
    };
    let name = blocker.identifier.as_ref().map(|name| name.as_str());
    let name = name.or(blocker.id.as_ref().map(|id| id.as_str())).unwrap_or("an unknown issue");
    let state = match &blocker.state {
        Some(state) => Some(state.clone()),
        None => find_issue(open.tracker.as_ref(), name).await?.map(|blocker| blocker.state),
    };
    Ok(Some(match state {
        Some(state) => format!("blocked by {name}, which is in `{}`", state.as_str()),
        None => format!("blocked by {name}, which does not exist"),
    }))
}
