//! `symphony check`: everything that is wrong or doubtful in a workflow file.

mod budget;

use std::io::Write as _;
use std::process::ExitCode;

use anstream::stdout;
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use symphony_core::finding::{Finding, Severity};
use symphony_core::problem::Problem;
use symphony_runtime::{Usable, inspect, plain};

use crate::args::CheckArgs;
use crate::{adapters, report};

/// How much of one value is shown.
const MAX_VALUE_BYTES: usize = 1024;

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let inspection = inspect(&args.workflow, &adapters::registry());
    report::to_stdout(&args.workflow, &inspection.text, &inspection.problems)?;
    let is_warning = |problem: &&Problem| problem.kind.is_warning();
    let warnings = inspection.problems.iter().filter(is_warning).count();
    let errors = inspection.problems.len() - warnings;
    let mut out = stdout().lock();
    let name = plain(&args.workflow.display().to_string(), MAX_VALUE_BYTES);
    match &inspection.usable {
        Some(usable) => {
            writeln!(out, "{name} can be used{}", count_suffix(warnings, "warning"))?;
            write_summary(&mut out, usable)?;
            out.flush()?; // what follows takes a moment
            let findings = if args.offline { Vec::new() } else { examine(usable)? };
            findings.iter().try_for_each(|finding| write_finding(&mut out, finding))?;
            if let Some(agents) = args.budget {
                forecast(&mut out, usable, agents, args.offline)?;
            }
            if args.show {
                let settings = serde_yaml::to_string(usable.settings().as_ref())?;
                writeln!(out, "\n{}", report::for_a_screen(&settings))?;
            }
            if findings.iter().any(|finding| finding.severity == Severity::Wrong) {
                writeln!(out, "\nIt would not work as things are: see the errors above")?;
                return Ok(ExitCode::FAILURE);
            }
            Ok(ExitCode::SUCCESS)
        }
        None => {
            writeln!(out, "{name} cannot be used: {}", count(errors, "error"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Asks the tracker and the agent.
fn examine(usable: &Usable) -> anyhow::Result<Vec<Finding>> {
    symphony_host::harden().context("this process cannot be closed to its agents")?;
    super::touch_activity_file(usable.settings());
    Ok(super::tokio()?.block_on(usable.examine()))
}

/// What the file means, in a few lines. It may be a stranger's file.
fn write_summary(out: &mut impl std::io::Write, usable: &Usable) -> std::io::Result<()> {
    let settings = usable.settings();
    let names = |states: &symphony_core::StateSet| {
        let names: Vec<&str> = states.names().iter().map(|state| state.as_str()).collect();
        plain(&names.join(", "), MAX_VALUE_BYTES)
    };
    writeln!(out, "  tracker    {}", plain(&settings.tracker.kind, MAX_VALUE_BYTES))?;
    writeln!(out, "  works in   {}", names(&settings.tracker.active_states))?;
    writeln!(out, "  cleans up  {}", names(&settings.tracker.terminal_states))?;
    let agents = settings.agent.max_concurrent_agents;
    let agent = plain(&settings.agent.kind, MAX_VALUE_BYTES);
    writeln!(out, "  agent      {agent}, at most {agents} at a time")?;
    let root = settings.workspace.root.display().to_string();
    writeln!(out, "  folders    {}", plain(&root, MAX_VALUE_BYTES))?;
    writeln!(out, "  prompt     {}", usable.workflow.prompt.choice())
}

/// What polling will cost with so many agents, or with as many as may run.
fn forecast(
    out: &mut impl std::io::Write,
    usable: &Usable,
    agents: Option<u32>,
    offline: bool,
) -> anyhow::Result<()> {
    let settings = usable.settings();
    let agents = agents.unwrap_or(settings.agent.max_concurrent_agents);
    let known = match offline {
        true => None,
        false => super::tokio()?.block_on(usable.budget()),
    };
    budget::write_forecast(out, &settings.polling, agents)?;
    let findings = budget::findings(&settings.polling, agents, known.as_ref());
    Ok(findings.iter().try_for_each(|finding| write_finding(out, finding))?)
}

/// What was found outside the file.
fn write_finding(out: &mut impl std::io::Write, finding: &Finding) -> std::io::Result<()> {
    let (style, word) = match finding.severity {
        Severity::Fine => (Style::new(), ""),
        Severity::Doubtful => (AnsiColor::Yellow.on_default().bold(), "warning: "),
        Severity::Wrong => (AnsiColor::Red.on_default().bold(), "error: "),
    };
    let (subject, text) =
        (plain(&finding.subject, MAX_VALUE_BYTES), plain(&finding.text, MAX_VALUE_BYTES));
    writeln!(out, "  {subject:<10} {style}{word}{style:#}{text}")
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn count_suffix(number: usize, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", with {}", count(number, what)) }
}
