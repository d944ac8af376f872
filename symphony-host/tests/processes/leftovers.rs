//! Contract 14.3: what an earlier life left running is ended, and nothing else.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::shapes::{Shape, matrix};
use crate::trial::{Trial, helped, ungrouped, until};
use rustix::process::{Pid, Signal, kill_process};
use symphony_host::{EarlierLife, MARK_VARIABLE, Mark, ProcessId, ProcessScope};
use tokio::runtime::Runtime;

/// A service that was killed so that its run goes on: its helper was stopped before.
fn killed_service(trial: &Trial, shape: Shape) -> Vec<ProcessId> {
    killed(trial, shape.script())
}

fn killed(trial: &Trial, script: &str) -> Vec<ProcessId> {
    let mut service = Command::new(std::env::current_exe().unwrap())
        .args(["leftovers::service", "--exact", "--ignored", "--nocapture"])
        .env("TRIAL_FOLDER", trial.path())
        .env("TRIAL_TOKEN", trial.token())
        .env("TRIAL_SCRIPT", script)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let records = trial.path().join("records");
    Runtime::new().unwrap().block_on(async {
        until("the run is recorded", || records.exists()).await;
        trial.until_ready().await;
    });
    let records = fs::read_to_string(records).unwrap();
    let records: Vec<ProcessId> = records.lines().map(|line| line.parse().unwrap()).collect();
    send(records[0].pid(), Signal::STOP);
    service.kill().unwrap();
    service.wait().unwrap();
    records
}

#[test]
#[ignore = "not a test: the service that other tests start and kill"]
fn service() {
    let Some((trial, script)) = Trial::from_environment() else { return };
    Runtime::new().unwrap().block_on(async {
        let host = if script == UNTAGGED { ungrouped() } else { helped() };
        let scope = ProcessScope::new(host, Mark::new(trial.token(), "1"));
        let running = scope.start(&trial.staying(&script)).await.unwrap();
        let records: String = running.processes().iter().map(|id| format!("{id}\n")).collect();
        fs::write(trial.path().join("new"), records).unwrap();
        fs::rename(trial.path().join("new"), trial.path().join("records")).unwrap();
        std::future::pending::<()>().await;
    });
}

/// A process of a person who looks into the workspace.
fn person(trial: &Trial) -> Child {
    Command::new("sleep").arg("1000").current_dir(trial.path()).spawn().unwrap()
}

fn sweep(service: &str, records: Vec<ProcessId>) -> usize {
    let earlier = EarlierLife { service: service.into(), records };
    Runtime::new().unwrap().block_on(helped().end_leftovers(&earlier)).unwrap().len()
}

fn by_mark(shape: Shape) {
    let trial = Trial::new();
    let mut person = person(&trial);
    killed_service(&trial, shape);
    assert!(sweep(trial.token(), Vec::new()) > 0);
    trial.assert_gone();
    assert_eq!(person.try_wait().unwrap(), None);
    person.kill().unwrap();
    person.wait().unwrap();
}

matrix! {
    rule_14_3_marked => by_mark;
}

fn run(end: impl FnOnce(Shape), shape: Shape) {
    end(shape);
}

/// A process that has shed its tag, as any can by lowering a limit. It has no control group, or
/// that would tell.
const UNTAGGED: &str = "exec bash -c 'ulimit -x 7; sleep $T & : > \"$R\"; exec sleep $T'";

#[test]
fn rule_14_3_a_recorded_process_without_its_tag_is_ended_by_its_mark() {
    let trial = Trial::new();
    let records = killed(&trial, UNTAGGED);
    // With the helper goes the last one above it that has the tag.
    send(records[0].pid(), Signal::KILL);
    Runtime::new().unwrap().block_on(until("the helper is gone", || !records[0].is_alive()));
    assert_eq!(sweep(trial.token(), Vec::new()), 0);
    assert!(!trial.is_gone());
    assert!(sweep(trial.token(), records) > 0);
    trial.assert_gone();
    assert_eq!(sweep(trial.token(), Vec::new()), 0);
}

#[test]
fn rule_14_3_a_record_alone_ends_no_process() {
    let trial = Trial::new();
    let mut person = person(&trial);
    let records = killed(&trial, Shape::Setsid.script());
    // Forged, or of a service with another name.
    let forged = records.iter().copied().chain(ProcessId::from_pid(person.id())).collect();
    assert_eq!(sweep("somebody else", forged), 0);
    assert!(!trial.is_gone());
    assert_eq!(person.try_wait().unwrap(), None);
    // What is ours is still found, and no process that was recorded besides.
    let forged = ProcessId::from_pid(person.id()).into_iter().collect();
    assert!(sweep(trial.token(), forged) > 0);
    trial.assert_gone();
    assert_eq!(person.try_wait().unwrap(), None);
    person.kill().unwrap();
    person.wait().unwrap();
}

#[test]
fn rule_14_3_a_number_that_was_used_again_is_not_touched() {
    let trial = Trial::new();
    let mut person = person(&trial);
    let id = ProcessId::from_pid(person.id()).unwrap().to_string();
    let (pid, rest) = id.split_once(':').unwrap();
    let (start, boot) = rest.split_once(':').unwrap();
    let earlier = format!("{pid}:{}:{boot}", start.parse::<u64>().unwrap() - 1);
    let other_boot = format!("{pid}:{start}:{}", boot.chars().rev().collect::<String>());
    let records = [earlier, other_boot].map(|id| id.parse().unwrap()).to_vec();
    assert_eq!(sweep("nobody", records), 0);
    assert_eq!(person.try_wait().unwrap(), None);
    person.kill().unwrap();
    person.wait().unwrap();
}

#[test]
fn rule_14_3_a_service_that_was_started_from_its_own_run_does_not_end_itself() {
    let trial = Trial::new();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["leftovers::sweeper", "--exact", "--ignored", "--nocapture"])
        .env(MARK_VARIABLE, format!("{}/1/1", trial.token()))
        .env("TRIAL_TOKEN", trial.token())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "not a test: a service that carries its own mark"]
fn sweeper() {
    let Ok(service) = std::env::var("TRIAL_TOKEN") else { return };
    assert_eq!(sweep(&service, ProcessId::from_pid(std::process::id()).into_iter().collect()), 0);
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}
