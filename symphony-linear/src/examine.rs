//! What `symphony check` tells of Linear: whose key it is, what is there, and what is left.

use cynic::QueryBuilder;
use symphony_core::budget::Spender;
use symphony_core::finding::Finding;
use symphony_core::policy::{missing_label, open_blocker};
use symphony_core::tracker::Purpose;
use symphony_core::{Issue, Label, StateName};

use crate::complexity;
use crate::error::LinearError;
use crate::queries::{self, IssueLabelFilter, StringComparator, SurveyVariables};
use crate::tracker::LinearTracker;

/// Asks Linear, in two requests where the issues fit on a page. What could not be asked is told,
/// and what was is told all the same.
pub(crate) async fn examine(tracker: &LinearTracker) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = ask(tracker, &mut findings).await {
        findings.push(match error {
            LinearError::Unauthorized { .. } => Finding::wrong("key", error.to_string()),
            LinearError::Scope(_) => Finding::wrong("scope", error.to_string()),
            _ => Finding::doubtful("linear", error.to_string()),
        });
    }
    findings
}

async fn ask(tracker: &LinearTracker, findings: &mut Vec<Finding>) -> Result<(), LinearError> {
    let settings = &tracker.config.tracker;
    let variables = SurveyVariables { labels: named(&settings.required_labels) };
    let operation = queries::Survey::build(variables);
    let spender = Spender::Read(Purpose::Check);
    let (points, time) = (complexity::SURVEY_POINTS, settings.timeout);
    let answer: queries::Survey = tracker.client.run(&spender, points, time, &operation).await?;
    findings.push(Finding::fine("key of", owner(&answer)));
    findings.extend(labels(&settings.required_labels, &answer));
    let issues = tracker.list(&settings.active_states).await?;
    findings.extend(surroundings(tracker));
    findings.push(Finding::fine("issues", count(tracker, &issues)));
    findings.push(Finding::fine("left", budget(tracker)));
    Ok(())
}

/// No names match no label.
fn named(labels: &[Label]) -> IssueLabelFilter {
    let name = |text: &str| IssueLabelFilter {
        name: Some(StringComparator::like(text)),
        ..IssueLabelFilter::default()
    };
    match labels {
        [] => IssueLabelFilter {
            name: Some(StringComparator::one_of(Vec::new())),
            ..IssueLabelFilter::default()
        },
        labels => IssueLabelFilter {
            or: Some(labels.iter().map(|label| name(label.as_str())).collect()),
            ..IssueLabelFilter::default()
        },
    }
}

fn owner(answer: &queries::Survey) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (name, email) = (text(&answer.viewer.name), text(&answer.viewer.email));
    format!("{name} <{email}>, in {}", text(&answer.organization.name))
}

fn surroundings(tracker: &LinearTracker) -> Vec<Finding> {
    let found = tracker.surroundings();
    let mut findings = Vec::new();
    findings.extend(found.project.clone().map(|name| Finding::fine("project", name)));
    findings.extend(found.team.clone().map(|name| Finding::fine("team", name)));
    findings.push(Finding::fine("states", found.known()));
    let unknown = tracker.doubtful_states(&found);
    findings.extend(unknown.into_iter().map(|name: &StateName| {
        Finding::doubtful("states", format!("no workflow state is called {:?}", name.as_str()))
    }));
    findings
}

fn labels(required: &[Label], answer: &queries::Survey) -> Vec<Finding> {
    let names = answer.issue_labels.nodes.iter().filter_map(|label| label.name.as_deref());
    let known = Label::list(names);
    let judge = |label: &Label| match known.contains(label) {
        true => Finding::fine("label", label.as_str()),
        false => Finding::doubtful("label", format!("no label is called {:?}", label.as_str())),
    };
    required.iter().map(judge).collect()
}

/// How many could start now, and why others could not.
fn count(tracker: &LinearTracker, issues: &[Issue]) -> String {
    let settings = &tracker.config.tracker;
    let (mut ready, mut others, mut unlabelled, mut blocked) = (0, 0, 0, 0);
    for issue in issues {
        let counter = if !issue.dispatchable {
            &mut others
        } else if missing_label(issue, settings).is_some() {
            &mut unlabelled
        } else if open_blocker(issue, settings).is_some() {
            &mut blocked
        } else {
            &mut ready
        };
        *counter += 1;
    }
    let mut text = format!("{ready} could start now, of {} in active states", issues.len());
    let reasons = [
        (blocked, "blocked"),
        (unlabelled, "without a required label"),
        (others, "not assigned as the file wants"),
    ];
    for (number, why) in reasons.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("; {number} {why}");
    }
    text
}

fn budget(tracker: &LinearTracker) -> String {
    let view = tracker.client.view();
    let part = |left: Option<u64>, limit: Option<u64>, what| match (left, limit) {
        (Some(left), Some(limit)) => Some(format!("{left} of {limit} {what}")),
        _ => None,
    };
    let parts = [
        part(view.requests_left, view.requests_limit, "requests"),
        part(view.points_left, view.points_limit, "points"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "Linear did not say what is left".to_owned()
    } else {
        format!("{} left in this hour", parts.join(" and "))
    }
}
