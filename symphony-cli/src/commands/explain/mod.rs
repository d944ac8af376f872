//! `symphony explain`: why an issue is not worked on, or why nothing starts.

mod one;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstream::{eprintln, stdout};
use anstyle::Style;
use anyhow::{Context as _, anyhow, bail};
use serde_json::json;
use symphony_api::IssueStage::Released;
use symphony_api::client::{ApiClient, ApiError};
use symphony_api::{IssueExplanation, UnstartedStatus};
use symphony_core::plain;
use symphony_runtime::{DryRun, OpenTracker, Usable, inspect, open_tracker};

use super::find_issue;
use one::{IssueReason, NOT_CANDIDATE};

use crate::args::ExplainArgs;
use crate::{adapters, remote, report, table};

/// How much of a text is shown.
const MAX_TEXT_BYTES: usize = 500;

pub(crate) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    if matches!(args.issue(), Some("" | "." | "..")) {
        bail!("that is not an issue's identifier; give one such as MT-1, or none for all of them");
    }
    if args.offline {
        return dry_run(args);
    }
    let given = args.service.url();
    let client = remote::find(given, args.workflow()).and_then(|at| Ok(ApiClient::new(at)?));
    let why = match client {
        Ok(client) => match super::tokio()?.block_on(ask_service(&client, args)) {
            Ok(code) => return Ok(code),
            Err(error) => match error.downcast::<ApiError>() {
                Ok(ApiError::Unreachable(why)) => format!("No service answered: {why}"),
                Ok(error) => return Err(remote::with_advice(error)),
                Err(error) => return Err(error),
            },
        },
        Err(error) => format!("No service was asked: {error:#}"),
    };
    if given.is_some() {
        bail!("{why}");
    }
    eprintln!("{}", plain(&why, MAX_TEXT_BYTES));
    dry_run(args)
}

/// Asks a service, and prints what it says.
async fn ask_service(client: &ApiClient, args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let Some(issue) = args.issue() else {
        let explained = client.explanation().await?;
        if args.json {
            report::write_json(&explained)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = stdout().lock();
        writeln!(out, "{}", plain(&explained.verdict.message, MAX_TEXT_BYTES))?;
        write_unstarted(&mut out, &explained.unstarted)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut explained = client.issue_explanation(issue).await;
    // As people type it.
    let upper = issue.to_uppercase();
    if is_unknown(&explained) && upper != issue {
        explained = client.issue_explanation(&upper).await;
    }
    if is_unknown(&explained) || explained.as_ref().is_ok_and(|issue| issue.status == Released) {
        let open = open(args.workflow()).with_context(|| {
            let issue = plain(issue, 60);
            format!("the service neither works on {issue} nor has it as a candidate")
        })?;
        if let Ok(explained) = &explained
            && one::is_kept_by_service(&open)
        {
            let identifier = explained.issue_identifier.as_str().to_owned();
            let code = explained.unstarted.as_ref().map_or("released", |row| row.reason.as_str());
            let text = explained.message.clone();
            return write_reason(&IssueReason { identifier, code, text }, args.json);
        }
        return write_reason(&one::explain(&open, issue).await?, args.json);
    }
    let explained = explained?;
    let is_blocked = |row: &UnstartedStatus| row.reason == "blocked_by";
    let mut message = explained.message.clone();
    // The service names the blocker; whether there is one shows a look at it.
    if explained.unstarted.as_ref().is_some_and(is_blocked)
        && let Some(open) = open_tracker(args.workflow(), &adapters::registry())
        && let Ok(Some(issue)) = find_issue(open.tracker.as_ref(), issue).await
        && let Ok(Some(text)) = one::blocked(&open, &issue).await
    {
        message = text;
    }
    let (name, stage) = (explained.issue_identifier.as_str(), explained.status.as_str());
    let code = explained.unstarted.as_ref().map_or(stage, |row| row.reason.as_str());
    if args.json {
        return write_json(name, stage, code, &message);
    }
    let (name, message) = (plain(name, 60), plain(&message, MAX_TEXT_BYTES));
    writeln!(stdout().lock(), "{name} ({stage}): {message}")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the service knows nothing of an issue.
const fn is_unknown(explained: &Result<IssueExplanation, ApiError>) -> bool {
    matches!(explained, Err(ApiError::Refused { status: 404, .. }))
}

/// The tracker of the workflow file, whatever is wrong with the rest of it, or its problems on
/// standard error.
fn open(workflow: &Path) -> anyhow::Result<OpenTracker> {
    match open_tracker(workflow, &adapters::registry()) {
        Some(open) => Ok(open),
        None => Ok(load(workflow)?.open_tracker()),
    }
}

/// The workflow, or its problems on standard error.
fn load(workflow: &Path) -> anyhow::Result<Usable> {
    let inspection = inspect(workflow, &adapters::registry());
    inspection.usable.ok_or_else(|| {
        report::to_stderr(workflow, &inspection.text, &inspection.problems);
        anyhow!("{} cannot be used; see above", workflow.display())
    })
}

/// Reads the tracker once and tells what a service would do that was started now.
fn dry_run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let usable = load(args.workflow())?;
    super::touch_activity_file(usable.settings());
    super::tokio()?.block_on(async {
        let outcome = usable.dry_run().await;
        let dry_run = outcome.map_err(|verdict| anyhow!("{verdict}"))?;
        match args.issue() {
            Some(issue) => explain_one(&usable.open_tracker(), &dry_run, issue, args.json).await,
            None if args.json => write_all_json(&dry_run),
            None => write_all(&dry_run, args.workflow()),
        }
    })
}

async fn explain_one(
    open: &OpenTracker,
    dry_run: &DryRun,
    issue: &str,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let is_it = |id: &str, identifier: &str| id == issue || identifier.eq_ignore_ascii_case(issue);
    let mut starts = dry_run.starts.iter();
    if let Some(start) = starts.find(|start| is_it(start.id.as_str(), start.identifier.as_str())) {
        let name = start.identifier.as_str();
        if json {
            return write_json(name, "candidate", "would_start", "would start now");
        }
        writeln!(stdout().lock(), "{}: would start now", plain(name, 60))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rest = dry_run.explanation.unstarted.iter();
    let Some(row) = rest.find(|row| is_it(row.id.as_str(), row.identifier.as_str())) else {
        return write_reason(&one::explain(open, issue).await?, json);
    };
    let mut row = UnstartedStatus::new(row, dry_run.now);
    if row.reason == "blocked_by"
        && let Some(issue) = find_issue(open.tracker.as_ref(), issue).await?
        && let Some(text) = one::blocked(open, &issue).await?
    {
        row.message = text;
    }
    if json {
        return write_json(&row.issue_identifier, "candidate", &row.reason, &row.message);
    }
    let message = plain(&row.message, MAX_TEXT_BYTES);
    writeln!(stdout().lock(), "{}: {message}", plain(&row.issue_identifier, 60))?;
    Ok(ExitCode::SUCCESS)
}

fn write_reason(reason: &IssueReason<'_>, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        return write_json(&reason.identifier, NOT_CANDIDATE, reason.code, &reason.text);
    }
    let (name, text) = (plain(&reason.identifier, 60), plain(&reason.text, MAX_TEXT_BYTES));
    writeln!(stdout().lock(), "{name} {text}")?;
    Ok(ExitCode::SUCCESS)
}

fn write_json(name: &str, status: &str, code: &str, message: &str) -> anyhow::Result<ExitCode> {
    let explained = json!({
        "issue_identifier": name,
        "status": status,
        "code": code,
        "message": message,
    });
    report::write_json(&explained)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all_json(dry_run: &DryRun) -> anyhow::Result<ExitCode> {
    let starts = dry_run.starts.iter().map(|issue| {
        let (name, state) = (issue.identifier.as_str(), issue.state.as_str());
        json!({ "issue_identifier": name, "state": state, "title": issue.title })
    });
    let rest = dry_run.explanation.unstarted.iter();
    let rest: Vec<_> = rest.map(|row| UnstartedStatus::new(row, dry_run.now)).collect();
    let explained = json!({
        "verdict": dry_run.explanation.verdict.to_string(),
        "starts": starts.collect::<Vec<_>>(),
        "unstarted": rest,
    });
    report::write_json(&explained)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(dry_run: &DryRun, workflow: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let bold = Style::new().bold();
    let name = plain(&workflow.display().to_string(), MAX_TEXT_BYTES);
    writeln!(out, "A dry run of {name}: the tracker was read once, and nothing was started.")?;
    if dry_run.starts.is_empty() {
        writeln!(
            out,
            "Nothing would start: {}",
            plain(&dry_run.explanation.verdict.to_string(), MAX_TEXT_BYTES)
        )?;
    } else {
        writeln!(out, "\n{bold}Would start{bold:#}")?;
        let starts = dry_run.starts.iter().map(|issue| {
            let (name, state) =
                (issue.identifier.as_str().to_owned(), issue.state.as_str().to_owned());
            vec![name, state, issue.title.clone()]
        });
        table::write(&mut out, &["ISSUE", "STATE", "TITLE"], &starts.collect::<Vec<_>>())?;
    }
    let rest = dry_run.explanation.unstarted.iter();
    let rest: Vec<_> = rest.map(|row| UnstartedStatus::new(row, dry_run.now)).collect();
    write_unstarted(&mut out, &rest)?;
    Ok(ExitCode::SUCCESS)
}

fn write_unstarted(out: &mut impl std::io::Write, rows: &[UnstartedStatus]) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let bold = Style::new().bold();
    writeln!(out, "\n{bold}Not started{bold:#}")?;
    let rows = rows.iter().map(|row| vec![row.issue_identifier.clone(), row.message.clone()]);
    table::write(out, &["ISSUE", "WHY NOT"], &rows.collect::<Vec<_>>())
}
