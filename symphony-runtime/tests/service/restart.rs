//! What one life of the service leaves to the next (contract 4.2, 12.4, 14.3).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::json;
use symphony_core::Settings;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentFactory, AgentSession, AgentUpdate, SessionRequest, Turn,
    TurnEnd,
};
use symphony_core::env::Env;
use symphony_core::orchestrator::NoticeKind;
use symphony_core::snapshot::Snapshot;
use symphony_host::{EarlierLife, ProcessId};
use symphony_memory::AgentScript;
use symphony_runtime::{ServiceEnd, StartError};

use crate::harness::{Harness, Live, TestHost, eventually, names, within, workflow};

#[tokio::test(start_paused = true)]
async fn rule_14_3_a_second_service_on_the_same_root_is_refused_and_told_the_holder() {
    let harness = Harness::new(AgentScript::new());
    let live = harness.start().await;
    let error = harness.builder().build().await.unwrap_err();
    assert!(matches!(error, StartError::Workspaces(_)));
    let message = error.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains(&harness.root().file_name().unwrap().to_string_lossy().into_owned()));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let live = harness.start().await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_14_3_a_service_that_has_ended_lets_another_one_have_its_root() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    harness.write("");
    for round in 0..30 {
        let service = harness.builder().build().await.unwrap();
        if round % 2 == 0 {
            service.handle().shut_down().unwrap();
            assert_eq!(service.run().await, ServiceEnd::Drained);
        } else {
            // Dropped in the middle of its work.
            let a_moment = Duration::from_millis(5);
            assert!(tokio::time::timeout(a_moment, service.run()).await.is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_a_forged_home_changes_no_other_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let harness = Harness::new(AgentScript::new());
    assert_eq!(harness.start().await.shut_down().await, ServiceEnd::Drained);
    let victim = tempfile::tempdir().unwrap();
    fs::set_permissions(victim.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let victims = victim.path().to_str().unwrap();
    fs::write(harness.root().join("~symphony/home"), victims).unwrap();
    assert_eq!(harness.start().await.shut_down().await, ServiceEnd::Drained);
    let mode = fs::metadata(victim.path()).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, fs::read_dir(victim.path()).unwrap().count()), (0o755, 0));
    assert!(!harness.root().join("~symphony/home").exists(), "it is not believed again");
}

#[tokio::test(start_paused = true)]
async fn rule_4_1_a_bad_file_is_a_startup_failure_with_every_problem() {
    let harness = Harness::new(AgentScript::new());
    let error = harness.builder().build().await.unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
    harness.write("  max_turns: 0\npolling:\n  interval_ms: -1");
    let error = harness.builder().build().await.unwrap_err().to_string();
    assert!(error.contains("agent.max_turns") && error.contains("polling.interval_ms"), "{error}");
    harness.write("polling:\n  quiet_hours: {from: '22:00', to: '06:00', timezone: Mars/Olympus}");
    let error = harness.builder().build().await.unwrap_err().to_string();
    assert!(error.contains("polling.quiet_hours.timezone"), "{error}");
    assert!(!harness.root().exists(), "nothing is made for a file that cannot be used");
}

#[tokio::test(start_paused = true)]
async fn rule_4_2_the_workspaces_of_issues_finished_meanwhile_are_swept_by_their_records() {
    let harness = Harness::new(AgentScript::new().hang());
    ["1", "2"].iter().for_each(|n| harness.issue(n, &format!("MT-{n}")));
    let live = harness.start().await;
    within("two agents", harness.agent.wait_until(|journal| journal.live_agents() == 2)).await;
    live.kill().await;
    eventually("the agents are gone", || harness.agent.live_agents() == 0).await;
    // An unknown folder, and one of a finished issue, both without a record.
    fs::create_dir(harness.root().join("MT-77")).unwrap();
    fs::create_dir(harness.root().join("somebodys")).unwrap();
    harness.board.set_state("1", "Done");
    harness.issue("77", "MT-77");
    harness.board.set_state("77", "Done");
    let live = harness.start().await;
    eventually("swept", || names(&harness.root()) == ["MT-2", "somebodys", "~symphony"]).await;
    within("an agent again", harness.agent.wait_until(|journal| journal.live_agents() == 1)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let records = names(&harness.root().join("~symphony/records"));
    assert_eq!(records, ["MT-2.json"]);
}

#[tokio::test(start_paused = true)]
async fn rule_12_4_last_runs_survive_a_restart_so_that_a_restart_loop_causes_no_storm() {
    let harness = Harness::new(AgentScript::new());
    let live = harness.start().await;
    live.until("a poll", |s| s.candidates.read_at.is_some()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let before = harness.board.requests();
    for _ in 0..100 {
        let live = harness.start().await;
        let snapshot = live.handle.snapshot().unwrap();
        assert!(snapshot.polling.requests_today.values().sum::<u64>() > 0, "the day's counts");
        assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    }
    assert_eq!(harness.board.requests(), before);
}

#[tokio::test(start_paused = true)]
async fn rule_16_2_a_damaged_state_file_is_set_aside_and_no_run_id_is_used_again() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let boot = async || {
        let live = harness.start().await;
        live.handle.poll_now().unwrap();
        live.until("a run", |s| s.running.len() == 1).await;
        let boot = live.handle.snapshot().unwrap().running[0].run.boot;
        assert_eq!(live.shut_down().await, ServiceEnd::Drained);
        boot
    };
    let (first, second) = (boot().await, boot().await);
    assert_eq!((first, second), (1, 2));
    let own = harness.root().join("~symphony");
    let mut last = second;
    let mut is_greater = async || {
        let next = boot().await;
        assert!(next > last && next > 1_000_000, "{next} after {last}");
        last = next;
    };
    for damage in ["{\"boot\": 2,", "", "[]", "\u{0}\u{0}\u{0}"] {
        fs::write(own.join("state.json"), damage).unwrap();
        is_greater().await;
    }
    // Nor does something else in its place stop the service.
    fs::create_dir(own.join("state.json")).unwrap();
    is_greater().await;
    symlink("/etc/passwd", own.join("state.json")).unwrap();
    is_greater().await;
    is_greater().await;
    let aside = names(&own.join("aside"));
    assert_eq!(aside.len(), 6, "{aside:?}");
    assert!(aside.iter().all(|name| name.starts_with("state.json~")));
}

#[tokio::test(start_paused = true)]
async fn rule_16_2_a_state_file_of_an_older_version_is_taken_over_once() {
    let harness = Harness::new(AgentScript::new().hang());
    ["1", "2"].iter().for_each(|n| harness.issue(n, &format!("MT-{n}")));
    harness.write("");
    let own = harness.root().join("~symphony");
    fs::create_dir_all(&own).unwrap();
    let issue = harness.board.issue("1").unwrap();
    let (now, scope) = (symphony_core::time::Wall::from(SystemTime::now()), "memory");
    let state = json!({
        "boot": 7, "paused": true, "scope": scope,
        "last_runs": {"candidates": now}, "spent": {"day": now.day(), "requests": {"turn": 3}},
        "stopped": {scope: [{"issue": issue, "since": now, "seen": true, "attempt": 4}]},
    });
    fs::write(own.join("state.json"), state.to_string()).unwrap();
    for life in 0..2 {
        let live = harness.start().await;
        let is_as_it_was = |s: &Snapshot| {
            s.paused && s.blocked.len() == 1 && s.polling.requests_today.get("turn") == Some(&3)
        };
        live.until("as it was", is_as_it_was).await;
        if life == 1 {
            live.handle.resume().await.unwrap();
            live.handle.poll_now().unwrap();
            live.until("the other one runs", |s| s.running.len() == 1).await;
            assert_eq!(live.handle.snapshot().unwrap().running[0].run.boot, 9, "not 2");
        }
        live.shut_down().await;
        assert!(!own.join("state.json").exists());
    }
}

/// An agent with a process of its own, which a service that is killed leaves behind.
#[derive(Debug, Default, Clone)]
struct WithProcess {
    child: Arc<Mutex<Option<Child>>>,
    /// What its process should be marked with.
    service: Arc<Mutex<Arc<str>>>,
}

#[async_trait]
impl AgentBackend for WithProcess {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let (thread, session_id) = ("t".into(), "t-1".into());
        let pid = Some(child.id());
        *self.child.lock().unwrap() = Some(child);
        *self.service.lock().unwrap() = request.service;
        request.updates.send(AgentUpdate::Session { thread, session_id, pid });
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentSession for WithProcess {
    async fn run_turn(&mut self, _: Turn) -> Result<TurnEnd, AgentError> {
        std::future::pending().await
    }

    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        self.end();
        Ok(())
    }
}

impl WithProcess {
    fn end(&self) -> Option<u32> {
        let mut child = self.child.lock().unwrap().take()?;
        child.kill().unwrap();
        child.wait().unwrap();
        Some(child.id())
    }

    fn process(&self) -> ProcessId {
        ProcessId::from_pid(self.child.lock().unwrap().as_ref().unwrap().id()).unwrap()
    }
}

impl AgentFactory for WithProcess {
    fn kind(&self) -> &str {
        "scripted"
    }

    fn build(&self, _: &Settings, _: &dyn Env) -> Result<Arc<dyn AgentBackend>, AgentError> {
        Ok(Arc::new(self.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_the_processes_of_an_earlier_life_are_ended_by_their_records() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    harness.issue("1", "MT-1");
    let agent = WithProcess::default();
    let live = Live::start(harness.builder().agent(agent.clone())).await;
    let runs = harness.root().join("~symphony/runs");
    eventually("its process is written down", || names(&runs) == ["1.1"]).await;
    let process = agent.process();
    live.kill().await;

    let host = TestHost::new();
    let live = Live::start(harness.builder().agent(agent.clone()).host(host.clone())).await;
    let swept = host.swept.lock().unwrap().clone();
    agent.end();
    assert_eq!(swept.len(), 1);
    assert_eq!(swept[0].records, [process]);
    assert_eq!(swept[0].service, service_name(&harness.root()));
    // Records of that life are gone, and a run that ends takes its own with it.
    assert_eq!(names(&runs), [""; 0]);
    live.handle.poll_now().unwrap();
    eventually("another one is written", || names(&runs) == ["2.1"]).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(names(&runs), [""; 0]);
}

/// What the service at a root is called.
fn service_name(root: &Path) -> String {
    let text = fs::read(root.join("~symphony/id")).unwrap();
    let id: serde_json::Value = serde_json::from_slice(&text).unwrap();
    id["id"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_what_an_older_version_left_is_ended_by_its_older_name_once() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    let own = harness.root().join("~symphony");
    fs::create_dir_all(own.join("runs")).unwrap();
    fs::write(own.join("state.json"), "{\"boot\": 3}").unwrap();
    let process = ProcessId::from_pid(std::process::id()).unwrap();
    fs::write(own.join("runs/3.1"), format!("{process}\n")).unwrap();
    let swept = async || {
        let host = TestHost::new();
        let live = Live::start(harness.builder().host(host.clone())).await;
        assert_eq!(live.shut_down().await, ServiceEnd::Drained);
        host.swept.lock().unwrap().clone()
    };
    let path = fs::canonicalize(harness.root()).unwrap().display().to_string();
    let first = swept().await;
    let life = |service: &str| EarlierLife { service: service.into(), records: vec![process] };
    assert_eq!(first, [life(&service_name(&harness.root())), life(&path)]);
    let second = swept().await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].service, first[0].service);
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_a_root_that_is_not_ours_any_more_shows_and_starts_nothing() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = harness.start().await;
    let lock = harness.root().join("~symphony/lock");
    let work = async |number: &str| {
        harness.issue(number, &format!("MT-{number}"));
        live.handle.poll_now().unwrap();
    };
    // An older version, which knows the file only, has come in.
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "").unwrap();
    let older = fs::File::open(&lock).unwrap();
    older.lock().unwrap();
    let shows = |message: &'static str| {
        move |s: &Snapshot| {
            s.problems.first().is_some_and(|problem| {
                problem.path.as_deref() == Some("workspace.root")
                    && problem.message.contains(message)
            })
        }
    };
    live.until("it shows", shows("another Symphony uses the workspace root")).await;
    work("1").await;
    // Longer than a poll and a look take.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(harness.agent.live_agents(), 0);
    drop(older);
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.until("nothing is wrong", |s| s.problems.is_empty()).await;
    assert!(fs::read_to_string(&lock).unwrap().contains(&std::process::id().to_string()));

    // The same for a root that was led elsewhere.
    let elsewhere = harness.root().with_extension("elsewhere");
    fs::rename(harness.root(), &elsewhere).unwrap();
    live.until("it shows", shows("was removed or replaced")).await;
    work("2").await;
    fs::rename(&elsewhere, harness.root()).unwrap();
    within("another agent", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    live.until("nothing is wrong", |s| s.problems.is_empty()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

/// A service that was led to another root, then killed, and started there.
async fn moved_and_killed(runs_before_the_move: bool) {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    let agent = WithProcess::default();
    let live = Live::start(harness.builder().agent(agent.clone())).await;
    let runs = harness.root().join("~symphony/runs");
    let work = async || {
        harness.issue("1", "MT-1");
        live.handle.poll_now().unwrap();
        eventually("its process is written down", || names(&runs) == ["1.1"]).await;
    };
    if runs_before_the_move {
        work().await;
    }
    fs::write(harness.file(), workflow("").replace("root: work", "root: other")).unwrap();
    let reloaded = |what: &NoticeKind| *what == NoticeKind::Reloaded;
    eventually("the other root is taken", || live.happened(reloaded) == 1).await;
    if !runs_before_the_move {
        work().await;
    }
    let process = agent.process();
    live.kill().await;

    let host = TestHost::new();
    harness.board.set_state("1", "Done");
    let live = Live::start(harness.builder().agent(agent.clone()).host(host.clone())).await;
    let swept = host.swept.lock().unwrap().clone();
    agent.end();
    let life = |root: &str, records: &[ProcessId]| EarlierLife {
        service: service_name(&harness.dir.path().join(root)),
        records: records.to_vec(),
    };
    assert_eq!(swept, [life("other", &[]), life("work", &[process])]);
    assert_eq!(**agent.service.lock().unwrap(), *swept[1].service, "so it is also found by mark");
    assert_eq!(names(&runs), [""; 0]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);

    // That is settled now: the next one has nothing to do with the first root.
    let host = TestHost::new();
    let live = Live::start(harness.builder().agent(agent).host(host.clone())).await;
    assert_eq!(*host.swept.lock().unwrap(), [life("other", &[])]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_a_run_from_before_a_change_of_root_is_found_by_the_next_life() {
    moved_and_killed(true).await;
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_a_run_from_after_a_change_of_root_is_found_by_the_next_life() {
    moved_and_killed(false).await;
}

#[tokio::test(start_paused = true)]
async fn rule_14_3_what_was_left_under_another_root_is_ended_before_that_is_used() {
    let (harness, other) = (Harness::new(AgentScript::new()), Harness::new(AgentScript::new()));
    other.write("");
    other.issue("1", "MT-1");
    let agent = WithProcess::default();
    let there = Live::start(other.builder().agent(agent.clone())).await;
    let runs = other.root().join("~symphony/runs");
    eventually("its process is written down", || names(&runs) == ["1.1"]).await;
    let process = agent.process();
    there.kill().await;

    harness.write("");
    let host = TestHost::new();
    let live = Live::start(harness.builder().host(host.clone())).await;
    let root = other.root().display().to_string();
    for root in [root.as_str(), "work", root.as_str()] {
        let reloads = || live.happened(|what| *what == NoticeKind::Reloaded);
        let before = reloads();
        let text = workflow("").replace("root: work", &format!("root: {root}"));
        fs::write(harness.file(), text).unwrap();
        eventually("it is taken", || reloads() > before).await;
    }
    agent.end();
    let swept: Vec<_> =
        host.swept.lock().unwrap().iter().map(|life| life.records.clone()).collect();
    assert_eq!(swept, [vec![], vec![process]], "once, and never what is our own");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
