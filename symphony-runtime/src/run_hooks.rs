//! What runs the hooks of a run: the shell, or an embedder's own code.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::Settings;
use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};
use symphony_host::{Host, Mark, Survivors};

use crate::panics::catch_panic;
use crate::shell::ShellHooks;

/// The service's way of running hooks.
#[derive(Clone, Debug)]
pub(crate) enum Hooks {
    Shell { host: Arc<dyn Host>, service: Arc<str> },
    Custom(Arc<dyn WorkspaceHooks>),
}

impl Hooks {
    /// The hooks of one run, or of one removal.
    pub(crate) fn for_run(&self, run: &str) -> RunHooks {
        match self {
            Self::Shell { host, service } => {
                RunHooks::Shell(ShellHooks::new(Arc::clone(host), Mark::new(service, run)))
            }
            Self::Custom(hooks) => RunHooks::Custom(Arc::clone(hooks)),
        }
    }
}

/// The hooks of one run.
#[derive(Debug)]
pub(crate) enum RunHooks {
    Shell(ShellHooks),
    Custom(Arc<dyn WorkspaceHooks>),
}

impl RunHooks {
    /// Whether anything is to be run. What an embedder's code does is not known before.
    pub(crate) fn has(&self, hook: Hook, settings: &Settings) -> bool {
        match self {
            Self::Shell(_) => ShellHooks::script(&settings.hooks, hook).is_some(),
            Self::Custom(_) => true,
        }
    }

    /// Runs a hook to its end, also if that is a panic; an embedder's code is bounded in time too.
    pub(crate) async fn run(&self, hook: Hook, cx: &HookContext) -> Result<(), HookError> {
        let limit = cx.settings.hooks.timeout;
        let ended = match self {
            Self::Shell(hooks) => catch_panic(hooks.run(hook, cx)).await,
            Self::Custom(hooks) => {
                let bounded = tokio::time::timeout(limit, catch_panic(hooks.run(hook, cx)));
                bounded.await.unwrap_or_else(|_| {
                    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    Ok(Err(HookError::TimedOut { hook, millis, output: String::new() }))
                })
            }
        };
        ended.unwrap_or_else(|panic| {
            Err(HookError::Failed { hook, status: panic.message, output: String::new() })
        })
    }

    /// Ends what hooks have left in the background.
    pub(crate) async fn close(&self, grace: Duration) -> Result<(), Survivors> {
        match self {
            Self::Shell(hooks) => hooks.close(grace).await,
            Self::Custom(_) => Ok(()),
        }
    }
}
