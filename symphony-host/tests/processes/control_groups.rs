//! The extra: a control group for each command, where the service may make one.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use symphony_host::{ProcessScope, RunningCommand};

use crate::trial::{LONG, Trial, helped, scope, ungrouped, until};

/// The folder of a command's group.
fn group_of(running: &RunningCommand) -> PathBuf {
    let leader = running.processes()[1];
    let own = |pid: &str| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned()
    };
    let (ours, theirs) = (own("self"), own(&leader.pid().to_string()));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" cgroup2 ")).unwrap();
    assert!(theirs.strip_prefix(&ours).unwrap().contains("symphony."), "{ours} {theirs}");
    PathBuf::from(mount.split(' ').nth(1).unwrap()).join(theirs.trim_start_matches('/'))
}

async fn start(scope: &ProcessScope, trial: &Trial) -> RunningCommand {
    scope.start(&trial.script("exec sleep $T")).await.unwrap()
}

#[tokio::test]
async fn rule_10_9_a_commands_group_goes_with_it() {
    if !helped().guarantees().control_groups {
        println!("not run: no control groups can be made here");
        return;
    }
    let (trial, scope) = (Trial::new(), scope(helped()));
    let mut running = start(&scope, &trial).await;
    let group = group_of(&running);
    assert!(group.exists());
    running.stop(LONG).await.unwrap();
    assert!(!group.exists());

    let mut running = start(&scope, &trial).await;
    let group = group_of(&running);
    let helper = i32::try_from(running.processes()[0].pid()).unwrap();
    kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
    running.exited().await;
    until("the group is gone", || !group.exists()).await;
    trial.assert_gone();
}

#[tokio::test]
async fn a_host_that_must_not_make_groups_makes_none() {
    assert!(!ungrouped().guarantees().control_groups);
    let (trial, scope) = (Trial::new(), scope(ungrouped()));
    let running = start(&scope, &trial).await;
    let own = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert_eq!(own(running.processes()[1].pid()), own(std::process::id()));
}
