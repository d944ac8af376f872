//! `symphony prompt`: what an agent would be told about an issue.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
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
    let found = super::find_issue(usable.tracker.as_ref(), &args.issue);
    let Some(issue) = super::tokio()?.block_on(found)? else {
        bail!("{} does not exist in the scope of the tracker", args.issue);
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
