//! `symphony explain`: why an issue is not worked on, or why nothing starts.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstream::{eprintln, stdout};
use anstyle::Style;
use anyhow::bail;
use symphony_api::UnstartedStatus;
use symphony_api::client::{ApiClient, ApiError};
use symphony_core::plain;
use symphony_runtime::{DryRun, inspect};

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
        Ok(client) => match super::tokio()?.block_on(ask_service(&client, args.issue())) {
            Ok(said) => {
                stdout().lock().write_all(&said)?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(ApiError::Unreachable(why)) => format!("No service answered: {why}"),
            Err(error) => return Err(remote::with_advice(error)),
        },
        Err(error) => format!("No service was asked: {error:#}"),
    };
    if given.is_some() {
        bail!("{why}");
    }
    eprintln!("{}", plain(&why, MAX_TEXT_BYTES));
    dry_run(args)
}

/// Asks a service, and returns what it says as text.
async fn ask_service(client: &ApiClient, issue: Option<&str>) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    let Some(issue) = issue else {
        let explained = client.explanation().await?;
        let _ = writeln!(out, "{}", plain(&explained.verdict.message, MAX_TEXT_BYTES));
        let _ = write_unstarted(&mut out, &explained.unstarted);
        return Ok(out);
    };
    let mut explained = client.issue_explanation(issue).await;
    // As people type it.
    let upper = issue.to_uppercase();
    if matches!(explained, Err(ApiError::Refused { status: 404, .. })) && upper != issue {
        explained = client.issue_explanation(&upper).await;
    }
    let explained = explained?;
    let (name, stage) = (plain(&explained.issue_identifier, 60), explained.status.as_str());
    let _ = writeln!(out, "{name} ({stage}): {}", plain(&explained.message, MAX_TEXT_BYTES));
    Ok(out)
}

/// Reads the tracker once and tells what a service would do that was started now.
fn dry_run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let inspection = inspect(args.workflow(), &adapters::registry());
    let Some(usable) = inspection.usable else {
        report::to_stderr(args.workflow(), &inspection.text, &inspection.problems);
        bail!("{} cannot be used; see above", args.workflow().display());
    };
    super::touch_activity_file(usable.settings());
    let outcome = super::tokio()?.block_on(usable.dry_run());
    let dry_run = outcome.map_err(|verdict| anyhow::anyhow!("{verdict}"))?;
    match args.issue() {
        Some(issue) => write_one(&dry_run, issue),
        None => write_all(&dry_run, args.workflow()),
    }
}

fn write_one(dry_run: &DryRun, issue: &str) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let is_it = |id: &str, identifier: &str| id == issue || identifier.eq_ignore_ascii_case(issue);
    let mut starts = dry_run.starts.iter();
    if let Some(start) = starts.find(|start| is_it(start.id.as_str(), start.identifier.as_str())) {
        writeln!(out, "{}: would start now", plain(start.identifier.as_str(), 60))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rest = dry_run.explanation.unstarted.iter();
    match rest.find(|row| is_it(row.id.as_str(), row.identifier.as_str())) {
        Some(row) => {
            let row = UnstartedStatus::new(row, dry_run.now);
            writeln!(out, "{}: {}", plain(&row.issue_identifier, 60), row.message)?;
            Ok(ExitCode::SUCCESS)
        }
        None => bail!(
            "{issue} is not a candidate: it does not exist, is out of the tracker's scope, or is in \
             none of tracker.active_states"
        ),
    }
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
