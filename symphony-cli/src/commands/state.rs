//! `symphony state`: a look at what survives a restart, and a copy of it.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anstream::stdout;
use anyhow::{Context as _, bail};
use symphony_core::plain;
use symphony_core::store::{ClaimRow, Rows, RunQuery, Store};
use symphony_core::time::Wall;
use symphony_sqlite::SqliteStore;
use symphony_tui::text::{count, since, until};

use super::storage;
use crate::args::{StateArgs, StateCommand};
use crate::local::wall_now;
use crate::{adapters, table};

pub(crate) fn state(args: &StateArgs) -> anyhow::Result<ExitCode> {
    super::tokio()?.block_on(async {
        match &args.command {
            StateCommand::Show { workflow } => show(&open(workflow)?).await?,
            StateCommand::Backup { file, workflow } => {
                open(workflow)?.backup(file).await?;
                writeln!(stdout().lock(), "{} holds a copy", file.display())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn open(workflow: &Path) -> anyhow::Result<SqliteStore> {
    let settings = symphony_runtime::read_leniently(workflow, &adapters::registry());
    let settings = settings.with_context(|| format!("cannot read {}", workflow.display()))?;
    let path = storage::path(&settings, workflow, &super::CliEnv);
    let path = path.map_err(|problem| anyhow::anyhow!("{problem}"))?;
    if !path.exists() {
        bail!("nothing is kept in {}: the service has not run yet", path.display());
    }
    Ok(SqliteStore::open_read_only(path)?)
}

async fn show(store: &SqliteStore) -> anyhow::Result<()> {
    let now = wall_now();
    let mut parts = Vec::new();
    for scope in store.scopes().await? {
        parts.push((scope.to_string(), store.rows(&scope).await?));
    }
    let mut last = RunQuery::default();
    last.limit = Some(10);
    let runs = store.runs(&last).await?;
    let mut out = stdout().lock();
    writeln!(out, "{}", store.path().display())?;
    if let Some((_, rows)) = parts.first() {
        write_sums(&mut out, rows)?;
    }
    for (scope, rows) in &parts {
        writeln!(out, "\n{}: {} claims", plain(scope, 200), rows.claims.len())?;
        let claims: Vec<_> = rows.claims.iter().map(|claim| claim_cells(claim, now)).collect();
        if !claims.is_empty() {
            table::write(&mut out, &["ISSUE", "STAGE", "ATTEMPT", "WHY"], &claims)?;
        }
    }
    let runs: Vec<_> = runs
        .iter()
        .map(|run| {
            let outcome = run.outcome.map_or("live", |outcome| outcome.as_str());
            let (began, tokens) = (since(now, run.began), count(run.tokens.total));
            vec![run.run.to_string(), run.identifier.to_string(), outcome.to_owned(), began, tokens]
        })
        .collect();
    if !runs.is_empty() {
        writeln!(out, "\nthe last runs")?;
        table::write(&mut out, &["RUN", "ISSUE", "OUTCOME", "BEGAN", "TOKENS"], &runs)?;
    }
    Ok(())
}

fn write_sums(out: &mut impl Write, rows: &Rows) -> io::Result<()> {
    let (totals, paused) = (&rows.totals, rows.operator.paused);
    let (started, done, tokens) = (totals.started, totals.done, count(totals.tokens.total));
    writeln!(out, "{started} runs started, {done} done, {tokens} tokens")?;
    if paused {
        writeln!(out, "starts are paused")?;
    }
    for hold in &rows.holds {
        let why = plain(&hold.failure.to_string(), 200);
        writeln!(out, "{} is held: {why}", plain(&hold.agent, 60))?;
    }
    Ok(())
}

fn claim_cells(claim: &ClaimRow, now: Wall) -> Vec<String> {
    let stage = serde_json::to_value(claim.stage).ok();
    let stage = stage.and_then(|stage| stage.as_str().map(str::to_owned)).unwrap_or_default();
    let why = match (&claim.question, &claim.failure, &claim.due) {
        (Some(question), ..) => format!("asks: {question}"),
        (None, failure, due) => {
            let failure = failure.as_ref().map(ToString::to_string);
            let due = due.map(|due| format!("due in {}", until(now, due.at)));
            due.into_iter().chain(failure).collect::<Vec<_>>().join("; ")
        }
    };
    let attempt = claim.attempt.map(|attempt| attempt.to_string()).unwrap_or_default();
    vec![claim.issue.identifier.to_string(), stage, attempt, why]
}
