//! An agent of your own: a shell command for each turn.
//!
//!     cargo run --example custom_agent
//!     cargo run --example custom_agent -- 'my-agent --read-prompt-from-stdin'
//!
//! The command runs in the issue's workspace with the prompt on its standard input. The last line
//! that it prints is shown as what the agent did; an exit code other than 0 is a failed turn, which
//! is tried again later. A last line `state: Done` moves the issue there.
//!
//! To write a backend for another agent, copy this file and put its protocol into `run_turn`.
//! Contract section 10 has the rules.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use serde_json::json;
use symphony::core::agent::{
    AgentBackend, AgentError, AgentErrorKind, AgentEvent, AgentSession, AgentUpdate,
    SessionRequest, Turn, TurnEnd, Updates,
};
use symphony::core::orchestrator::{NoticeKind, RunEnd};
use symphony::core::time::Wall;
use symphony::core::tracker::ToolCall;
use symphony::core::{Issue, Settings, StateSet};
use symphony::host::{
    Folder, Host, HostCommand, Input, LocalHost, Mark, Output, ProcessScope, Shell, SpawnError,
};
use symphony::memory::MemoryTracker;
use symphony::{FixedAgent, FixedTracker, NoticeItem, Service, ServiceEnd, plain};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// An agent that is not very clever.
const COMMAND: &str = "cat > prompt.txt; echo 'state: Done'";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    symphony::host::init(); // each command runs below a helper, which is this program again
    let command = std::env::args().nth(1).unwrap_or_else(|| COMMAND.to_owned());
    let folder = tempfile::tempdir()?;
    let board = MemoryTracker::new();
    board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);

    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("board", active, over, folder.path().to_owned());
    settings.agent.kind = "shell".to_owned();
    let service = Service::builder()
        .settings(settings, "Please do this: {{ issue.title }}.")
        .tracker(FixedTracker::new("board", Arc::new(board)))
        .agent(FixedAgent::new("shell", Arc::new(ShellAgent::new(command))))
        .build()
        .await?;
    let handle = service.handle();
    let mut notices = handle.subscribe()?;
    let running = tokio::spawn(service.run());

    // What an agent says is a stranger's text: `plain` makes it fit for a screen.
    while let Some(item) = notices.next().await {
        // A program that reads too slowly is told how many notices it missed.
        let NoticeItem::Notice(notice) = item else { continue };
        match &notice.what {
            NoticeKind::Ended { end: RunEnd::Failed(failure), .. } => {
                println!("failed: {}", plain(&failure.to_string(), 200));
            }
            NoticeKind::Ended { .. } => {
                let events = notice.run.map(|run| handle.events(run)).unwrap_or_default();
                for event in events {
                    println!("the agent: {}", plain(&event.summary, 200));
                }
            }
            NoticeKind::Cleaned => handle.shut_down()?,
            _ => {}
        }
    }
    assert_eq!(running.await?, ServiceEnd::Drained);
    println!("MT-1 is done");
    Ok(())
}

/// Opens sessions. It is built once and serves every run.
#[derive(Debug)]
struct ShellAgent {
    command: String,
    host: Arc<dyn Host>,
}

impl ShellAgent {
    fn new(command: String) -> Self {
        Self { command, host: Arc::new(LocalHost::new()) }
    }
}

#[async_trait]
impl AgentBackend for ShellAgent {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        // Everything that a run starts is in one scope, marked as what it is.
        let mark = Mark::new(&request.service, &request.run.to_string());
        let scope = ProcessScope::new(Arc::clone(&self.host), mark);
        Ok(Box::new(ShellSession { command: self.command.clone(), scope, request }))
    }
}

/// One run. It has no process between turns; an agent that keeps one starts it in `open`.
struct ShellSession {
    command: String,
    scope: ProcessScope,
    request: SessionRequest,
}

#[async_trait]
impl AgentSession for ShellSession {
    /// If this is dropped at any await, so is the command, and its whole tree is killed.
    async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
        let mut running = self.scope.start(&self.command()?).await.map_err(not_started)?;
        let thread = self.request.run.to_string();
        self.request.updates.send(AgentUpdate::Session {
            thread: thread.as_str().into(),
            session_id: format!("{thread}-{}", turn.number).into(),
            pid: running.processes().last().map(|process| process.pid()),
        });
        let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
        // What the command leaves in the background goes with it, and with that its output ends.
        let grace = self.request.settings.agent.stop_grace;
        let ended = async {
            running.exited().await;
            running.stop(grace).await
        };
        // All at once: a command may print before it reads, or never read at all.
        let updates = &self.request.updates;
        let (ended, said, ()) =
            tokio::join!(ended, listen(stdout, updates), tell(stdin, &turn.prompt));
        let exit = ended.map_err(not_gone)?;
        let last = said.trim_end().lines().next_back().unwrap_or_default().trim();
        if !exit.is_success() {
            let message = format!("the command ended with {exit}: {last}");
            return Err(AgentError::new(AgentErrorKind::TurnFailed, message));
        }
        self.show("turn_completed", last);
        if let Some(state) = last.strip_prefix("state: ") {
            self.move_to(state).await;
        }
        Ok(TurnEnd::Completed)
    }

    /// When this returns `Ok`, nothing is left: only then is the workspace given to another run.
    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        let grace = self.request.settings.agent.stop_grace;
        self.scope.close(grace).await.map_err(not_gone)
    }
}

impl ShellSession {
    fn command(&self) -> Result<HostCommand, AgentError> {
        // The handle is the folder that was checked; its path may have come to mean another one.
        let folder = match &self.request.folder {
            Some(folder) => Folder::Handle(folder.downcast().ok_or_else(|| {
                let message = "the workspace was opened by another kind of host";
                AgentError::new(AgentErrorKind::InvalidWorkspace, message)
            })?),
            None => Folder::Path(self.request.workspace.clone()),
        };
        let mut command = HostCommand::script(Shell::Bash, &self.command, folder);
        for name in self.request.hidden_env.iter() {
            command = command.remove(name); // the tracker's secrets
        }
        Ok(command.with_stdin().merge_output())
    }

    fn show(&self, name: &str, summary: &str) {
        let at = Wall::from(SystemTime::now());
        let event = AgentEvent { name: name.to_owned(), summary: summary.to_owned(), at };
        self.request.updates.send(AgentUpdate::Event(Arc::new(event)));
    }

    /// The tracker's tools run here, in the service, on behalf of the agent.
    async fn move_to(&self, state: &str) {
        let Some(tools) = &self.request.tools else { return };
        let issue = Arc::clone(&self.request.issue);
        let arguments = json!({ "state": state });
        self.request.updates.send(AgentUpdate::ToolBegan); // silence is now no stall
        let name = "update_issue".to_owned();
        let result = tools.call(ToolCall { name, arguments, issue }).await;
        self.request.updates.send(AgentUpdate::ToolEnded { changed_issue: result.changed });
        if !result.success {
            self.show("tool_call_failed", &result.text);
        }
    }
}

/// Writes the prompt. A command that does not want to read it is free not to.
async fn tell(stdin: Option<Input>, prompt: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(prompt.as_bytes()).await;
    }
}

/// Reads to the end and keeps the last 4 KiB, however much there is. While something comes the
/// scheduler hears that the agent lives, once a second at most.
async fn listen(stdout: Option<Output>, updates: &Updates) -> String {
    let Some(mut stdout) = stdout else { return String::new() };
    let (mut tail, mut chunk) = (Vec::new(), vec![0; 4096]);
    let mut told: Option<Instant> = None;
    while let Ok(read @ 1..) = stdout.read(&mut chunk).await {
        tail.extend_from_slice(&chunk[..read]);
        tail.drain(..tail.len().saturating_sub(4096));
        if told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1)) {
            told = Some(Instant::now());
            updates.send(AgentUpdate::Alive);
        }
    }
    String::from_utf8_lossy(&tail).into_owned()
}

fn not_started(error: SpawnError) -> AgentError {
    let kind = match &error {
        SpawnError::Folder { .. } => AgentErrorKind::InvalidWorkspace,
        error if error.is_not_found() => AgentErrorKind::NotFound,
        _ => AgentErrorKind::ProcessExit,
    };
    AgentError::new(kind, "the command could not be started").with_source(error)
}

fn not_gone(left: symphony::host::Survivors) -> AgentError {
    AgentError::new(AgentErrorKind::ProcessExit, "the command cannot be ended").with_source(left)
}
