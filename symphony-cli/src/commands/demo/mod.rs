//! `symphony demo`: the whole service on a small board, with agents that follow a script.
//!
//! Everything but the agents' wits is real: the workflow file, the scheduler, workspaces on disk,
//! hooks and agents as processes, the agents' protocol, retries, the removal at the end.

pub(crate) mod agent;
mod view;

use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use symphony_codex::CodexFactory;
use symphony_core::snapshot::Snapshot;
use symphony_memory::{MemoryFactory, MemoryTracker};
use symphony_runtime::{Handle, NoticeItem, Registry, Service};

use super::signals::Signals;
use crate::args::DemoArgs;
use view::DemoView;

const WORKFLOW: &str = include_str!("WORKFLOW.md");

/// It takes seconds; a demo that takes longer than this has failed.
const DEMO_TIMEOUT: Duration = Duration::from_secs(120);

/// How many times longer the agents take when people look on in a browser.
const BROWSER_SLOWDOWN: u32 = 20;

pub(crate) fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    symphony_host::harden().context("this process cannot be closed to its agents")?;
    let runtime = super::tokio()?;
    // Before there is anything that a signal could leave behind.
    let signals = runtime.block_on(async { Signals::new() })?;
    let folder = tempfile::Builder::new().prefix("symphony-demo-").tempdir()?;
    let done = runtime.block_on(run_demo(folder.path(), args.port, signals));
    drop(runtime);
    if args.keep {
        anstream::println!("Kept in {}", folder.keep().display());
    } else {
        folder.close().context("the demo's folder cannot be removed")?;
    }
    done
}

async fn run_demo(
    folder: &Path,
    port: Option<u16>,
    mut signals: Signals,
) -> anyhow::Result<ExitCode> {
    let workflow = folder.join("WORKFLOW.md");
    let slower = if port.is_some() { BROWSER_SLOWDOWN } else { 1 };
    std::fs::write(&workflow, text(slower)?)?;
    let board = MemoryTracker::new();
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(MemoryFactory::serving(board.clone())));
    registry.add_agent(Arc::new(CodexFactory::new()));
    let service = Service::builder()
        .workflow(workflow)
        .registry(registry)
        .transcripts(folder.join("transcripts"))
        .build()
        .await?;
    let handle = service.handle();
    let server = super::listen(service.settings(), port).await?;
    let mut view = DemoView::new(board.issues());
    view.show_intro(service.settings());
    let _serving = server.map(|server| {
        view.point_at(server.address());
        super::serve(Some(server), None, &handle)
    });
    let mut running = pin!(service.run());
    let all_done = tokio::select! {
        _ = &mut running => bail!("the service ended before its work was done"),
        all_done = async {
            let limit = DEMO_TIMEOUT.saturating_mul(slower);
            let watched = tokio::time::timeout(limit, watch(&handle, &board, &mut view)).await;
            if port.is_some() && watched.is_ok() {
                view.show_waiting();
                std::future::pending::<()>().await;
            }
            watched.is_ok()
        } => Some(all_done),
        _ = signals.next() => None,
    };
    // However it ends, no process uses its folder any more when that is removed; a second signal
    // ends the wait.
    let _ = handle.shut_down();
    tokio::select! {
        _ = running => {}
        _ = signals.next() => {}
    }
    let all_done = match all_done {
        Some(all_done) => all_done,
        // With a browser open, a signal is the normal end.
        None if port.is_some() => return Ok(ExitCode::SUCCESS),
        None => bail!("interrupted"),
    };
    let finished = folder.join("finished");
    let saved = std::fs::read_dir(&finished).map_or(0, Iterator::count);
    view.show_summary(&handle.last_snapshot(), &board.issues(), saved);
    if !all_done {
        bail!("not everything was done within {} s", DEMO_TIMEOUT.as_secs());
    }
    Ok(ExitCode::SUCCESS)
}

/// The workflow file, with this program as its agent.
fn text(slower: u32) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let program = program.to_str().context("this program's path is not UTF-8")?;
    // Once for the shell, and once for the YAML that holds it.
    let program = program.replace('\'', r"'\''");
    let command = format!("'{program}' demo-agent --slower {slower}");
    Ok(WORKFLOW.replace("symphony demo-agent", &serde_json::to_string(&command)?))
}

/// Shows what happens until nothing is left to do.
async fn watch(handle: &Handle, board: &MemoryTracker, view: &mut DemoView) {
    let mut snapshots = handle.snapshots();
    let Ok(mut notices) = handle.subscribe() else {
        return;
    };
    loop {
        tokio::select! {
            item = notices.next() => match item {
                Some(NoticeItem::Notice(notice)) => view.show_notice(&notice, handle),
                Some(_) => {}
                None => return,
            },
            changed = snapshots.changed() => {
                let snapshot = Arc::clone(&snapshots.borrow_and_update());
                view.show(&snapshot, handle);
                if changed.is_err() || is_over(&snapshot, board) {
                    return;
                }
            }
        }
    }
}

/// Whether every issue is done and nothing of it is left.
fn is_over(snapshot: &Snapshot, board: &MemoryTracker) -> bool {
    let idle = snapshot.running.is_empty()
        && snapshot.waiting.is_empty()
        && snapshot.blocked.is_empty()
        && snapshot.checking.is_empty()
        && snapshot.cleaning.is_empty();
    idle && board.issues().iter().all(|issue| issue.state.as_str() == "Done")
}
