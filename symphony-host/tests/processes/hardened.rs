//! Contract 14.4: the service is not readable by its agents.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::trial::{LONG, Trial, helped, scope};
use rustix::process::{Resource, getrlimit};
use symphony_host::RunLimit;
use tokio::runtime::Runtime;

const NOBODY: u32 = 65534;

/// This program again as a service with a secret, by an unprivileged user.
fn service(trial: &Trial, hardened: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["hardened::agent_reads", "--exact", "--ignored", "--nocapture"])
        .env("TRIAL_FOLDER", trial.path())
        .env("TRIAL_TOKEN", trial.token())
        .env("TRIAL_SCRIPT", "")
        .env("TRIAL_SECRET", "lin_api_secret")
        .env("TRIAL_HARDENED", hardened.to_string());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(trial.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

#[test]
#[ignore = "not a test: the service whose agent looks around"]
fn agent_reads() {
    let Some((trial, _)) = Trial::from_environment() else { return };
    if std::env::var("TRIAL_HARDENED").as_deref() == Ok("true") {
        symphony_host::harden().unwrap();
    }
    let soft = getrlimit(Resource::Nofile).current;
    let look = format!(
        "H=$(cut -d' ' -f4 /proc/$$/stat)
        for pid in {service} $H; do cat /proc/$pid/environ; head -c 1 /proc/$pid/mem; done
        echo; echo soft $(ulimit -n)",
        service = std::process::id()
    );
    let command = trial.script(&look).remove("TRIAL_SECRET");
    Runtime::new().unwrap().block_on(async {
        let finished = scope(helped()).run(&command, RunLimit::new(LONG)).await.unwrap();
        println!("{}\nservice soft {soft:?}", finished.output);
    });
}

#[test]
fn rule_14_4_an_agent_reads_neither_the_environment_nor_the_memory_of_the_service() {
    let trial = Trial::new();
    let output = service(&trial, true);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(!text.contains("lin_api_secret"), "{text}");
    assert_eq!(text.matches("Permission denied").count(), 4, "{text}");
}

#[test]
fn an_agent_does_read_a_service_that_is_not_hardened() {
    let trial = Trial::new();
    let output = service(&trial, false);
    assert!(String::from_utf8_lossy(&output.stdout).contains("lin_api_secret"), "{output:?}");
}

#[test]
fn rule_14_4_the_service_may_open_more_files_and_its_commands_as_many_as_before() {
    let trial = Trial::new();
    let limit = getrlimit(Resource::Nofile);
    let text = String::from_utf8(service(&trial, true).stdout).unwrap();
    let before = limit.current.map_or("unlimited".into(), |soft| soft.to_string());
    assert!(text.contains(&format!("\nsoft {before}\n")), "{text}");
    assert!(text.contains(&format!("\nservice soft {:?}\n", limit.maximum)), "{text}");
}
