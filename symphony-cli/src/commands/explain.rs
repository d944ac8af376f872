//! `symphony explain`: why an issue is not worked on, or why nothing starts.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstream::{eprintln, stdout};
use anstyle::Style;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use symphony_api::status::{ExplanationStatus, Stage, UnstartedStatus};
use symphony_core::plain;
use symphony_runtime::{DryRun, inspect};

use crate::args::ExplainArgs;
use crate::remote::{self, Client, Problem};
use crate::{adapters, report, table};

/// How much of a text is shown.
const LONGEST: usize = 500;

/// What `GET /api/v1/explain/<identifier>` answers.
#[derive(Deserialize)]
struct IssueExplanation {
    issue_identifier: String,
    status: Stage,
    message: String,
}

pub(crate) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    if matches!(args.issue.as_deref(), Some("" | "." | "..")) {
        bail!("that is no issue's identifier; give one such as MT-1, or none for all of them");
    }
    if args.offline {
        return rehearse(args);
    }
    let given = args.service.url();
    let why = match remote::find(given, &args.workflow).and_then(Client::new) {
        Ok(client) => {
            let asked = super::tokio()?.block_on(ask(&client, args.issue.as_deref()))?;
            match asked {
                Ok(code) => return Ok(code),
                Err(Problem::Unreachable(why)) => why,
                Err(problem) => return Err(problem.into()),
            }
        }
        Err(error) => error.to_string(),
    };
    if given.is_some() {
        bail!("{why}");
    }
    eprintln!("No service was asked: {}", plain(&why, LONGEST));
    rehearse(args)
}

/// Asks a service, and tells what it says.
async fn ask(client: &Client, issue: Option<&str>) -> anyhow::Result<Result<ExitCode, Problem>> {
    let strange = || format!("{} answers something else than an explanation", client.address());
    let mut out = stdout().lock();
    let Some(issue) = issue else {
        let body = match client.get(&["explain"]).await {
            Ok(body) => body,
            Err(problem) => return Ok(Err(problem)),
        };
        let explained: ExplanationStatus = serde_json::from_slice(&body).with_context(strange)?;
        writeln!(out, "{}", plain(&explained.verdict.message, LONGEST))?;
        tell_unstarted(&mut out, &explained.unstarted)?;
        return Ok(Ok(ExitCode::SUCCESS));
    };
    let mut body = client.get(&["explain", issue]).await;
    // As people type it.
    let upper = issue.to_uppercase();
    if matches!(body, Err(Problem::Refused { status: 404, .. })) && upper != issue {
        body = client.get(&["explain", &upper]).await;
    }
    let body = match body {
        Ok(body) => body,
        Err(problem) => return Ok(Err(problem)),
    };
    let explained: IssueExplanation = serde_json::from_slice(&body).with_context(strange)?;
    let (name, stage) = (plain(&explained.issue_identifier, 60), explained.status.as_str());
    writeln!(out, "{name} ({stage}): {}", plain(&explained.message, LONGEST))?;
    Ok(Ok(ExitCode::SUCCESS))
}

/// Reads the tracker once and tells what a service would do that was started now.
fn rehearse(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let inspection = inspect(&args.workflow, &adapters::registry());
    let Some(usable) = inspection.usable else {
        report::to_stderr(&args.workflow, &inspection.text, &inspection.problems);
        bail!("{} cannot be used; see above", args.workflow.display());
    };
    super::touch_activity_file(usable.settings());
    let rehearsed = super::tokio()?.block_on(usable.dry_run());
    let dry_run = rehearsed.map_err(|verdict| anyhow::anyhow!("{verdict}"))?;
    match &args.issue {
        Some(issue) => tell_one(&dry_run, issue),
        None => tell_all(&dry_run, &args.workflow),
    }
}

fn tell_one(dry_run: &DryRun, issue: &str) -> anyhow::Result<ExitCode> {
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
            let row = UnstartedStatus::of(row, dry_run.now);
            writeln!(out, "{}: {}", plain(&row.issue_identifier, 60), row.message)?;
            Ok(ExitCode::SUCCESS)
        }
        None => bail!(
            "{issue} is no candidate: it does not exist, is out of the tracker's scope, or is in \
             none of tracker.active_states"
        ),
    }
}

fn tell_all(dry_run: &DryRun, workflow: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let bold = Style::new().bold();
    let name = plain(&workflow.display().to_string(), LONGEST);
    writeln!(out, "A dry run of {name}: the tracker was read once, and nothing was started.")?;
    if dry_run.starts.is_empty() {
        writeln!(
            out,
            "Nothing would start: {}",
            plain(&dry_run.explanation.verdict.to_string(), LONGEST)
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
    let rest: Vec<_> = rest.map(|row| UnstartedStatus::of(row, dry_run.now)).collect();
    tell_unstarted(&mut out, &rest)?;
    Ok(ExitCode::SUCCESS)
}

fn tell_unstarted(out: &mut impl std::io::Write, rows: &[UnstartedStatus]) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let bold = Style::new().bold();
    writeln!(out, "\n{bold}Not started{bold:#}")?;
    let rows = rows.iter().map(|row| vec![row.issue_identifier.clone(), row.message.clone()]);
    table::write(out, &["ISSUE", "WHY NOT"], &rows.collect::<Vec<_>>())
}
