//! Hooks as shell scripts (contract 9.4, 9.5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use symphony_core::failure::chain;
use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};
use symphony_core::settings::HookSettings;
use symphony_host::{
    Folder, Host, HostCommand, Mark, ProcessScope, RunError, RunLimit, Shell, Survivors,
};
use tracing::{debug, info};

use crate::plain::safe;

/// How much of an issue's text goes into one variable: the system limits their sum.
const MAX_VARIABLE_BYTES: usize = 8 * 1024;

/// The hooks of one run, by `sh -lc` in the workspace.
///
/// What a successful hook leaves in the background lives until [`close`](Self::close).
#[derive(Debug)]
pub struct ShellHooks {
    scope: ProcessScope,
}

impl ShellHooks {
    /// Hooks of a run with this mark, on a host.
    #[must_use]
    pub fn new(host: Arc<dyn Host>, mark: Mark) -> Self {
        Self { scope: ProcessScope::new(host, mark) }
    }

    /// What a hook runs; nothing where there is none.
    pub(crate) fn script(settings: &HookSettings, hook: Hook) -> Option<&str> {
        let script = match hook {
            Hook::AfterCreate => &settings.after_create,
            Hook::BeforeRun => &settings.before_run,
            Hook::AfterRun => &settings.after_run,
            Hook::BeforeRemove => &settings.before_remove,
            _ => &None,
        };
        script.as_deref().filter(|script| !script.trim().is_empty())
    }

    /// Ends everything that hooks have left in the background. No hook runs after this.
    ///
    /// # Errors
    /// What could not be ended.
    pub async fn close(&self, grace: Duration) -> Result<(), Survivors> {
        self.scope.close(grace).await
    }
}

#[async_trait]
impl WorkspaceHooks for ShellHooks {
    async fn run(&self, hook: Hook, cx: &HookContext) -> Result<(), HookError> {
        let settings = &cx.settings.hooks;
        let Some(script) = Self::script(settings, hook) else { return Ok(()) };
        let command = command(script, hook, cx)?;
        debug!(hook = hook.as_str(), "hook begins");
        let finished = self.scope.run(&command, RunLimit::new(settings.timeout)).await;
        let finished = finished.map_err(|error| failed(hook, error))?;
        let output = finished.output.to_string();
        let told = safe(&output);
        info!(hook = hook.as_str(), status = %finished.exit, output = told, "hook ended");
        if finished.exit.is_success() {
            return Ok(());
        }
        Err(HookError::Failed { hook, status: finished.exit.to_string(), output })
    }
}

fn command(script: &str, hook: Hook, cx: &HookContext) -> Result<HostCommand, HookError> {
    let folder = match &cx.folder {
        // Its path alone would do, but may have come to mean another folder.
        Some(folder) => Folder::Handle(folder.downcast().ok_or_else(|| HookError::NotStarted {
            hook,
            message: "the workspace was opened by another kind of host".to_owned(),
        })?),
        None => Folder::Path(cx.workspace.clone()),
    };
    let mut command = HostCommand::script(Shell::Sh, script, folder);
    for name in cx.hidden_env.iter() {
        if !cx.settings.hooks.env.contains(name) {
            command = command.remove(name);
        }
    }
    let issue = &cx.issue;
    let attempt = cx.attempt.map(|attempt| attempt.to_string()).unwrap_or_default();
    // What an issue does not have is empty, not unset: a value of ours must not be an inherited one.
    let texts = [
        ("SYMPHONY_ISSUE_ID", issue.id.as_str()),
        ("SYMPHONY_ISSUE_IDENTIFIER", issue.identifier.as_str()),
        ("SYMPHONY_ISSUE_TITLE", issue.title.as_str()),
        ("SYMPHONY_ISSUE_STATE", issue.state.as_str()),
        ("SYMPHONY_ISSUE_URL", issue.url.as_deref().unwrap_or_default()),
        ("SYMPHONY_ISSUE_BRANCH", issue.branch_name.as_deref().unwrap_or_default()),
        ("SYMPHONY_ATTEMPT", &attempt),
        ("SYMPHONY_HOOK", hook.as_str()),
    ];
    for (name, text) in texts {
        command = command.set(name, value(text));
    }
    Ok(command.set("SYMPHONY_WORKSPACE", cx.workspace.as_os_str()))
}

/// A text as a variable can hold it.
fn value(text: &str) -> String {
    let end = text.len().min(MAX_VARIABLE_BYTES);
    let end = (0..=end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text[..end].replace('\0', "\u{fffd}")
}

/// Whether this is only the shell's note that a command of its was ended, as it was by us.
fn is_shells_own(output: &str) -> bool {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    lines.all(|line| line.contains("Terminated"))
}

fn failed(hook: Hook, error: RunError) -> HookError {
    match error {
        RunError::TimedOut { after, output } => {
            let output = output.to_string();
            let output = if is_shells_own(&output) { String::new() } else { output };
            info!(hook = hook.as_str(), output = safe(&output), "hook was ended");
            let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            HookError::TimedOut { hook, millis, output }
        }
        RunError::Start(error) if error.is_exhausted() => {
            HookError::MachineExhausted { hook, message: chain(&error) }
        }
        RunError::Start(error) => HookError::NotStarted { hook, message: chain(&error) },
        other => HookError::Failed { hook, status: other.to_string(), output: String::new() },
    }
}
