//! One test per rule for a third-party adapter (contract 11.6).
//!
//! The author implements a small fixture, which seeds the adapter's world and looks into it, and
//! writes one line. The line expands to one `#[test]` per rule, named by the rule, so failures
//! show one by one.
//!
//! What a fixture cannot set up it says with [`Unable`]. The rules that need it are named in the line,
//! each with its reason, and become `#[ignore]`d tests: `cargo test` lists them with their reasons and
//! counts them. A rule that cannot be set up and is not named fails, so that nothing is skipped
//! unseen; with `cargo test -- --include-ignored` one that is named and could be set up fails too.
//!
//! - [`tracker_conformance!`](crate::tracker_conformance) with a [`TrackerFixture`]
//! - [`agent_conformance!`](crate::agent_conformance) with an [`AgentFixture`]
//! - [`hooks_conformance!`](crate::hooks_conformance) with a [`HooksFixture`]
//! - [`store_conformance!`](crate::store_conformance) with a [`StoreFixture`]
//!
//! The core has no runtime, so a fixture also says how to run a future; with tokio that is
//! `self.runtime.block_on(future)`. The folder `tests/outside` of Symphony's repository is a crate
//! that runs the first three with nothing but `symphony-core`.
//!
//! # Example
//!
//! ```
//! use std::future::Future;
//! use std::path::PathBuf;
//! use std::pin::pin;
//! use std::sync::Arc;
//! use std::task::{Context, Poll, Waker};
//! use symphony_core::conformance::hooks::{self, HookScript};
//! use symphony_core::conformance::{Able, Deviation, HooksFixture, Unable};
//! use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};
//! use symphony_core::{Issue, Settings, StateSet};
//!
//! /// The adapter: hooks that do nothing.
//! #[derive(Debug)]
//! struct NoHooks;
//!
//! #[async_trait::async_trait]
//! impl WorkspaceHooks for NoHooks {
//!     async fn run(&self, _: Hook, _: &HookContext) -> Result<(), HookError> {
//!         Ok(())
//!     }
//! }
//!
//! /// Its fixture.
//! struct Fixture;
//!
//! impl HooksFixture for Fixture {
//!     fn block_on<F: Future>(&self, future: F) -> F::Output {
//!         let mut future = pin!(future);
//!         loop {
//!             let mut cx = Context::from_waker(Waker::noop());
//!             if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
//!                 return output;
//!             }
//!         }
//!     }
//!     fn hooks(&self) -> Arc<dyn WorkspaceHooks> {
//!         Arc::new(NoHooks)
//!     }
//!     fn context(&self) -> HookContext {
//!         let issue = Issue::new("id-1", "MT-1", "Mend the gate", "Todo").unwrap();
//!         let root = PathBuf::from("/workspaces");
//!         let states = StateSet::default();
//!         let settings = Settings::new("memory", states.clone(), states, root.clone());
//!         HookContext::new(Arc::new(issue), root.join("MT-1"), Arc::new(settings))
//!     }
//!     fn configure(&self, _: Hook, _: HookScript) -> Able {
//!         Err(Unable("these hooks do nothing"))
//!     }
//!     fn begun(&self) -> Vec<Hook> {
//!         Vec::new()
//!     }
//!     fn alive(&self) -> usize {
//!         0
//!     }
//! }
//!
//! // In a test file, this line is all that is left to write. It makes one test per rule.
//! mod conformance {
//!     symphony_core::hooks_conformance!(super::Fixture, skip: {
//!         rule_9_4_each_hook_runs_when_asked_and_only_then: "these hooks do nothing",
//!         rule_9_4_a_hook_that_fails_is_an_error_that_names_it: "these hooks do nothing",
//!         rule_9_5_a_hook_that_hangs_times_out_and_is_gone: "these hooks do nothing",
//!         rule_9_5_a_dropped_hook_leaves_nothing: "these hooks do nothing",
//!     });
//! }
//!
//! // The same rules, one by one.
//! for (name, check) in hooks::rules() {
//!     let broken = matches!(check(&Fixture), Err(Deviation::Broken(_)));
//!     assert!(!broken, "{name}");
//! }
//! ```

pub mod agent;
pub mod hooks;
pub mod store;
pub mod tracker;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

pub use agent::AgentFixture;
pub use hooks::HooksFixture;
pub use store::StoreFixture;
pub use tracker::TrackerFixture;

/// What a fixture cannot set up, and why: the rules that need it have to be skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable(pub &'static str);

/// What a fixture did, if it can.
pub type Able<T = ()> = Result<T, Unable>;

/// A rule of a kit: its name, and the check of a fixture.
pub type Rule<F> = (&'static str, fn(&F) -> RuleResult);

/// How an adapter did on one rule.
pub type RuleResult = Result<(), Deviation>;

/// Why a rule was not shown to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The fixture cannot set it up.
    Skipped(Unable),
    /// The adapter does something else.
    Broken(Broken),
}

/// What an adapter does instead of what the rule says.
#[derive(Clone, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Debug for Broken {
    /// As plain text: this is what a failed test prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Unable> for Deviation {
    fn from(unable: Unable) -> Self {
        Self::Skipped(unable)
    }
}

fn broken(what: impl Into<String>) -> Deviation {
    Deviation::Broken(Broken(what.into()))
}

fn ensure(kept: bool, otherwise: impl FnOnce() -> String) -> RuleResult {
    if kept { Ok(()) } else { Err(broken(otherwise())) }
}

#[expect(clippy::needless_pass_by_value, reason = "reads like an assertion")]
fn ensure_eq<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> RuleResult {
    ensure(found == expected, || format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Polls a future a few times and drops it, wherever it then is; its output if it was faster.
async fn abandon<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Runs futures side by side.
async fn join_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut open: Vec<_> = futures.into_iter().map(|f| (Some(f), None)).collect();
    poll_fn(move |cx| {
        for (future, result) in &mut open {
            if let Some(running) = future
                && let Poll::Ready(value) = running.as_mut().poll(cx)
            {
                (*future, *result) = (None, Some(value));
            }
        }
        if open.iter().any(|(future, _)| future.is_some()) {
            return Poll::Pending;
        }
        Poll::Ready(open.drain(..).filter_map(|(_, result)| result).collect())
    })
    .await
}

/// The outcome of the test of a rule that is not named in `skip`.
///
/// # Errors
/// The rule is broken, or cannot be set up.
#[doc(hidden)]
pub fn kept(rule: &str, verdict: RuleResult) -> Result<(), Broken> {
    match verdict {
        Ok(()) => Ok(()),
        Err(Deviation::Broken(broken)) => Err(broken),
        Err(Deviation::Skipped(Unable(why))) => {
            let line = format!("skip: {{ {rule}: {why:?} }}");
            Err(Broken(format!("cannot be set up: {why}. If that is how it is, add: {line}")))
        }
    }
}

/// The outcome of the test of a rule that is named in `skip`.
///
/// # Errors
/// The rule can be set up.
#[doc(hidden)]
pub fn skipped(verdict: RuleResult) -> Result<(), Broken> {
    match verdict {
        Err(Deviation::Skipped(_)) => Ok(()),
        Err(Deviation::Broken(broken)) => Err(broken),
        Ok(()) => Err(Broken("can be set up, and is kept: take it out of `skip`".to_owned())),
    }
}

/// One `#[test]` per rule of a kit.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($kit:ident, $fixture:expr; $($rule:ident),+ $(,)?) => {
        $(__conformance_test! { $kit, $fixture, $rule })+
    };
}

/// Defines `__conformance_test!`, which writes the test of one rule: an ignored one for a rule that is
/// named here, with its reason. The first argument is a dollar sign, for the macro within.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_skips {
    (($d:tt) $kit:ident; $($skipped:ident: $why:literal),*) => {
        // A name that is not a rule of the kit does not compile.
        $(const _: &str = $crate::conformance::$kit::names::$skipped;)*

        macro_rules! __conformance_test {
            $(($d kit:ident, $d fixture:expr, $skipped) => {
                #[test]
                #[ignore = $why]
                fn $skipped() -> Result<(), $crate::conformance::Broken> {
                    $crate::conformance::skipped($crate::conformance::$kit::$skipped(&$d fixture))
                }
            };)*
            ($d kit:ident, $d fixture:expr, $d rule:ident) => {
                #[test]
                fn $d rule() -> Result<(), $crate::conformance::Broken> {
                    let verdict = $crate::conformance::$kit::$d rule(&$d fixture);
                    $crate::conformance::kept(stringify!($d rule), verdict)
                }
            };
        }
    };
}

/// A constant per rule of a kit, so that a rule's name can be checked when it is compiled.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_names {
    (; $($rule:ident),+ $(,)?) => {
        $(
            #[doc(hidden)]
            #[expect(non_upper_case_globals, reason = "named as the rule is")]
            pub const $rule: &str = stringify!($rule);
        )+
    };
}

/// Every rule of a kit, with its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    (; $($rule:ident),+ $(,)?) => {
        vec![$((stringify!($rule), $rule)),+]
    };
}
