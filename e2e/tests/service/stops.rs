//! Runs that end in the middle: nothing of them is left.

use std::fs;

use symphony_core::orchestrator::NoticeKind;
use symphony_e2e::{Model, ModelAction};

use crate::harness::{Harness, ISSUE, Live, eventually};
use crate::work::move_to;

/// A command that stays, with a child that left its group and session.
const STAYS: &str = "setsid sleep 1000 & echo $! > away; echo $$ > here; sleep 1000";

/// Waits until the command runs, and gives its processes and Codex's own.
async fn in_the_middle(harness: &Harness, live: &Live) -> Vec<u32> {
    let pid = live.until("an agent", |seen| seen.running.first()?.pid).await;
    let file = |name: &str| fs::read_to_string(harness.workspace().join(name)).unwrap_or_default();
    eventually("a command", || file("here").ends_with('\n') && file("away").ends_with('\n')).await;
    // The numbers in the files are those of the sandbox, if it has its own.
    let mut all = below(pid);
    all.extend(["here", "away"].iter().filter_map(|name| file(name).trim().parse::<u32>().ok()));
    assert!(all.len() >= 4, "the script, the program, the shell and its children: {all:?}");
    all
}

/// A process and all below it.
fn below(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(below);
    std::iter::once(pid).chain(below).collect()
}

/// Those in this workspace that live, also if it has been moved aside and removed.
fn alive(harness: &Harness) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let here = |path: &std::path::PathBuf| {
        fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(harness.path()))
    };
    processes.filter(here).map(|path| path.display().to_string()).collect()
}

#[tokio::test]
async fn what_lives_in_a_removed_workspace_is_seen() {
    let harness = Harness::new(Model::following([]).await);
    fs::create_dir_all(harness.workspace()).unwrap();
    let mut sleeper = std::process::Command::new("sleep");
    let mut sleeper = sleeper.arg("60").current_dir(harness.workspace()).spawn().unwrap();
    fs::remove_dir(harness.workspace()).unwrap();
    let seen = alive(&harness).len();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(seen, 1);
}

#[tokio::test]
async fn rule_8_2_an_issue_that_is_over_stops_its_agent_in_the_middle_of_a_command() {
    let harness = Harness::new(Model::following([ModelAction::run(STAYS)]).await);
    let live = harness.start().await;
    in_the_middle(&harness, &live).await;
    assert!(alive(&harness).len() >= 4);
    harness.board.set_state(ISSUE, "Done");
    live.handle.poll_now().unwrap();
    live.until_done().await;
    assert_eq!(alive(&harness), [""; 0]);
    assert!(!harness.workspace().exists());
    assert_eq!(live.shut_down().await.totals.done, 1);
}

#[tokio::test]
async fn rule_8_2_an_issue_that_is_no_longer_active_stops_its_agent_and_keeps_its_files() {
    let harness = Harness::new(Model::following([ModelAction::run(STAYS)]).await);
    let live = harness.start().await;
    in_the_middle(&harness, &live).await;
    harness.board.set_state(ISSUE, "In Review");
    live.handle.poll_now().unwrap();
    live.until("a stop", |seen| (seen.totals.cancelled == 1).then_some(())).await;
    live.shut_down().await;
    assert_eq!(alive(&harness), [""; 0]);
    assert!(harness.workspace().join("here").exists());
}

#[tokio::test]
async fn rule_10_9_an_agent_that_is_stopped_while_it_is_greeted_is_gone_before_the_claim_moves_on()
{
    let mut harness = Harness::new(Model::following([]).await);
    // It never answers, says goodbye when it is asked to end, and leaves a process behind.
    harness.command = Some("trap 'touch bye; exit' TERM; setsid sleep 1000 & touch here; wait");
    let live = harness.start().await;
    let is_here = || harness.workspace().join("here").exists() && alive(&harness).len() >= 2;
    eventually("a command with a child", is_here).await;
    harness.board.set_state(ISSUE, "In Review");
    live.handle.poll_now().unwrap();
    let ended = || live.happened(|what| matches!(what, NoticeKind::Ended { .. }).then_some(()));
    eventually("the end of the run", || !ended().is_empty()).await;
    assert_eq!(alive(&harness), [""; 0]);
    assert!(harness.workspace().join("bye").exists(), "it was asked before it was killed");
    assert_eq!(live.shut_down().await.totals.cancelled, 1);
}

#[tokio::test]
async fn rule_10_9_a_killed_wrapper_leaves_nothing_and_is_a_failure_that_is_tried_again() {
    let script = [ModelAction::run(STAYS), move_to("Done"), ModelAction::Say("Done.")];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start().await;
    in_the_middle(&harness, &live).await;
    let wrapper = live.handle.snapshot().unwrap().running[0].pid.unwrap();
    let before: Vec<_> = alive(&harness);
    let killed = std::process::Command::new("kill").args(["-9", &wrapper.to_string()]).status();
    assert!(killed.unwrap().success());
    // Gone before the claim moves on: when the retry is told, none of them lives.
    eventually("a retry", || {
        !live.happened(|what| matches!(what, NoticeKind::Waiting { .. }).then_some(())).is_empty()
    })
    .await;
    let left: Vec<_> = alive(&harness).into_iter().filter(|path| before.contains(path)).collect();
    assert_eq!(left, [""; 0]);
    live.until_done().await;
    let last = live.shut_down().await;
    assert_eq!((last.totals.failed, last.totals.done), (1, 1));
}
