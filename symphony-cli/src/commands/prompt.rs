//! `symphony prompt`: what an agent would be told about an issue.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use symphony_core::tracker::{Tracker, TrackerExt as _};
use symphony_core::{Issue, IssueId, Settings};
use symphony_runtime::{Usable, inspect};
use symphony_workflow::prompt::{PromptInput, continuation};

use crate::args::PromptArgs;
use crate::{adapters, report};

pub(crate) fn prompt(args: &PromptArgs) -> anyhow::Result<ExitCode> {
    let Some(usable) = load(&args.workflow) else {
        return Ok(ExitCode::FAILURE);
    };
    let settings = usable.settings();
    super::touch_activity_file(settings);
    let tracker = usable.tracker.as_ref();
    let found = super::tokio()?.block_on(find(tracker, settings, &args.issue))?;
    let Some(issue) = found else {
        bail!("{} is neither among the active nor among the finished issues", args.issue);
    };
    let max_turns = settings.agent.max_turns;
    let text = if args.turn > 1 {
        continuation(args.turn, max_turns)
    } else {
        let input = PromptInput { issue: &issue, attempt: args.attempt, turn: 1, max_turns };
        usable.workflow.prompt.render(&input).with_context(|| {
            format!(
                "the prompt of {} cannot be rendered for {}",
                args.workflow.display(),
                args.issue
            )
        })?
    };
    let mut out = std::io::stdout().lock();
    // It holds text from the tracker. A file or another program gets it as the agent does.
    writeln!(out, "{}", if out.is_terminal() { report::for_a_screen(&text) } else { text })?;
    Ok(ExitCode::SUCCESS)
}

/// The workflow, or its problems on standard error.
fn load(path: &Path) -> Option<Usable> {
    let inspection = inspect(path, &adapters::registry());
    if inspection.usable.is_none() {
        report::to_stderr(path, &inspection.text, &inspection.problems);
    }
    inspection.usable
}

/// By the tracker's id, else by its identifier among the issues that matter.
async fn find(
    tracker: &dyn Tracker,
    settings: &Settings,
    wanted: &str,
) -> anyhow::Result<Option<Issue>> {
    let id = IssueId::from(wanted);
    let by_id = tracker.fetch_issues_by_ids(std::slice::from_ref(&id)).await?;
    if let Some(issue) = by_id.found.into_iter().find(|issue| issue.id == id) {
        return Ok(Some(issue));
    }
    for states in [&settings.tracker.active_states, &settings.tracker.terminal_states] {
        let issues = tracker.fetch_issues_by_states(states).await?;
        let named = |issue: &Issue| issue.identifier.as_str().eq_ignore_ascii_case(wanted);
        if let Some(issue) = issues.into_iter().find(named) {
            return Ok(Some(issue));
        }
    }
    Ok(None)
}
