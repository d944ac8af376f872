//! The kit for hooks, on scripted ones.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use symphony_core::conformance::hooks::{self, HookScript};
use symphony_core::conformance::{Able, HooksFixture};
use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};
use symphony_core::{Issue, Settings, StateSet};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    FailsWithoutAScript,
    RunsEveryHook,
    IgnoresTheStatus,
    NamesAnotherHook,
    WaitsForEver,
    LeavesItRunning,
}

#[derive(Debug)]
struct Hooks {
    mistake: Option<Mistake>,
    scripts: Mutex<BTreeMap<Hook, HookScript>>,
    begun: Mutex<Vec<Hook>>,
    alive: Arc<AtomicUsize>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl WorkspaceHooks for Hooks {
    async fn run(&self, hook: Hook, cx: &HookContext) -> Result<(), HookError> {
        let failed = |hook| HookError::Failed {
            hook,
            status: "exit status 1".to_owned(),
            output: String::new(),
        };
        let script = self.scripts.lock().unwrap().get(&hook).copied();
        let Some(script) = script else {
            return match self.mistake {
                Some(Mistake::FailsWithoutAScript) => Err(failed(hook)),
                _ => Ok(()),
            };
        };
        let begun = match self.mistake {
            Some(Mistake::RunsEveryHook) => self.scripts.lock().unwrap().keys().copied().collect(),
            _ => vec![hook],
        };
        self.begun.lock().unwrap().extend(begun);
        self.alive.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(Arc::clone(&self.alive));
        match script {
            HookScript::Succeed => Ok(()),
            HookScript::Fail if self.mistake == Some(Mistake::IgnoresTheStatus) => Ok(()),
            HookScript::Fail if self.mistake == Some(Mistake::NamesAnotherHook) => {
                Err(failed(Hook::AfterRun))
            }
            HookScript::Fail => Err(failed(hook)),
            HookScript::Hang => {
                if self.mistake == Some(Mistake::LeavesItRunning) {
                    std::mem::forget(alive);
                }
                for _ in 0..cx.settings.hooks.timeout.as_millis() {
                    yield_now().await;
                }
                if self.mistake == Some(Mistake::WaitsForEver) {
                    return Ok(());
                }
                Err(HookError::TimedOut { hook, millis: 100, output: String::new() })
            }
        }
    }
}

struct Fixture {
    hooks: Arc<Hooks>,
    runtime: Runtime,
}

impl Fixture {
    fn new(mistake: Option<Mistake>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Self {
            hooks: Arc::new(Hooks {
                mistake,
                scripts: Mutex::default(),
                begun: Mutex::default(),
                alive: Arc::default(),
            }),
            runtime: runtime.unwrap(),
        }
    }
}

impl HooksFixture for Fixture {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn hooks(&self) -> Arc<dyn WorkspaceHooks> {
        Arc::clone(&self.hooks) as Arc<dyn WorkspaceHooks>
    }

    fn context(&self) -> HookContext {
        let (states, root) = (StateSet::default(), PathBuf::from("/nowhere"));
        let mut settings = Settings::new("board", states.clone(), states, root.clone());
        settings.hooks.timeout = std::time::Duration::from_millis(100);
        let issue = Issue::new("id-1", "MT-1", "Mend the gate", "Todo").unwrap();
        HookContext::new(Arc::new(issue), root, Arc::new(settings))
    }

    fn configure(&self, hook: Hook, script: HookScript) -> Able {
        self.hooks.scripts.lock().unwrap().insert(hook, script);
        Ok(())
    }

    fn begun(&self) -> Vec<Hook> {
        self.hooks.begun.lock().unwrap().clone()
    }

    fn alive(&self) -> usize {
        self.hooks.alive.load(Ordering::SeqCst)
    }
}

mod correct {
    symphony_core::hooks_conformance!(super::Fixture::new(None));
}

#[test]
fn rule_11_6_each_wrong_hook_breaks_exactly_the_rules_it_should() {
    let caught: &[(Mistake, &[&str])] = &[
        (Mistake::FailsWithoutAScript, &["rule_9_4_a_hook_that_is_not_configured_succeeds"]),
        (Mistake::RunsEveryHook, &["rule_9_4_each_hook_runs_when_asked_and_only_then"]),
        (Mistake::IgnoresTheStatus, &["rule_9_4_a_hook_that_fails_is_an_error_that_names_it"]),
        (Mistake::NamesAnotherHook, &["rule_9_4_a_hook_that_fails_is_an_error_that_names_it"]),
        (Mistake::WaitsForEver, &["rule_9_5_a_hook_that_hangs_times_out_and_is_gone"]),
        (
            Mistake::LeavesItRunning,
            &[
                "rule_9_5_a_hook_that_hangs_times_out_and_is_gone",
                "rule_9_5_a_dropped_hook_leaves_nothing",
            ],
        ),
    ];
    for (mistake, expected) in caught {
        let found = broken(hooks::rules(), || Fixture::new(Some(*mistake)));
        assert_eq!(found, *expected, "{mistake:?}");
    }
}
