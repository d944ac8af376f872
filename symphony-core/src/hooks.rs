//! The team's own steps around a workspace and a run (contract section 9).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::issue::Issue;
use crate::run::RunId;
use crate::settings::Settings;
use crate::workspace::OpenFolder;

/// Runs hooks. The bundled one runs the shell scripts of `hooks.*`.
#[async_trait]
pub trait WorkspaceHooks: fmt::Debug + Send + Sync {
    /// Runs one hook to its end, within `hooks.timeout_ms`; one that is not configured succeeds.
    ///
    /// Safe to drop at any await: what was started is then gone.
    ///
    /// # Errors
    /// What the hook said. The caller knows which failures matter (9.4).
    async fn run(&self, hook: Hook, cx: &HookContext) -> Result<(), HookError>;
}

/// The moments at which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// In a new workspace. A failure takes the workspace with it.
    AfterCreate,
    /// Before an attempt. A failure fails the attempt.
    BeforeRun,
    /// After every attempt that had a workspace. A failure is logged.
    AfterRun,
    /// Before a workspace is removed. A failure is logged.
    BeforeRemove,
}

impl Hook {
    /// Returns the key under `hooks` in the workflow file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterCreate => "after_create",
            Self::BeforeRun => "before_run",
            Self::AfterRun => "after_run",
            Self::BeforeRemove => "before_remove",
        }
    }
}

/// What a hook knows of its run and its workspace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookContext {
    /// The run it belongs to; none when a workspace is swept.
    pub run: Option<RunId>,
    /// The issue that the workspace belongs to.
    pub issue: Arc<Issue>,
    /// The workspace, and the hook's working folder.
    pub workspace: PathBuf,
    /// The same folder as an open handle, where there is one: a command that starts in it cannot
    /// be led elsewhere (contract 9.2).
    pub folder: Option<OpenFolder>,
    /// The attempt, counted as in the prompt.
    pub attempt: Option<u32>,
    /// The settings that apply.
    pub settings: Arc<Settings>,
    /// Environment variables the hook must not see.
    pub hidden_env: Arc<[String]>,
}

impl HookContext {
    /// A context with nothing optional.
    #[must_use]
    pub fn new(issue: Arc<Issue>, workspace: PathBuf, settings: Arc<Settings>) -> Self {
        Self {
            run: None,
            issue,
            workspace,
            folder: None,
            attempt: None,
            settings,
            hidden_env: Arc::from([]),
        }
    }
}

/// Why a hook failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// It ended with a status other than zero.
    #[error("{hook} ended with {status}", hook = hook.as_str())]
    Failed {
        /// The hook that failed.
        hook: Hook,
        /// The exit code or signal.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// It did not end in time, and was ended.
    #[error("{hook} did not end within {millis} ms{}", silence_hint(output), hook = hook.as_str())]
    TimedOut {
        /// The hook that failed.
        hook: Hook,
        /// The time limit in milliseconds.
        millis: u64,
        /// The end of what it printed.
        output: String,
    },
    /// It could not be started.
    #[error("{hook} could not be started: {message}", hook = hook.as_str())]
    NotStarted {
        /// The hook that failed.
        hook: Hook,
        /// Why it could not be started.
        message: String,
    },
    /// It could not be started because the machine has no room for another process.
    #[error("{hook} could not be started: {message}", hook = hook.as_str())]
    MachineExhausted {
        /// The hook that failed.
        hook: Hook,
        /// Why it could not be started.
        message: String,
    },
}

/// Returns a hint for a script that printed nothing: the login profile runs before it.
fn silence_hint(output: &str) -> &'static str {
    match output.trim() {
        "" => "; nothing was heard from it, not even on stderr: it or its login profile may hang",
        _ => "",
    }
}

impl HookError {
    /// Returns the hook that failed.
    #[must_use]
    pub const fn hook(&self) -> Hook {
        match self {
            Self::Failed { hook, .. }
            | Self::TimedOut { hook, .. }
            | Self::NotStarted { hook, .. }
            | Self::MachineExhausted { hook, .. } => *hook,
        }
    }
}

impl From<&HookError> for Failure {
    fn from(error: &HookError) -> Self {
        let kind = match error {
            HookError::MachineExhausted { .. } => FailureKind::Machine,
            error => FailureKind::Hook(error.hook()),
        };
        Self::new(kind, error.to_string())
    }
}
