//! The task above each command: passes orders on, tells what happens, and makes sure of the end.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cgroup::ControlGroup;
use crate::command::Folder;
use crate::host::SpawnError;
use crate::process::ProcessId;
use crate::running::{CommandState, Exit, StopOrder, Survivor};
use crate::targets::Targets;
use crate::wire::Report;

type OrderReceiver = mpsc::UnboundedReceiver<StopOrder>;
type StateSender = watch::Sender<CommandState>;

/// How long a helper may take to do what it was told, and then we.
const HELPER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a helper may take to start the command.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to hunt without a pause, and the pause.
const KILL_ROUND: Duration = Duration::from_millis(100);
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// A command below a helper, and how to find what belongs to it without one.
pub(crate) struct ProcessTree {
    pub(crate) command: Vec<OsString>,
    pub(crate) folder: Folder,
    pub(crate) targets: Targets,
    pub(crate) group: Option<ControlGroup>,
}

/// Supervises a command below a helper. If the helper ends other than by having no child left, or
/// does not obey, the hunt is on.
pub(crate) async fn helped(
    mut helper: Child,
    socket: UnixStream,
    mut tree: ProcessTree,
    mut orders: OrderReceiver,
    told: StateSender,
) {
    told.send_modify(|state| state.processes.extend(helper.id().and_then(ProcessId::from_pid)));
    let (reader, mut writer) = socket.into_split();
    let mut reports = BufReader::new(reader).lines();
    let (mut reporting, mut listening) = (true, true);
    // A process that does not report its start is not a helper.
    let mut starting = earlier(None, START_TIMEOUT);
    let mut patience = None;
    let status = loop {
        tokio::select! {
            line = reports.next_line(), if reporting => match line {
                Ok(Some(line)) => {
                    starting = None;
                    on_report(&line, &mut tree, &told);
                }
                Ok(None) | Err(_) => reporting = false,
            },
            order = orders.recv(), if listening => {
                listening = order.is_some();
                let order = order.unwrap_or(StopOrder::Kill);
                patience = earlier(patience, order.grace().saturating_add(HELPER_TIMEOUT));
                // One that cannot hear it has ended, or will be killed.
                let _ = writer.write_all(order.to_string().as_bytes()).await;
            }
            () = until(starting.into_iter().chain(patience).min()) => {
                let _ = helper.start_kill();
                break helper.wait().await;
            }
            status = helper.wait() => break status,
        }
    };
    while let Ok(Some(line)) = reports.next_line().await {
        on_report(&line, &mut tree, &told);
    }
    if !status.is_ok_and(|status| status.success()) {
        tree.group.iter().for_each(ControlGroup::kill);
        kill_all(&tree.targets, &told).await;
    }
    drop(tree);
    told.send_modify(CommandState::end);
}

/// Takes in what a helper tells.
fn on_report(line: &str, tree: &mut ProcessTree, told: &StateSender) {
    let Ok(report) = line.parse() else { return };
    told.send_modify(|state| match report {
        Report::Started(leader) => {
            state.started = Some(Ok(()));
            state.processes.extend(leader);
            tree.targets.add(leader);
        }
        Report::NoFolder(errno) => {
            let error = io::Error::from_raw_os_error(errno);
            state.started = Some(Err(SpawnError::folder(&tree.folder, error)));
        }
        Report::Failed(errno) => {
            let error = io::Error::from_raw_os_error(errno);
            state.started = Some(Err(SpawnError::program(&tree.command, error)));
        }
        Report::Exited(exit) => state.exit = Some(exit),
    });
}

/// Supervises a command without a helper: when this process is gone, nothing does.
pub(crate) async fn direct(
    mut child: Child,
    mut targets: Targets,
    mut orders: OrderReceiver,
    told: StateSender,
) {
    let leader = child.id().and_then(ProcessId::from_pid);
    targets.add(leader);
    told.send_modify(|state| {
        state.started = Some(Ok(()));
        state.processes.extend(leader);
    });
    let (mut running, mut listening) = (true, true);
    let mut deadline = None;
    loop {
        tokio::select! {
            status = child.wait(), if running => {
                running = false;
                told.send_modify(|state| state.exit = Some(Exit::from(status)));
                if targets.is_gone() {
                    break;
                }
            }
            order = orders.recv(), if listening => {
                listening = order.is_some();
                let order = order.unwrap_or(StopOrder::Kill);
                if deadline.is_none() && order != StopOrder::Kill {
                    targets.ask_to_end();
                }
                deadline = earlier(deadline, order.grace());
            }
            () = until(deadline) => {
                kill_all(&targets, &told).await;
                break;
            }
            () = sleep(KILL_PAUSE), if deadline.is_some() && !running => {
                if targets.is_gone() {
                    break;
                }
            }
        }
    }
    if running {
        let exit = Exit::from(child.wait().await);
        told.send_modify(|state| state.exit = Some(exit));
    }
    told.send_modify(CommandState::end);
}

/// Kills until nothing is left, and tells what is still there when that takes long.
async fn kill_all(targets: &Targets, told: &StateSender) {
    let since = Instant::now();
    let mut pause = KILL_PAUSE;
    loop {
        let next = targets.clone();
        let left = match spawn_blocking(move || next.kill_all(KILL_ROUND)).await {
            Ok(Ok(left)) if left.is_empty() => break,
            Ok(Ok(left)) => left.into_iter().map(Survivor::from).collect(),
            Ok(Err(error)) => vec![Survivor { pid: 0, name: format!("unknown: {error}") }],
            // The runtime is shutting down.
            Err(_) => return,
        };
        if since.elapsed() > HELPER_TIMEOUT {
            told.send_modify(|state| state.left = left);
            pause = (pause * 2).min(HELPER_TIMEOUT);
        }
        sleep(pause).await;
    }
    targets.collect();
}

fn earlier(deadline: Option<Instant>, span: Duration) -> Option<Instant> {
    deadline.into_iter().chain(Instant::now().checked_add(span)).min()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
