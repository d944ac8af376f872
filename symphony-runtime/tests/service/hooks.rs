//! Hooks as real shell scripts (contract 9.4, 9.5).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use symphony_core::Issue;
use symphony_core::agent::AgentErrorKind;
use symphony_core::tracker::{
    BuiltTracker, TrackerContext, TrackerError, TrackerFactory, TrackerProfile,
};
use symphony_host::ProcessId;
use symphony_memory::{AgentScript, MemoryFactory};
use symphony_runtime::{Registry, ServiceEnd};

use crate::harness::{Harness, Live, eventually, within};

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Hooks that each write their name, and what they see, to a file beside the workspaces.
fn diary(harness: &Harness) -> String {
    let diary = harness.dir.path().join("diary");
    let line = |hook: &str| {
        format!(
            "  {hook}: 'echo $SYMPHONY_HOOK $SYMPHONY_ISSUE_IDENTIFIER >> {}'\n",
            diary.display()
        )
    };
    let hooks = ["after_create", "before_run", "after_run", "before_remove"];
    format!("hooks:\n{}", hooks.map(line).concat())
}

#[tokio::test]
async fn rule_9_4_hooks_run_in_order_around_every_attempt() {
    let scripts = [
        AgentScript::new().fail(AgentErrorKind::TurnFailed, "no"),
        AgentScript::new().set_state("Done"),
    ];
    let harness =
        Harness::new(AgentScript::new()).with_agent(symphony_memory::ScriptedAgent::new(scripts));
    harness.write(&(diary(&harness) + "polling:\n  interval_ms: 500"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the first attempt", |s| s.waiting.len() == 1).await;
    let id = live.handle.find(&"MT-1".into()).unwrap();
    live.handle.retry(id).await.unwrap();
    let diary = harness.dir.path().join("diary");
    eventually("the workspace is removed", || {
        lines(&diary).last().is_some_and(|line| line.starts_with("before_remove"))
    })
    .await;
    live.until("cleaned", |s| s.cleaning.is_empty() && s.running.is_empty()).await;
    let expected =
        ["after_create", "before_run", "after_run", "before_run", "after_run", "before_remove"];
    assert_eq!(lines(&diary), expected.map(|hook| format!("{hook} MT-1")));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert!(!harness.root().join("MT-1").exists());
}

#[tokio::test]
async fn rule_9_4_a_failed_after_create_takes_the_folder_with_it_and_runs_again() {
    let harness = Harness::new(AgentScript::new().hang());
    let marker = harness.dir.path().join("marker");
    let script = format!("touch half; test -e {0} || {{ touch {0}; exit 7; }}", marker.display());
    harness.write(&format!("hooks:\n  after_create: '{script}'"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the first attempt", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap();
    assert_eq!(failure.to_string(), "hook_failed: after_create ended with exit code 7");
    assert!(!harness.root().join("MT-1").exists());
    let id = live.handle.find(&"MT-1".into()).unwrap();
    live.handle.retry(id).await.unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert!(harness.root().join("MT-1/half").exists());
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_4_a_failed_before_run_fails_the_attempt_and_after_run_still_runs() {
    let harness = Harness::new(AgentScript::new());
    let ran = harness.dir.path().join("ran");
    harness.write(&format!("hooks:\n  before_run: exit 3\n  after_run: touch {}", ran.display()));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the first attempt", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap();
    assert_eq!(failure.to_string(), "hook_failed: before_run ended with exit code 3");
    assert!(ran.exists());
    assert_eq!(harness.agent.journal().entries(), []);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_4_after_run_runs_after_a_stall_a_stop_and_a_failure_of_its_own() {
    let harness = Harness::new(AgentScript::new().stall());
    let ran = harness.dir.path().join("ran");
    let hooks = format!("hooks:\n  after_run: 'echo x >> {}; exit 1'", ran.display());
    harness.write(&format!("  stall_timeout_ms: 300\n{hooks}"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("stalled", |s| s.waiting.len() == 1).await;
    assert_eq!(lines(&ran).len(), 1);
    let id = live.handle.find(&"MT-1".into()).unwrap();
    live.handle.retry(id.clone()).await.unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    live.handle.stop(id).await.unwrap();
    live.until("blocked", |s| s.blocked.len() == 1).await;
    assert_eq!(lines(&ran).len(), 2);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_14_2_after_run_runs_for_each_of_many_when_the_service_ends() {
    let harness = Harness::new(AgentScript::new().hang());
    let ran = harness.dir.path().join("ran");
    harness.write(&format!(
        "hooks:\n  after_run: 'echo $SYMPHONY_ISSUE_IDENTIFIER >> {}'",
        ran.display()
    ));
    (0..12).for_each(|n| harness.issue(&format!("{n}"), &format!("MT-{n:02}")));
    let live = harness.start().await;
    within("twelve agents", harness.agent.wait_until(|journal| journal.live_agents() == 12)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let mut found = lines(&ran);
    found.sort();
    assert_eq!(found, (0..12).map(|n| format!("MT-{n:02}")).collect::<Vec<_>>());
    assert_eq!((harness.agent.live_agents(), harness.agent.journal().closed()), (0, 12));
}

/// The memory tracker, with secrets that are variables of every test process.
#[derive(Debug)]
struct WithSecrets(MemoryFactory);

impl TrackerFactory for WithSecrets {
    fn kind(&self) -> &str {
        self.0.kind()
    }

    fn profile(&self) -> &TrackerProfile {
        self.0.profile()
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let secret_names = vec!["CARGO_PKG_NAME".to_owned(), "CARGO_PKG_VERSION".to_owned()];
        Ok(self.0.build(cx)?.with_secret_names(secret_names))
    }
}

#[tokio::test]
async fn rule_9_5_hooks_see_the_issue_as_data_and_no_secrets() {
    let harness = Harness::new(AgentScript::new().hang());
    let seen = harness.dir.path().join("seen");
    harness.write(&format!(
        "hooks:\n  env: [CARGO_PKG_VERSION]\n  before_run: 'env -0 > {}; pwd > {}'",
        seen.display(),
        harness.dir.path().join("pwd").display(),
    ));
    let title = "$(touch pwned) `touch pwned`; touch pwned \u{0}\n'\"";
    let mut issue = Issue::new("id-1", "MT-1", title, "Todo").unwrap();
    issue.branch_name = Some("mt-1-branch".to_owned());
    issue.description = Some("x".repeat(300_000));
    harness.board.add(issue);
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(WithSecrets(MemoryFactory::serving(harness.board.clone()))));
    registry.add_agent(Arc::new(symphony_memory::ScriptedFactory::new(harness.agent.clone())));
    let live = Live::start(harness.builder().registry(registry)).await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let seen = fs::read(&seen).unwrap();
    let seen = String::from_utf8(seen).unwrap();
    let value = |name: &str| {
        seen.split('\0')
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
    };
    let workspace = harness.workspace("MT-1").display().to_string();
    assert_eq!(value("SYMPHONY_ISSUE_ID").as_deref(), Some("id-1"));
    assert_eq!(value("SYMPHONY_ISSUE_IDENTIFIER").as_deref(), Some("MT-1"));
    assert_eq!(value("SYMPHONY_ISSUE_TITLE"), Some(title.replace('\0', "\u{fffd}")));
    assert_eq!(value("SYMPHONY_ISSUE_STATE").as_deref(), Some("Todo"));
    assert_eq!(value("SYMPHONY_ISSUE_URL").as_deref(), Some(""));
    assert_eq!(value("SYMPHONY_ISSUE_BRANCH").as_deref(), Some("mt-1-branch"));
    assert_eq!(value("SYMPHONY_WORKSPACE"), Some(workspace.clone()));
    assert_eq!(value("SYMPHONY_ATTEMPT").as_deref(), Some(""));
    assert_eq!(value("SYMPHONY_HOOK").as_deref(), Some("before_run"));
    assert_eq!(value("CARGO_PKG_NAME"), None, "a tracker's secret");
    assert!(value("CARGO_PKG_VERSION").is_some(), "named in hooks.env");
    assert!(!Path::new(&workspace).join("pwned").exists());
    assert_eq!(lines(&harness.dir.path().join("pwd")), [workspace]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

fn process(file: &Path) -> Option<ProcessId> {
    ProcessId::from_pid(lines(file).first()?.parse().ok()?)
}

#[tokio::test]
async fn rule_9_5_a_hook_that_takes_too_long_is_ended_with_its_whole_tree() {
    let harness = Harness::new(AgentScript::new());
    let pid = harness.dir.path().join("pid");
    let script = format!("setsid sleep 600 & echo $! > {}; sleep 600", pid.display());
    harness.write(&format!("hooks:\n  timeout_ms: 1500\n  before_run: '{script}'"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    eventually("it runs", || process(&pid).is_some()).await;
    let sleeper = process(&pid).unwrap();
    live.until("the attempt has failed", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap();
    assert_eq!(
        failure.to_string(),
        "hook_failed: before_run did not end within 1500 ms; nothing was heard from it, not even on stderr: it or its login profile may hang"
    );
    assert!(!sleeper.is_alive());
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_5_what_a_hook_leaves_in_the_background_lives_until_the_run_ends() {
    let harness = Harness::new(AgentScript::new().hang());
    let pid = harness.dir.path().join("pid");
    let (up, bye) = (harness.dir.path().join("up"), harness.dir.path().join("bye"));
    // A server that is asked to end says good-bye.
    let server = format!(
        "trap \"echo bye > {}; exit\" TERM; touch {}; while :; do sleep 0.05; done",
        bye.display(),
        up.display()
    );
    let script = format!("({server}) & echo $! > {}", pid.display());
    harness.write(&format!("hooks:\n  before_run: '{script}'"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let server = process(&pid).unwrap();
    assert!(server.is_alive());
    eventually("it is up", || up.exists()).await;
    live.handle.stop("1".into()).await.unwrap();
    live.until("the run has ended", |s| s.blocked.len() == 1).await;
    assert!(!server.is_alive());
    assert_eq!(lines(&bye), ["bye"]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_5_a_hook_that_prints_without_end_is_bounded() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.write("hooks:\n  before_run: 'yes | head -c 20000000; printf \"\\033[2Jend\"'");
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_4_a_failed_before_remove_is_ignored() {
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    let seen = harness.dir.path().join("seen");
    harness.write(&format!("hooks:\n  before_remove: 'pwd > {}; exit 1'", seen.display()));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    let workspace = harness.workspace("MT-1");
    eventually("it was removed", || seen.exists() && !workspace.exists()).await;
    assert_eq!(lines(&seen), [workspace.display().to_string()]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_2_7_run_hooks_are_frozen_and_before_remove_is_live() {
    let gate = symphony_memory::Gate::new();
    let harness = Harness::new(AgentScript::new().wait_for(&gate).set_state("Done"));
    let seen = harness.dir.path().join("seen");
    let hooks = |version: u32| {
        format!(
            "hooks:\n  after_run: 'echo run {version} >> {0}'\n  before_remove: 'echo remove {version} >> {0}'",
            seen.display()
        )
    };
    harness.write(&hooks(1));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    harness.write(&hooks(2));
    live.handle.poll_now().unwrap();
    eventually("the edit is in force", || {
        live.happened(|what| matches!(what, symphony_core::orchestrator::NoticeKind::Reloaded)) == 1
    })
    .await;
    gate.open();
    eventually("removed", || lines(&seen).len() == 2).await;
    assert_eq!(lines(&seen), ["run 1", "remove 2"]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_9_2_an_agent_is_not_launched_in_a_folder_that_was_replaced() {
    let harness = Harness::new(AgentScript::new().write("mine", "x"));
    let outside = harness.dir.path().join("precious");
    fs::create_dir(&outside).unwrap();
    harness.write(&format!(
        "hooks:\n  before_run: 'cd .. && mv MT-1 away && ln -s {} MT-1'",
        outside.display()
    ));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the failure", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap().to_string();
    assert!(failure.starts_with("workspace_error:") && failure.contains("symlink"), "{failure}");
    assert_eq!(harness.agent.journal().entries(), []);
    assert_eq!(crate::harness::names(&outside), [""; 0]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
