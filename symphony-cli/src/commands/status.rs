//! `symphony status`: what a running service does, once, or again and again.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstream::{eprintln, stdout};
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use symphony_api::client::ApiClient;
use symphony_api::{Status, Summary};
use symphony_core::time::Wall;
use symphony_core::{plain, plain_json};
use symphony_tui::text::{count, since, until};
use symphony_tui::{phase, problems, warnings};

use crate::args::StatusArgs;
use crate::{remote, table};

/// How often a status that is watched is read, unless it is said.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// How much of a text is shown.
const MAX_TEXT_BYTES: usize = 500;

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let client = || anyhow::Ok(ApiClient::new(remote::find(args.service.url(), &args.workflow)?)?);
    let runtime = super::tokio()?;
    let first = runtime.block_on(shown(&client()?, args.json))?;
    let Some(seconds) = args.watch else {
        stdout().lock().write_all(&first)?;
        return Ok(ExitCode::SUCCESS);
    };
    let interval = seconds.map_or(WATCH_INTERVAL, |seconds| Duration::from_secs(seconds.into()));
    let mut next = Ok(first);
    loop {
        match next {
            Ok(shown) => write_again(&shown, args.json)?,
            // The service may be back in a moment, perhaps at another port.
            Err(error) => eprintln!("{}", plain(&format!("{error:#}"), MAX_TEXT_BYTES)),
        }
        std::thread::sleep(interval);
        next = client().and_then(|client| runtime.block_on(shown(&client, args.json)));
    }
}

/// Asks a service, and renders what it does.
async fn shown(client: &ApiClient, json: bool) -> anyhow::Result<Vec<u8>> {
    let body = client.get(&["state"]).await.map_err(remote::with_advice)?;
    if json {
        return Ok((plain_json(&String::from_utf8_lossy(&body)) + "\n").into_bytes());
    }
    let status: Status = serde_json::from_slice(&body)
        .with_context(|| format!("{} answers something else than a state", client.address()))?;
    let mut out = Vec::new();
    write_status(&mut out, &status, &client.address().to_string())?;
    Ok(out)
}

/// Prints it in the place of the last one: on a terminal, no more of it than fits.
fn write_again(shown: &[u8], json: bool) -> io::Result<()> {
    let is_screen = !json && io::stdout().is_terminal();
    let mut out = stdout().lock();
    if !is_screen {
        out.write_all(shown)?;
        return if json { out.flush() } else { writeln!(out) };
    }
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let rows = size.map_or(24, |size| usize::from(size.ws_row)).saturating_sub(1).max(1);
    let lines: Vec<&[u8]> = shown.split_inclusive(|byte| *byte == b'\n').collect();
    out.write_all(b"\x1b[H\x1b[2J")?;
    out.write_all(&lines[..lines.len().min(rows)].concat())?;
    out.flush()
}

fn write_status(out: &mut impl Write, status: &Status, address: &str) -> io::Result<()> {
    let (bold, bad) = (Style::new().bold(), AnsiColor::Red.on_default().bold());
    let summary = &status.summary;
    let (slots, counts) = (&summary.slots, summary.counts);
    writeln!(
        out,
        "{bold}Symphony{bold:#} at {}: {} of {} agents, {} waiting, {} blocked, {} candidates",
        plain(address, MAX_TEXT_BYTES),
        slots.used,
        slots.limit,
        counts.retrying,
        counts.blocked,
        counts.candidates
    )?;
    let service = summary.service.names().join(", ");
    if !service.is_empty() {
        writeln!(out, "{}", plain(&service, MAX_TEXT_BYTES))?;
    }
    writeln!(out, "{}", plain(&summary.verdict.message, MAX_TEXT_BYTES))?;
    for problem in problems(status, summary.generated_at) {
        writeln!(out, "{bad}! {}{bad:#}", plain(&problem, MAX_TEXT_BYTES))?;
    }
    let doubtful = AnsiColor::Yellow.on_default();
    for warning in warnings(status) {
        writeln!(out, "{doubtful}? {}{doubtful:#}", plain(&warning, MAX_TEXT_BYTES))?;
    }
    write_sums(out, summary)?;
    write_lists(out, status, summary.generated_at)
}

fn write_sums(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let (totals, polling) = (&summary.codex_totals, &summary.polling);
    let tokens = &totals.tokens;
    let (total, input) = (count(tokens.total_tokens), count(tokens.input_tokens));
    let output = count(tokens.output_tokens);
    writeln!(out, "tokens {total} (in {input}, out {output})")?;
    for window in summary.rate_limits.iter().flat_map(|limits| &limits.windows) {
        let resets =
            window.resets_at.map(|at| format!(", anew in {}", until(summary.generated_at, at)));
        let name = plain(&window.name, MAX_TEXT_BYTES);
        writeln!(
            out,
            "limit {name}: {:.0}% used{}",
            window.used_percent,
            resets.unwrap_or_default()
        )?;
    }
    let today = polling.requests_today.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let (today, projected) = (count(today), count(polling.projected_today));
    let mode = polling.mode.as_str();
    writeln!(out, "polling {mode}, {today} requests today, {projected} by its end")
}

fn write_lists(out: &mut impl Write, status: &Status, now: Wall) -> io::Result<()> {
    let mut list = |name: &str, columns: &[&str], rows: &[Vec<String>]| {
        if rows.is_empty() {
            return Ok(());
        }
        let bold = Style::new().bold();
        writeln!(out, "\n{bold}{name}{bold:#}")?;
        table::write(out, columns, rows)
    };
    let running = status.running.iter().map(|row| {
        let turns = format!("{}/{}", row.turn_count, row.max_turns);
        let age = since(now, row.started_at);
        let (name, phase) = (row.issue.identifier.clone(), phase(row).to_owned());
        let tokens = count(row.tokens.total_tokens);
        vec![
            name,
            row.issue.state.clone(),
            phase,
            turns,
            age,
            tokens,
            row.issue.title.clone(),
            row.last_message.clone(),
        ]
    });
    let columns = ["ISSUE", "STATE", "PHASE", "TURN", "AGE", "TOKENS", "TITLE", "LAST EVENT"];
    list("Running", &columns, &running.collect::<Vec<_>>())?;
    let waiting = status.retrying.iter().map(|row| {
        let due = row.due_at.map_or_else(|| "now".to_owned(), |due| until(now, due));
        // The number of a continuation stays 1, however many there are.
        let attempt = match row.error {
            Some(_) => row.attempt.to_string(),
            None => "continuation".to_owned(),
        };
        let why = row.error.clone().unwrap_or_default();
        vec![
            row.issue.identifier.clone(),
            row.issue.state.clone(),
            attempt,
            due,
            row.issue.title.clone(),
            why,
        ]
    });
    let columns = ["ISSUE", "STATE", "ATTEMPT", "DUE IN", "TITLE", "WHY"];
    list("Waiting", &columns, &waiting.collect::<Vec<_>>())?;
    let blocked = status.blocked.iter().map(|row| {
        let needs = row.question.as_ref().map(|question| format!("asks: {question}"));
        let needs = needs.unwrap_or_else(|| "stopped by an operator".to_owned());
        let since = since(now, row.since);
        vec![
            row.issue.identifier.clone(),
            row.issue.state.clone(),
            since,
            row.issue.title.clone(),
            needs,
        ]
    });
    let columns = ["ISSUE", "STATE", "SINCE", "TITLE", "NEEDS"];
    list("Blocked", &columns, &blocked.collect::<Vec<_>>())?;
    let unstarted = status.summary.candidates.first.iter().filter(|row| !row.is_listed_elsewhere);
    let unstarted = unstarted.map(|row| {
        let (name, why) = (row.issue_identifier.clone(), row.message.clone());
        vec![name, row.state.clone(), row.title.clone(), why]
    });
    let unstarted: Vec<Vec<String>> = unstarted.collect();
    list("Not started", &["ISSUE", "STATE", "TITLE", "WHY NOT"], &unstarted)?;
    let all: usize = status.summary.candidates.unclaimed.values().sum();
    match all.saturating_sub(unstarted.len()) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more; `symphony explain` lists all"),
    }
}
