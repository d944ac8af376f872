//! What a scripted agent does, written down beforehand.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::agent::{AgentErrorKind, RateLimits, Tokens};
use symphony_core::time::Wall;
use tokio::sync::watch;

use crate::update_issue::UPDATE_ISSUE;

/// What an agent does in one session: when it opens, turn by turn, and when it closes.
///
/// A turn that has run out of steps completes, and so does every turn after the last one.
///
/// ```
/// use std::time::Duration;
/// use symphony_memory::AgentScript;
///
/// let script = AgentScript::new()
///     .say("reading the issue")
///     .wait(Duration::from_millis(200))
///     .write("notes.md", "half of it\n")
///     .next_turn()
///     .append("notes.md", "the other half\n")
///     .set_state("Done");
/// assert_eq!(script.turns().len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentScript {
    opening: Vec<ScriptStep>,
    turns: Vec<Vec<ScriptStep>>,
    closing: Vec<ScriptStep>,
}

/// One thing an agent does. All but [`Hang`](Self::Hang) and [`Stall`](Self::Stall) come to an
/// end by themselves.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Says something: a `notification`.
    Say(String),
    /// Reports an event.
    Event {
        /// The event's name.
        name: String,
        /// One line about it.
        summary: String,
    },
    /// Shows a sign of life that says nothing.
    Alive,
    /// Is silent for a while.
    Wait(Duration),
    /// Is silent until the gate is open.
    WaitFor(Gate),
    /// Uses tokens, and reports the conversation's new total.
    Spend(Tokens),
    /// Reports limits.
    RateLimits(RateLimits),
    /// Writes a file in the workspace, and the folders it needs.
    Write {
        /// Where, from the workspace.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// Adds to the end of a file in the workspace.
    Append {
        /// Where, from the workspace.
        path: PathBuf,
        /// What to add.
        text: String,
    },
    /// Calls a tool of the tracker. Whatever it answers, the agent goes on.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Ends the turn with a question.
    Ask(String),
    /// Fails: the turn, the opening or the closing.
    Fail {
        /// How.
        kind: AgentErrorKind,
        /// What it says.
        message: String,
        /// When to try again, where it says so.
        retry_at: Option<Wall>,
    },
    /// The agent's process ends, now and for every turn to come.
    Exit(String),
    /// Never ends, with a sign of life every second.
    Hang,
    /// Never ends, in silence.
    Stall,
}

impl AgentScript {
    /// An agent that completes its turn at once.
    #[must_use]
    pub fn new() -> Self {
        Self { turns: vec![Vec::new()], ..Self::default() }
    }

    /// What follows belongs to the next turn.
    #[must_use]
    pub fn next_turn(mut self) -> Self {
        self.turns.push(Vec::new());
        self
    }

    /// Does this as well before the session is open.
    #[must_use]
    pub fn on_open(mut self, step: ScriptStep) -> Self {
        self.opening.push(step);
        self
    }

    /// Does this as well before the session is closed. If that fails, the agent lives on.
    #[must_use]
    pub fn on_close(mut self, step: ScriptStep) -> Self {
        self.closing.push(step);
        self
    }

    /// Does this next.
    #[must_use]
    pub fn then(mut self, step: ScriptStep) -> Self {
        match self.turns.last_mut() {
            Some(turn) => turn.push(step),
            None => self.turns.push(vec![step]),
        }
        self
    }

    /// [`ScriptStep::Say`]
    #[must_use]
    pub fn say(self, line: impl Into<String>) -> Self {
        self.then(ScriptStep::Say(line.into()))
    }

    /// [`ScriptStep::Event`]
    #[must_use]
    pub fn event(self, name: &str, summary: &str) -> Self {
        self.then(ScriptStep::Event { name: name.to_owned(), summary: summary.to_owned() })
    }

    /// [`ScriptStep::Wait`]
    #[must_use]
    pub fn wait(self, span: Duration) -> Self {
        self.then(ScriptStep::Wait(span))
    }

    /// [`ScriptStep::WaitFor`]
    #[must_use]
    pub fn wait_for(self, gate: &Gate) -> Self {
        self.then(ScriptStep::WaitFor(gate.clone()))
    }

    /// [`ScriptStep::Spend`], with the sum of both as the total.
    #[must_use]
    pub fn spend(self, input: u64, output: u64) -> Self {
        let total = input.saturating_add(output);
        self.then(ScriptStep::Spend(Tokens { input, output, total, ..Tokens::default() }))
    }

    /// [`ScriptStep::Write`]
    #[must_use]
    pub fn write(self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.then(ScriptStep::Write { path: path.into(), text: text.into() })
    }

    /// [`ScriptStep::Append`]
    #[must_use]
    pub fn append(self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.then(ScriptStep::Append { path: path.into(), text: text.into() })
    }

    /// [`ScriptStep::Call`]
    #[must_use]
    pub fn call(self, tool: &str, arguments: Value) -> Self {
        self.then(ScriptStep::Call { tool: tool.to_owned(), arguments })
    }

    /// Moves its issue with the tool `update_issue`.
    #[must_use]
    pub fn set_state(self, state: &str) -> Self {
        self.call(UPDATE_ISSUE, json!({ "state": state }))
    }

    /// [`ScriptStep::Ask`]
    #[must_use]
    pub fn ask(self, question: &str) -> Self {
        self.then(ScriptStep::Ask(question.to_owned()))
    }

    /// [`ScriptStep::Fail`]
    #[must_use]
    pub fn fail(self, kind: AgentErrorKind, message: &str) -> Self {
        self.then(ScriptStep::Fail { kind, message: message.to_owned(), retry_at: None })
    }

    /// [`ScriptStep::Exit`]
    #[must_use]
    pub fn exit(self, message: &str) -> Self {
        self.then(ScriptStep::Exit(message.to_owned()))
    }

    /// [`ScriptStep::Hang`]
    #[must_use]
    pub fn hang(self) -> Self {
        self.then(ScriptStep::Hang)
    }

    /// [`ScriptStep::Stall`]
    #[must_use]
    pub fn stall(self) -> Self {
        self.then(ScriptStep::Stall)
    }

    /// The steps of each turn.
    #[must_use]
    pub fn turns(&self) -> &[Vec<ScriptStep>] {
        &self.turns
    }

    pub(crate) fn opening(&self) -> &[ScriptStep] {
        &self.opening
    }

    pub(crate) fn closing(&self) -> &[ScriptStep] {
        &self.closing
    }

    /// The steps of a turn, counted from one.
    pub(crate) fn turn(&self, number: u32) -> &[ScriptStep] {
        let index = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        self.turns.get(index).map_or(&[], Vec::as_slice)
    }
}

/// One script for every session of an issue, or one for each session in turn.
///
/// After the last of several, the last one is followed again.
#[derive(Clone, Debug, Default)]
pub struct Scripts(Vec<AgentScript>);

impl Scripts {
    /// The script of a session, counted from one.
    pub(crate) fn of_session(&self, session: u32) -> AgentScript {
        let index = usize::try_from(session).unwrap_or(usize::MAX).saturating_sub(1);
        self.0.get(index).or(self.0.last()).cloned().unwrap_or_default()
    }
}

impl From<AgentScript> for Scripts {
    fn from(script: AgentScript) -> Self {
        Self(vec![script])
    }
}

impl<const N: usize> From<[AgentScript; N]> for Scripts {
    fn from(scripts: [AgentScript; N]) -> Self {
        Self(scripts.into())
    }
}

/// Something agents wait for, until a test opens it. Clones are one gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it, for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn wait(&self) {
        // The sender lives as long as we do, so this ends with the condition only.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self.0.borrow() { "Gate(open)" } else { "Gate(closed)" })
    }
}
