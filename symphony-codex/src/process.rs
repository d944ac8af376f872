//! The app-server as a process: how it is launched, what it says on stderr, and how it ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use symphony_core::agent::{AgentError, AgentErrorKind, SessionRequest};
use symphony_core::transcript::{Direction, Transcript};
use symphony_host::{
    Exit, Folder, Host, HostCommand, Input, Mark, Output, ProcessScope, RunningCommand, Shell,
    SpawnError, Survivors,
};
use tokio::io::AsyncReadExt as _;
use tokio_util::task::AbortOnDropHandle;

use crate::settings;
use crate::text::one_line;

/// How much of stderr is kept: its end says why.
const STDERR_TAIL_BYTES: usize = 4096;
/// A longer line of stderr is written down in pieces.
const MAX_STDERR_LINE_BYTES: usize = 32 * 1024;
/// How long a process that closed its output may take to end, and its last words to arrive.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// A live app-server and everything it started. Dropped, all of it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    scope: ProcessScope,
    running: RunningCommand,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    listener: AbortOnDropHandle<()>,
}

impl Process {
    /// `bash -lc <codex.command>` in the workspace (contract 10.2), with its output and its input.
    pub(crate) async fn launch(
        host: &Arc<dyn Host>,
        request: &SessionRequest,
    ) -> Result<(Self, Output, Input), AgentError> {
        let mark = Mark::new(&request.service, &request.run.to_string());
        let scope = ProcessScope::new(Arc::clone(host), mark);
        let mut running = scope.start(&command(request)?).await.map_err(not_started)?;
        let streams = (running.stdout.take(), running.stdin.take(), running.stderr.take());
        let (Some(output), Some(input), Some(errors)) = streams else {
            let message = "the host gave the command no streams to talk over";
            return Err(AgentError::new(AgentErrorKind::ProcessExit, message));
        };
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let listener = StderrReader {
            kept: Arc::clone(&stderr),
            transcript: request.transcript.clone(),
            begun: Vec::new(),
        };
        let listener = AbortOnDropHandle::new(tokio::spawn(listener.listen(errors)));
        Ok((Self { scope, running, stderr, listener }, output, input))
    }

    /// The command's number.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.processes().last().map(|process| process.pid())
    }

    /// Waits until the command has ended.
    pub(crate) async fn exited(&mut self) -> Exit {
        self.running.exited().await
    }

    /// Why the conversation is over, in the process's own last words.
    pub(crate) async fn exit_error(&mut self, command: &str) -> AgentError {
        let command = one_line(command, 200);
        let exit = tokio::time::timeout(EXIT_WAIT, self.exited()).await.ok();
        if exit.is_some() {
            // What it left in the background may hold stderr open.
            let _ = tokio::time::timeout(EXIT_WAIT, &mut self.listener).await;
        }
        let (kind, mut message) = match exit {
            Some(Exit::Code(127)) => (
                AgentErrorKind::CodexNotFound,
                format!("`{command}` was not found; install Codex or set codex.command"),
            ),
            Some(exit) => (AgentErrorKind::ProcessExit, format!("`{command}` ended with {exit}")),
            None => (
                AgentErrorKind::ProcessExit,
                format!("`{command}` closed its output, though it still runs"),
            ),
        };
        let words = self.last_words();
        if !words.is_empty() {
            message.push_str("; the end of its stderr: ");
            message.push_str(&words);
        }
        AgentError::new(kind, message)
    }

    /// The end of its stderr, in one line.
    pub(crate) fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        drop(kept);
        one_line(&String::from_utf8_lossy(&bytes), STDERR_TAIL_BYTES)
    }

    /// Ends all of it: SIGTERM, and SIGKILL after the grace. `Ok` means that nothing is left.
    pub(crate) async fn stop(self, grace: Duration) -> Result<(), AgentError> {
        self.scope.close(grace).await.map_err(not_gone)
    }
}

fn command(request: &SessionRequest) -> Result<HostCommand, AgentError> {
    // The handle is the folder that was checked; its path may have come to mean another one.
    let folder = match &request.folder {
        Some(folder) => Folder::Handle(folder.downcast().ok_or_else(|| {
            let message = "the workspace was opened by another kind of host";
            AgentError::new(AgentErrorKind::InvalidWorkspace, message)
        })?),
        None => Folder::Path(request.workspace.clone()),
    };
    let command =
        HostCommand::script(Shell::Bash, settings::command(&request.settings.agent), folder);
    // The host also unsets them after the login profile has run.
    let hidden = request.hidden_env.iter();
    Ok(hidden.fold(command, |command, name| command.remove(name)).with_stdin())
}

/// Hears what the process says on stderr.
struct StderrReader {
    kept: Arc<Mutex<VecDeque<u8>>>,
    transcript: Transcript,
    /// A line that has no end yet.
    begun: Vec<u8>,
}

impl StderrReader {
    /// Reads to the end, however much there is, and keeps the end.
    async fn listen(mut self, mut errors: Output) {
        let mut chunk = vec![0; STDERR_TAIL_BYTES];
        while let Ok(read @ 1..) = errors.read(&mut chunk).await {
            self.keep_the_end(&chunk[..read]);
            if self.transcript.is_kept() {
                self.write_down(&chunk[..read]);
            }
        }
        if !self.begun.is_empty() {
            self.transcript.line(Direction::Stderr, &self.begun);
        }
    }

    fn keep_the_end(&self, chunk: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(chunk);
        let excess = kept.len().saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..excess);
    }

    /// Passes whole lines on. One that does not end is passed on in pieces.
    fn write_down(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= MAX_STDERR_LINE_BYTES {
                self.transcript.line(Direction::Stderr, self.begun.trim_ascii_end());
                self.begun.clear();
            }
        }
    }
}

fn not_started(error: SpawnError) -> AgentError {
    let kind = match &error {
        error if error.is_exhausted() => AgentErrorKind::MachineExhausted,
        SpawnError::Folder { .. } => AgentErrorKind::InvalidWorkspace,
        error if error.is_not_found() => AgentErrorKind::CodexNotFound,
        _ => AgentErrorKind::ProcessExit,
    };
    AgentError::new(kind, "Codex could not be started").with_source(error)
}

fn not_gone(left: Survivors) -> AgentError {
    AgentError::new(AgentErrorKind::ProcessExit, "Codex cannot be ended")
        .with_source(left)
        .still_alive()
}
