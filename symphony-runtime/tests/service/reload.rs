//! Editing the workflow file while agents run (contract 2.6, 2.7).

use std::fs;
use std::os::unix::fs::symlink;

use symphony_core::orchestrator::Happened;
use symphony_memory::{AgentScript, Did, Gate};
use symphony_runtime::Ended;

use crate::stage::{Live, Stage, TestHost, eventually, names, within, workflow};

fn reloads(live: &Live) -> usize {
    live.happened(|what| *what == Happened::Reloaded)
}

fn limit(slots: u32) -> String {
    workflow("").replace("max_concurrent_agents: 50", &format!("max_concurrent_agents: {slots}"))
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_file_that_is_deleted_and_restored_is_no_new_one() {
    let stage = Stage::new(AgentScript::new().hang());
    let live = stage.start().await;
    let text = fs::read_to_string(stage.file()).unwrap();
    fs::remove_file(stage.file()).unwrap();
    live.until("it is missed", |s| {
        s.problems.first().is_some_and(|problem| problem.kind.as_str() == "missing_workflow_file")
    })
    .await;
    stage.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    let explanation = live.handle.explain().await.unwrap();
    assert!(format!("{:?}", explanation.verdict).starts_with("InvalidWorkflow"));
    fs::write(stage.file(), text).unwrap();
    within("an agent", stage.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.until("it is back", |s| s.problems.is_empty()).await;
    assert_eq!(live.shut_down().await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_what_stands_in_the_files_place_never_hangs_the_watch() {
    let stage = Stage::new(AgentScript::new().hang());
    let live = stage.start().await;
    let text = fs::read_to_string(stage.file()).unwrap();
    for replace in 0..4 {
        fs::remove_file(stage.file()).unwrap();
        match replace {
            0 => fs::create_dir(stage.file()).unwrap(),
            1 => symlink(stage.file(), stage.file()).unwrap(),
            2 => {
                let mode = rustix::fs::Mode::RWXU;
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    stage.file(),
                    rustix::fs::FileType::Fifo,
                    mode,
                    0,
                )
                .unwrap();
            }
            _ => fs::write(stage.file(), [0xff, 0xfe, 0x00]).unwrap(),
        }
        live.until("a problem", |s| !s.problems.is_empty()).await;
        if replace == 0 {
            fs::remove_dir(stage.file()).unwrap();
        } else {
            fs::remove_file(stage.file()).unwrap();
        }
        fs::write(stage.file(), &text).unwrap();
        live.until("no problem", |s| s.problems.is_empty()).await;
    }
    assert_eq!(live.shut_down().await, Ended::Drained);
}

#[tokio::test]
async fn rule_2_6_editors_that_replace_by_rename_and_links_are_followed() {
    let stage = Stage::new(AgentScript::new());
    let (one, two) = (stage.dir.path().join("one"), stage.dir.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    fs::write(one.join("real.md"), limit(1)).unwrap();
    // As a config map does it: the file leads through a folder that is a link itself.
    symlink("one", stage.dir.path().join("..data")).unwrap();
    symlink("..data/real.md", stage.file()).unwrap();
    let live = stage.start().await;
    let is = |slots: u32| move |s: &symphony_core::snapshot::Snapshot| s.slots.limit == slots;
    live.until("at first", is(1)).await;

    fs::write(one.join("real.md"), limit(2)).unwrap();
    live.until("written in place", is(2)).await;
    fs::write(one.join("new.md"), limit(3)).unwrap();
    fs::rename(one.join("new.md"), one.join("real.md")).unwrap();
    live.until("replaced by rename", is(3)).await;
    fs::write(two.join("real.md"), limit(4)).unwrap();
    symlink("two", stage.dir.path().join("..new")).unwrap();
    fs::rename(stage.dir.path().join("..new"), stage.dir.path().join("..data")).unwrap();
    live.until("led elsewhere", is(4)).await;
    fs::write(two.join("real.md"), limit(5)).unwrap();
    live.until("written there", is(5)).await;
    fs::remove_file(stage.file()).unwrap();
    fs::write(stage.file(), limit(6)).unwrap();
    live.until("no link any more", is(6)).await;
    assert_eq!(live.shut_down().await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_handle_shows_the_settings_in_force() {
    let stage = Stage::new(AgentScript::new());
    let live = stage.start().await;
    let mut changes = live.handle.settings_changes();
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 50);
    fs::write(stage.file(), limit(7)).unwrap();
    within("a change", changes.changed()).await.unwrap();
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 7);
    let handle = live.handle.clone();
    assert_eq!(live.shut_down().await, Ended::Drained);
    assert_eq!(handle.settings().agent.max_concurrent_agents, 7, "also after its end");
}

#[tokio::test(start_paused = true)]
async fn rule_2_7_a_run_keeps_its_prompt_and_its_turns() {
    let gate = Gate::new();
    let stage = Stage::new(AgentScript::new().wait_for(&gate));
    stage.write("  max_turns: 2");
    stage.issue("1", "MT-1");
    let live = stage.start().await;
    within("an agent", stage.agent.wait_until(|journal| journal.opened() == 1)).await;
    let other = workflow("  max_turns: 1").replace("Do {{", "Undo {{");
    fs::write(stage.file(), other).unwrap();
    eventually("the edit", || reloads(&live) == 1).await;
    gate.open();
    let prompts = |did: &Did| matches!(did, Did::Turn { .. });
    within("a second run", stage.agent.wait_until(|journal| journal.opened() == 2)).await;
    within("its turn", stage.agent.wait_until(|journal| journal.count(prompts) == 3)).await;
    let told: Vec<String> = stage
        .agent
        .journal()
        .of("MT-1")
        .into_iter()
        .filter_map(|did| match did {
            Did::Turn { prompt, .. } => Some(prompt),
            _ => None,
        })
        .collect();
    assert_eq!(told[0], "Do A title.");
    assert!(told[1].starts_with("This is turn 2 of at most 2"), "{}", told[1]);
    assert_eq!(told[2], "Undo A title.");
    assert_eq!(live.shut_down().await, Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_reload_to_another_root_takes_its_lock_first() {
    let stage = Stage::new(AgentScript::new().hang());
    stage.issue("1", "MT-1");
    let live = stage.start().await;
    within("an agent", stage.agent.wait_until(|journal| journal.opened() == 1)).await;

    // Somebody else is there: the file is a problem until they have gone.
    let other = Stage::new(AgentScript::new());
    let there = Live::start(other.builder().workflow({
        other.write("");
        other.file()
    }))
    .await;
    // Also if the file is gone that says who.
    fs::remove_file(other.root().join("~symphony/lock")).unwrap();
    let root = other.root().display().to_string();
    fs::write(stage.file(), workflow("").replace("root: work", &format!("root: {root}"))).unwrap();
    live.until("refused", |s| {
        s.problems.first().is_some_and(|problem| {
            problem.path.as_deref() == Some("workspace.root")
                && problem.message.contains(&format!("process {}", std::process::id()))
        })
    })
    .await;
    assert_eq!(there.shut_down().await, Ended::Drained);
    live.until("taken", |s| s.problems.is_empty()).await;

    // New workspaces are made there; the one in use stays where it is, and is removed from there.
    stage.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    within("an agent", stage.agent.wait_until(|journal| journal.opened() == 2)).await;
    assert_eq!(names(&other.root()), ["MT-2", "~symphony"]);
    assert_eq!(names(&stage.root()), ["MT-1", "~symphony"]);
    stage.board.set_state("1", "Done");
    live.handle.poll_now().unwrap();
    eventually("removed", || names(&stage.root()) == ["~symphony"]).await;
    let second = other.builder().workflow(other.file()).host(TestHost::new()).build().await;
    assert!(second.is_err(), "the new root is ours now");
    assert_eq!(live.shut_down().await, Ended::Drained);
}
