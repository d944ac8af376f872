//! Editing the workflow file while agents run (contract 2.6, 2.7).

use std::fs;
use std::os::unix::fs::symlink;

use symphony_core::orchestrator::NoticeKind;
use symphony_memory::{AgentScript, Did, Gate};
use symphony_runtime::ServiceEnd;

use crate::harness::{Harness, Live, TestHost, eventually, names, within, workflow};

fn reloads(live: &Live) -> usize {
    live.happened(|what| *what == NoticeKind::Reloaded)
}

fn limit(slots: u32) -> String {
    workflow("").replace("max_concurrent_agents: 50", &format!("max_concurrent_agents: {slots}"))
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_file_that_is_deleted_and_restored_is_not_new() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = harness.start().await;
    let text = fs::read_to_string(harness.file()).unwrap();
    fs::remove_file(harness.file()).unwrap();
    live.until("it is missed", |s| {
        s.problems.first().is_some_and(|problem| problem.kind.as_str() == "missing_workflow_file")
    })
    .await;
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    let explanation = live.handle.explain().await.unwrap();
    assert!(format!("{:?}", explanation.verdict).starts_with("InvalidWorkflow"));
    fs::write(harness.file(), text).unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.until("it is back", |s| s.problems.is_empty()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_what_stands_in_the_files_place_never_hangs_the_watch() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = harness.start().await;
    let text = fs::read_to_string(harness.file()).unwrap();
    for replace in 0..4 {
        fs::remove_file(harness.file()).unwrap();
        match replace {
            0 => fs::create_dir(harness.file()).unwrap(),
            1 => symlink(harness.file(), harness.file()).unwrap(),
            2 => {
                let mode = rustix::fs::Mode::RWXU;
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    harness.file(),
                    rustix::fs::FileType::Fifo,
                    mode,
                    0,
                )
                .unwrap();
            }
            _ => fs::write(harness.file(), [0xff, 0xfe, 0x00]).unwrap(),
        }
        live.until("a problem", |s| !s.problems.is_empty()).await;
        if replace == 0 {
            fs::remove_dir(harness.file()).unwrap();
        } else {
            fs::remove_file(harness.file()).unwrap();
        }
        fs::write(harness.file(), &text).unwrap();
        live.until("no problem", |s| s.problems.is_empty()).await;
    }
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_2_6_editors_that_replace_by_rename_and_links_are_followed() {
    let harness = Harness::new(AgentScript::new());
    let (one, two) = (harness.dir.path().join("one"), harness.dir.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    fs::write(one.join("real.md"), limit(1)).unwrap();
    // As a config map does it: the file leads through a folder that is a link itself.
    symlink("one", harness.dir.path().join("..data")).unwrap();
    symlink("..data/real.md", harness.file()).unwrap();
    let live = harness.start().await;
    let is = |slots: u32| move |s: &symphony_core::snapshot::Snapshot| s.slots.limit == slots;
    live.until("at first", is(1)).await;

    fs::write(one.join("real.md"), limit(2)).unwrap();
    live.until("written in place", is(2)).await;
    fs::write(one.join("new.md"), limit(3)).unwrap();
    fs::rename(one.join("new.md"), one.join("real.md")).unwrap();
    live.until("replaced by rename", is(3)).await;
    fs::write(two.join("real.md"), limit(4)).unwrap();
    symlink("two", harness.dir.path().join("..new")).unwrap();
    fs::rename(harness.dir.path().join("..new"), harness.dir.path().join("..data")).unwrap();
    live.until("led elsewhere", is(4)).await;
    fs::write(two.join("real.md"), limit(5)).unwrap();
    live.until("written there", is(5)).await;
    fs::remove_file(harness.file()).unwrap();
    fs::write(harness.file(), limit(6)).unwrap();
    live.until("no link any more", is(6)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_3_the_warnings_of_the_file_show_until_it_is_edited() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.write("  colour: blue");
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    let warnings = live.handle.snapshot().unwrap().warnings.clone();
    assert_eq!(warnings[0].path.as_deref(), Some("agent.colour"), "{warnings:?}");
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    harness.write("");
    live.until("no warning", |s| s.warnings.is_empty()).await;
    harness.write("  colour: red");
    live.until("a warning", |s| s.warnings.len() == 1 && s.problems.is_empty()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_3_a_slip_on_a_reload_keeps_the_last_good_file_and_starts_wait() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = harness.start().await;
    let slipped = limit(3).replace("max_concurrent_agents", "max_concurent_agents");
    fs::write(harness.file(), slipped).unwrap();
    live.until("refused", |s| {
        s.problems.first().is_some_and(|problem| problem.kind.as_str() == "misspelt_key")
    })
    .await;
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    let explanation = live.handle.explain().await.unwrap();
    assert!(format!("{:?}", explanation.verdict).starts_with("InvalidWorkflow"));
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 50);
    fs::write(harness.file(), limit(3)).unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.until("in force", |s| s.slots.limit == 3 && s.problems.is_empty()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_2_what_an_adapter_finds_in_its_keys_has_a_place() {
    let harness = Harness::new(AgentScript::new());
    let live = harness.start().await;
    let text = workflow("").replace("kind: memory", "kind: memory\n  provider:\n    board: 7");
    fs::write(harness.file(), text).unwrap();
    live.until("refused", |s| {
        s.problems.first().is_some_and(|problem| {
            let at = problem.at.map(|at| (at.line, at.column));
            problem.path.as_deref() == Some("tracker.provider.board") && at == Some((5, 5))
        })
    })
    .await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_handle_shows_the_settings_in_force() {
    let harness = Harness::new(AgentScript::new());
    let live = harness.start().await;
    let mut changes = live.handle.settings_changes();
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 50);
    fs::write(harness.file(), limit(7)).unwrap();
    within("a change", changes.changed()).await.unwrap();
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 7);
    let handle = live.handle.clone();
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(handle.settings().agent.max_concurrent_agents, 7, "also after its end");
}

#[tokio::test(start_paused = true)]
async fn rule_2_7_a_run_keeps_its_prompt_and_its_turns() {
    let gate = Gate::new();
    let harness = Harness::new(AgentScript::new().wait_for(&gate));
    harness.write("  max_turns: 2");
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let other = workflow("  max_turns: 1").replace("Do {{", "Undo {{");
    fs::write(harness.file(), other).unwrap();
    eventually("the edit", || reloads(&live) == 1).await;
    gate.open();
    let prompts = |did: &Did| matches!(did, Did::Turn { .. });
    within("a second run", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    within("its turn", harness.agent.wait_until(|journal| journal.count(prompts) == 3)).await;
    let told: Vec<String> = harness
        .agent
        .journal()
        .for_issue("MT-1")
        .into_iter()
        .filter_map(|did| match did {
            Did::Turn { prompt, .. } => Some(prompt),
            _ => None,
        })
        .collect();
    assert_eq!(told[0], "Do A title.");
    assert!(told[1].starts_with("This is turn 2 of at most 2"), "{}", told[1]);
    assert_eq!(told[2], "Undo A title.");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_reload_to_another_root_takes_its_lock_first() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;

    // Another service holds it: the file is a problem until that has ended.
    let other = Harness::new(AgentScript::new());
    let there = Live::start(other.builder().workflow({
        other.write("");
        other.file()
    }))
    .await;
    // Also if the file is gone that names the holder.
    fs::remove_file(other.root().join("~symphony/lock")).unwrap();
    let root = other.root().display().to_string();
    fs::write(harness.file(), workflow("").replace("root: work", &format!("root: {root}")))
        .unwrap();
    live.until("refused", |s| {
        s.problems.first().is_some_and(|problem| {
            problem.path.as_deref() == Some("workspace.root")
                && problem.message.contains(&format!("process {}", std::process::id()))
        })
    })
    .await;
    assert_eq!(there.shut_down().await, ServiceEnd::Drained);
    live.until("taken", |s| s.problems.is_empty()).await;

    // New workspaces are made there; the one in use stays where it is, and is removed from there.
    harness.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    assert_eq!(names(&other.root()), ["MT-2", "~symphony"]);
    assert_eq!(names(&harness.root()), ["MT-1", "~symphony"]);
    harness.board.set_state("1", "Done");
    live.handle.poll_now().unwrap();
    eventually("removed", || names(&harness.root()) == ["~symphony"]).await;
    let second = other.builder().workflow(other.file()).host(TestHost::new()).build().await;
    assert!(second.is_err(), "the new root is ours now");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
