//! Hooks that are functions.

use std::collections::BTreeMap;
use std::fmt;

use symphony_core::async_trait;
use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};

type Step = Box<dyn Fn(&HookContext) -> Result<(), String> + Send + Sync>;

/// A function for each hook that has one.
#[derive(Default)]
pub struct Functions(BTreeMap<Hook, Step>);

impl Functions {
    /// Sets the function of a hook.
    #[must_use]
    pub fn on(
        mut self,
        hook: Hook,
        step: impl Fn(&HookContext) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.0.insert(hook, Box::new(step));
        self
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[async_trait]
impl WorkspaceHooks for Functions {
    async fn run(&self, hook: Hook, cx: &HookContext) -> Result<(), HookError> {
        let Some(step) = self.0.get(&hook) else {
            return Ok(());
        };
        step(cx).map_err(|status| HookError::Failed { hook, status, output: String::new() })
    }
}
