//! `symphony check`: everything that is wrong or doubtful in a workflow file.

mod budget;
pub(super) mod front_matter;
mod progress;

use std::io::Write;
use std::process::ExitCode;

use anstream::stdout;
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use serde_json::{Value, json};
use symphony_api::ProblemStatus;
use symphony_core::finding::{Finding, Severity};
use symphony_core::problem::Problem;
use symphony_runtime::{Inspection, Usable, plain};

use crate::args::CheckArgs;
use crate::{adapters, report};
use front_matter::front_matter;
use progress::with_progress;

/// How much of one value is shown.
const MAX_VALUE_BYTES: usize = 1024;

/// What is waited for, shorter than a narrow terminal. The login profile is named because it is what
/// hangs most.
const EXAMINATION: &str = "asking tracker and agent (its login profile, `bash -lc`, comes first)";

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let inspection = super::inspect(&args.workflow, None);
    let findings = match args.json {
        true => write_json(args, &inspection)?,
        false => write_text(args, &inspection)?,
    };
    let is_wrong = |finding: &Finding| finding.severity == Severity::Wrong;
    let is_fine = |finding: &Finding| finding.severity == Severity::Fine;
    let fails = inspection.usable.is_none() || findings.iter().any(is_wrong);
    // What is left of the problems of a usable file are warnings.
    let warns = !inspection.problems.is_empty() || !findings.iter().all(is_fine);
    Ok(if fails || args.strict && warns { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_text(args: &CheckArgs, inspection: &Inspection) -> anyhow::Result<Vec<Finding>> {
    let mut out = stdout().lock();
    if let (true, Some(settings)) = (args.show, &inspection.settings) {
        let yaml = serde_yaml::to_string(&front_matter(settings, &adapters::registry()))?;
        writeln!(out, "---\n{}\n---\n", report::for_a_screen(&yaml))?;
    }
    report::write(&mut out, &args.workflow, &inspection.text, &inspection.problems)?;
    let name = plain(&args.workflow.display().to_string(), MAX_VALUE_BYTES);
    let warnings = inspection.problems.iter().filter(|problem| problem.kind.is_warning()).count();
    let Some(usable) = &inspection.usable else {
        let errors = count(inspection.problems.len() - warnings, "error");
        writeln!(out, "{name} cannot be used: {errors}")?;
        return Ok(Vec::new());
    };
    if !args.quiet {
        writeln!(out, "{name} can be used{}", count_suffix(warnings, "warning"))?;
        write_summary(&mut out, usable)?;
        out.flush()?; // what follows takes a moment
    }
    let findings = examine(usable, args.offline)?;
    let is_shown = |finding: &&Finding| !args.quiet || finding.severity != Severity::Fine;
    findings.iter().filter(is_shown).try_for_each(|finding| write_finding(&mut out, finding))?;
    if let Some(agents) = args.budget {
        forecast(&mut out, usable, agents, args.offline)?;
    }
    if findings.iter().any(|finding| finding.severity == Severity::Wrong) {
        writeln!(out, "\nIt would not work as things are: see the errors above")?;
    }
    Ok(findings)
}

fn write_json(args: &CheckArgs, inspection: &Inspection) -> anyhow::Result<Vec<Finding>> {
    let findings = match &inspection.usable {
        Some(usable) => examine(usable, args.offline)?,
        None => Vec::new(),
    };
    let settings = inspection.settings.as_ref().filter(|_| args.show);
    let settings = settings.map(|settings| front_matter(settings, &adapters::registry()));
    let checked = json!({
        "file": args.workflow.display().to_string(),
        "usable": inspection.usable.is_some(),
        "problems": problems_json(&inspection.problems),
        "findings": findings_json(&findings),
        "settings": settings,
    });
    report::write_json(&checked)?;
    Ok(findings)
}

/// The problems of a file, for programs.
pub(super) fn problems_json(problems: &[Problem]) -> Value {
    let problem = |problem: &Problem| {
        let severity = if problem.kind.is_warning() { "warning" } else { "error" };
        json!({ "severity": severity, "problem": ProblemStatus::from(problem) })
    };
    problems.iter().map(problem).collect()
}

/// What was found outside the file, for programs.
pub(super) fn findings_json(findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        let severity = match finding.severity {
            Severity::Fine => "fine",
            Severity::Doubtful => "warning",
            Severity::Wrong => "error",
        };
        let (subject, text) =
            (plain(&finding.subject, MAX_VALUE_BYTES), plain(&finding.text, MAX_VALUE_BYTES));
        json!({ "severity": severity, "subject": subject, "message": text })
    };
    findings.iter().map(finding).collect()
}

/// Asks the tracker and the agent, unless the file is not trusted.
pub(super) fn examine(usable: &Usable, offline: bool) -> anyhow::Result<Vec<Finding>> {
    if offline {
        return Ok(Vec::new());
    }
    symphony_host::harden().context("this process cannot be closed to its agents")?;
    super::touch_activity_file(usable.settings());
    Ok(super::tokio()?.block_on(with_progress(EXAMINATION, usable.examine())))
}

/// What the file means, in a few lines. It may be a stranger's file.
fn write_summary(out: &mut impl Write, usable: &Usable) -> std::io::Result<()> {
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
    out: &mut impl Write,
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
pub(super) fn write_finding(out: &mut impl Write, finding: &Finding) -> std::io::Result<()> {
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
