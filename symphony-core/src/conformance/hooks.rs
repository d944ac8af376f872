//! The rules of contract 9.4 and 9.5 that hold for every [`WorkspaceHooks`].

use std::future::Future;
use std::sync::Arc;

use super::{Able, Rule, RuleResult, abandon, broken, ensure_eq};
use crate::hooks::{Hook, HookContext, HookError, WorkspaceHooks};

const ALL_HOOKS: [Hook; 4] =
    [Hook::AfterCreate, Hook::BeforeRun, Hook::AfterRun, Hook::BeforeRemove];

/// Hooks that do what a test tells them.
///
/// Each rule gets a fresh one, in which no hook is configured.
pub trait HooksFixture {
    /// Runs a future to its end. With a time limit, hooks that hang fail instead.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// The hooks.
    fn hooks(&self) -> Arc<dyn WorkspaceHooks>;

    /// A context with what is configured so far, and a short `hooks.timeout_ms`.
    fn context(&self) -> HookContext;

    /// Configures a hook.
    ///
    /// # Errors
    /// It cannot be made to do this.
    fn configure(&self, hook: Hook, script: HookScript) -> Able;

    /// The hooks that were begun, in order.
    fn begun(&self) -> Vec<Hook>;

    /// How many hooks still run. It may wait a moment for those that are on their way out.
    fn alive(&self) -> usize;
}

/// What a hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookScript {
    /// It ends well.
    Succeed,
    /// It ends badly.
    Fail,
    /// It never ends.
    Hang,
}

fn run<F: HooksFixture>(fixture: &F, hook: Hook) -> Result<(), HookError> {
    fixture.block_on(fixture.hooks().run(hook, &fixture.context()))
}

/// Nothing to do is done.
pub fn rule_9_4_a_hook_that_is_not_configured_succeeds<F: HooksFixture>(fixture: &F) -> RuleResult {
    for hook in ALL_HOOKS {
        run(fixture, hook).map_err(|error| broken(error.to_string()))?;
    }
    ensure_eq("hooks begun", fixture.begun(), Vec::new())
}

/// The hook that was asked for, and no other.
pub fn rule_9_4_each_hook_runs_when_asked_and_only_then<F: HooksFixture>(
    fixture: &F,
) -> RuleResult {
    for hook in ALL_HOOKS {
        fixture.configure(hook, HookScript::Succeed)?;
    }
    for (done, hook) in ALL_HOOKS.into_iter().enumerate() {
        run(fixture, hook).map_err(|error| broken(error.to_string()))?;
        ensure_eq("hooks begun", fixture.begun(), ALL_HOOKS[..=done].to_vec())?;
    }
    Ok(())
}

/// The caller decides what a failure means, so it must know which hook it was.
pub fn rule_9_4_a_hook_that_fails_is_an_error_that_names_it<F: HooksFixture>(
    fixture: &F,
) -> RuleResult {
    for hook in ALL_HOOKS {
        fixture.configure(hook, HookScript::Fail)?;
        let error = run(fixture, hook).err().map(|error| error.hook());
        ensure_eq("the hook that failed", error, Some(hook))?;
    }
    Ok(())
}

/// A hook that does not end is ended.
pub fn rule_9_5_a_hook_that_hangs_times_out_and_is_gone<F: HooksFixture>(
    fixture: &F,
) -> RuleResult {
    fixture.configure(Hook::BeforeRun, HookScript::Hang)?;
    match run(fixture, Hook::BeforeRun) {
        Err(HookError::TimedOut { hook: Hook::BeforeRun, .. }) => {}
        other => return Err(broken(format!("the hook that hangs ended with {other:?}"))),
    }
    ensure_eq("hooks alive", fixture.alive(), 0)
}

/// A hook may be dropped wherever it is.
pub fn rule_9_5_a_dropped_hook_leaves_nothing<F: HooksFixture>(fixture: &F) -> RuleResult {
    fixture.configure(Hook::BeforeRun, HookScript::Hang)?;
    let (hooks, cx) = (fixture.hooks(), fixture.context());
    for polls in [0, 1, 2, 20] {
        let running = hooks.run(Hook::BeforeRun, &cx);
        drop(fixture.block_on(abandon(running, polls)));
        ensure_eq("hooks alive after a drop", fixture.alive(), 0)?;
    }
    Ok(())
}

/// Every rule with its name, for a run outside the test harness.
#[must_use]
pub fn rules<F: HooksFixture>() -> Vec<Rule<F>> {
    crate::__hooks_rules!(__conformance_list,)
}

/// One test per rule for hooks.
///
/// The argument is an expression that makes a fresh `conformance::HooksFixture`; it is evaluated
/// once per test. Rules that the fixture cannot set up follow, each with the reason:
/// `skip: { rule_name: "why", .. }`. Their tests are `#[ignore]`d.
#[macro_export]
macro_rules! hooks_conformance {
    ($fixture:expr $(, skip: { $($skipped:ident: $why:literal),* $(,)? })? $(,)?) => {
        $crate::__conformance_skips! { ($) hooks; $($($skipped: $why),*)? }
        $crate::__hooks_rules!(__conformance_tests, hooks, $fixture);
    };
}

#[doc(hidden)]
pub mod names {
    crate::__hooks_rules!(__conformance_names,);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __hooks_rules {
    ($then:ident, $($args:tt)*) => {
        $crate::$then! { $($args)*;
            rule_9_4_a_hook_that_is_not_configured_succeeds,
            rule_9_4_each_hook_runs_when_asked_and_only_then,
            rule_9_4_a_hook_that_fails_is_an_error_that_names_it,
            rule_9_5_a_hook_that_hangs_times_out_and_is_gone,
            rule_9_5_a_dropped_hook_leaves_nothing,
        }
    };
}
