//! What a command gets and what it gives: folder, environment, streams, signals, output.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::trial::{GRACE, LONG, Trial, helped, scope, unhelped, until};
use symphony_host::{
    Captured, Exit, Finished, Folder, HostCommand, MAX_TAIL_BYTES, ProcessScope, RunError,
    RunLimit, Shell, SpawnError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn run(scope: &ProcessScope, command: &HostCommand) -> Finished {
    scope.run(command, RunLimit::new(LONG)).await.unwrap()
}

async fn output(command: &HostCommand) -> String {
    run(&scope(helped()), command).await.output.to_string()
}

#[tokio::test]
async fn rule_10_2_stdin_stdout_and_stderr_are_apart() {
    let trial = Trial::new();
    for host in [helped(), unhelped()] {
        let scope = scope(host);
        let command = trial.script("cat; echo bad >&2; exit 7").with_stdin();
        let mut running = scope.start(&command).await.unwrap();
        let mut stdin = running.stdin.take().unwrap();
        stdin.write_all(b"good\n").await.unwrap();
        drop(stdin);
        let (mut out, mut err) = (String::new(), String::new());
        running.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
        running.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
        assert_eq!((out.as_str(), err.as_str()), ("good\n", "bad\n"));
        assert_eq!(running.exited().await, Exit::Code(7));
    }
}

/// The process, its group, its session and its terminal, from a line of `/proc/<pid>/stat`.
fn identity(stat: &str) -> [&str; 4] {
    let (pid, rest) = stat.split_once(" (").unwrap();
    let fields: Vec<&str> = rest.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [pid, fields[2], fields[3], fields[4]]
}

#[tokio::test]
async fn rule_10_2_a_command_leads_a_group_of_its_own_and_has_no_terminal() {
    let trial = Trial::new();
    let command = HostCommand::new(["cat", "/proc/self/stat"], trial.path());
    let stat = output(&command).await;
    let [pid, group, session, terminal] = identity(&stat);
    assert_eq!(group, pid);
    // Not `getsid`: in a container the leader of our own session may lie outside, and has no number.
    let ours = fs::read_to_string("/proc/self/stat").unwrap();
    assert_ne!(session, identity(&ours)[2]);
    assert_eq!(terminal, "0");
}

#[tokio::test]
async fn rule_9_5_output_keeps_the_order_of_both_streams() {
    let trial = Trial::new();
    let command = trial.script("echo 1; echo 2 >&2; echo 3; echo 4 >&2");
    assert_eq!(output(&command).await, "1\n2\n3\n4\n");
}

#[tokio::test]
async fn rule_9_5_output_is_kept_to_64_kib_and_counted() {
    let trial = Trial::new();
    let all: String = (1..=40_000).map(|line| format!("{line}\n")).collect();
    let captured = run(&scope(helped()), &trial.script("seq 40000")).await.output;
    let expected = Captured {
        tail: all.as_bytes()[all.len() - MAX_TAIL_BYTES..].to_vec(),
        total: u64::try_from(all.len()).unwrap(),
    };
    assert_eq!(captured, expected);
}

#[tokio::test]
async fn rule_9_5_a_flood_in_the_background_does_not_hold_up_its_hook() {
    let trial = Trial::new();
    let scope = scope(helped());
    let finished = run(&scope, &trial.script("echo first; yes &")).await;
    assert_eq!(finished.exit, Exit::Code(0));
    scope.close(GRACE).await.unwrap();
    trial.assert_gone();
}

#[tokio::test]
async fn rule_9_5_a_background_writer_does_not_die_of_a_closed_pipe() {
    let trial = Trial::new();
    let scope = scope(helped());
    let writer = "(until [ -e go ]; do sleep 0.01; done; echo late; echo later; : > wrote) &";
    let finished = run(&scope, &trial.script(&format!("echo now; {writer}"))).await;
    assert_eq!(finished.output.to_string(), "now\n");
    fs::write(trial.path().join("go"), "").unwrap();
    let wrote = trial.path().join("wrote");
    until("it has written", || wrote.exists()).await;
    scope.close(GRACE).await.unwrap();
}

#[tokio::test]
async fn rule_9_5_a_timeout_tells_what_was_printed() {
    let trial = Trial::new();
    let limit = RunLimit::new(Duration::from_secs(1));
    let command = trial.script("echo before; exec sleep $T");
    match scope(helped()).run(&command, limit).await {
        Err(RunError::TimedOut { after, output }) => {
            assert_eq!((after, output.to_string().as_str()), (limit.timeout, "before\n"));
        }
        other => panic!("{other:?}"),
    }
    trial.assert_gone();
}

#[tokio::test]
async fn a_program_runs_without_a_shell() {
    let trial = Trial::new();
    assert_eq!(output(&HostCommand::new(["echo", "$HOME  x"], trial.path())).await, "$HOME  x\n");
}

#[tokio::test]
async fn rule_9_2_a_symlink_planted_after_the_check_redirects_nothing() {
    let trial = Trial::new();
    let [checked, moved, elsewhere] =
        ["checked", "moved", "elsewhere"].map(|name| trial.path().join(name));
    fs::create_dir(&checked).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let handle = Arc::new(fs::File::open(&checked).unwrap().into());
    fs::rename(&checked, &moved).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &checked).unwrap();
    for host in [helped(), unhelped()] {
        let command = HostCommand::new(["pwd", "-P"], Folder::Handle(Arc::clone(&handle)));
        let printed = run(&scope(host), &command).await.output.to_string();
        assert_eq!(printed, format!("{}\n", moved.canonicalize().unwrap().display()));
    }
}

#[tokio::test]
async fn a_handle_that_is_no_folder_is_told() {
    let trial = Trial::new();
    let path = trial.path().join("file");
    let file = Arc::new(fs::File::create(&path).unwrap().into());
    for host in [helped(), unhelped()] {
        let command = HostCommand::new(["true"], Folder::Handle(Arc::clone(&file)));
        let error = scope(host).start(&command).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot enter {}", path.display()));
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_told_apart() {
    let trial = Trial::new();
    for host in [helped(), unhelped()] {
        let scope = scope(host);
        let error =
            scope.start(&HostCommand::new(["no-such-program"], trial.path())).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert_eq!(error.to_string(), "cannot run no-such-program");
        let error = scope.start(&HostCommand::new(["true"], "/no/such/folder")).await.unwrap_err();
        assert!(matches!(error, SpawnError::Folder { .. }), "{error:?}");
        let error = scope.start(&HostCommand::new(["/"; 1], trial.path())).await.unwrap_err();
        assert!(!error.is_not_found(), "{error:?}");
        let nothing = HostCommand::new([""; 0], trial.path());
        assert!(scope.start(&nothing).await.is_err());
        scope.close(GRACE).await.unwrap();
        let error = scope.start(&HostCommand::new(["true"], trial.path())).await.unwrap_err();
        assert!(matches!(error, SpawnError::Closed), "{error:?}");
    }
}

#[test]
fn outside_a_runtime_nothing_starts_and_nothing_panics() {
    let mark = symphony_host::Mark::new("trial", "none");
    assert!(helped().start(&HostCommand::new(["true"], "/"), &mark).is_err());
}

#[tokio::test]
async fn a_lost_helper_is_told() {
    let host = Arc::new(symphony_host::LocalHost::with_helper("/bin/false"));
    let error = scope(host).start(&HostCommand::new(["true"], "/")).await.unwrap_err();
    assert!(matches!(error, SpawnError::HelperLost), "{error:?}");
}

/// A home whose profile runs `lines`.
fn at_home(trial: &Trial, lines: &str, command: HostCommand) -> HostCommand {
    for profile in [".profile", ".bash_profile"] {
        fs::write(trial.path().join(profile), lines).unwrap();
    }
    command.set("HOME", trial.path()).remove("KEY")
}

#[tokio::test]
async fn rule_10_2_a_removed_name_stays_removed_when_the_profile_exports_it() {
    let print = r#"FOO=1 sh -c 'echo "$FOO ${KEY-none} $OTHER"'"#;
    for shell in [Shell::Sh, Shell::Bash] {
        let trial = Trial::new();
        let lines = "export KEY=secret OTHER=kept\n";
        let command = HostCommand::script(shell, print, trial.path()).set("KEY", "secret");
        let command = at_home(&trial, lines, command);
        assert_eq!(output(&command).await, "1 none kept\n", "{shell:?}");
    }
}

#[tokio::test]
async fn rule_10_2_a_profile_that_makes_it_read_only_lets_nothing_run() {
    for shell in [Shell::Sh, Shell::Bash] {
        let trial = Trial::new();
        let lines = "export KEY=secret; readonly KEY\n";
        let command = HostCommand::script(shell, "echo \"$KEY\"", trial.path());
        let finished = run(&scope(helped()), &at_home(&trial, lines, command)).await;
        assert!(!finished.exit.is_success(), "{shell:?}");
        assert!(!finished.output.to_string().contains("secret"), "{shell:?} {}", finished.output);
    }
}

#[tokio::test]
async fn a_script_keeps_its_line_numbers() {
    let trial = Trial::new();
    let command = HostCommand::script(Shell::Bash, "\n\necho $LINENO", trial.path());
    let command = at_home(&trial, "", command);
    assert_eq!(output(&command).await, "3\n");
}

#[tokio::test]
async fn a_program_without_shell_gets_the_changed_environment() {
    let trial = Trial::new();
    let command =
        HostCommand::new(["env"], trial.path()).set("NEW", "1").remove("PWD").remove("HOME");
    let printed = output(&command).await;
    let names: Vec<_> = printed.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"NEW") && !names.contains(&"HOME"), "{printed}");
}

#[tokio::test]
async fn rule_10_9_every_process_is_asked_once_before_any_is_killed() {
    let trial = Trial::new();
    // One in the group, one that left it: each notes what it hears, and ignores it.
    let noter = r#"trap "echo \$1 >> heard" TERM; : > ready-$1; while :; do sleep 0.01; done"#;
    let script = format!(
        "sh -c '{noter}' sh group & setsid sh -c '{noter}' sh left & trap '' TERM; while :; do sleep 0.01; done"
    );
    let scope = scope(helped());
    let mut running = scope.start(&trial.script(&script)).await.unwrap();
    let is_ready = |name: &str| trial.path().join(format!("ready-{name}")).exists();
    until("both are ready", || is_ready("group") && is_ready("left")).await;
    running.stop(Duration::from_secs(1)).await.unwrap();
    let heard = fs::read_to_string(trial.path().join("heard")).unwrap();
    let mut heard: Vec<_> = heard.lines().collect();
    heard.sort_unstable();
    assert_eq!(heard, ["group", "left"]);
}

#[tokio::test]
async fn rule_10_9_a_process_that_ends_in_the_grace_is_not_killed() {
    let script = r#"trap 'echo bye; exit 5' TERM; : > "$R"; while :; do sleep 0.01; done"#;
    for host in [helped(), unhelped()] {
        let trial = Trial::new();
        let scope = scope(host);
        let mut running = scope.start(&trial.script(script)).await.unwrap();
        trial.until_ready().await;
        assert_eq!(running.stop(LONG).await, Ok(Exit::Code(5)));
    }
}

#[tokio::test]
async fn rule_10_9_a_stopped_process_hears_that_it_is_to_end() {
    let script = r#"trap 'exit 6' TERM; : > "$R"; kill -STOP $$; sleep $T"#;
    for host in [helped(), unhelped()] {
        let trial = Trial::new();
        let scope = scope(host);
        let mut running = scope.start(&trial.script(script)).await.unwrap();
        let leader = running.processes().pop().unwrap();
        let stat = format!("/proc/{}/stat", leader.pid());
        until("it is stopped", || {
            fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
        })
        .await;
        assert_eq!(running.stop(LONG).await, Ok(Exit::Code(6)));
    }
}

#[tokio::test]
async fn rule_14_3_the_processes_for_a_record_live_as_long_as_the_run() {
    let trial = Trial::new();
    let scope = scope(helped());
    let mut running = scope.start(&trial.script("exec sleep $T")).await.unwrap();
    let processes = running.processes();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| process.is_alive()));
    running.stop(LONG).await.unwrap();
    assert!(!processes.iter().any(|process| process.is_alive()));
}

#[tokio::test]
async fn rule_14_4_a_command_gets_no_descriptor_of_the_service() {
    let trial = Trial::new();
    let path = trial.path().join("secret");
    let secret = fs::File::create(&path).unwrap();
    // As a library might open it: not closed on exec.
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let printed = output(&trial.script("ls -l /proc/self/fd")).await;
    assert!(printed.contains("/dev/null") && !printed.contains("secret"), "{printed}");
    // Another child would get it.
    let other = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    assert!(String::from_utf8_lossy(&other.stdout).contains("secret"));
}

#[tokio::test]
async fn the_login_shell_is_measured() {
    let scope = scope(helped());
    for shell in [Shell::Sh, Shell::Bash] {
        assert!(scope.login_time(shell).await.unwrap() > Duration::ZERO);
    }
}

#[tokio::test]
async fn a_host_says_what_it_promises() {
    assert!(helped().guarantees().is_full(), "{}", helped().guarantees());
    let weaker = unhelped().guarantees();
    assert!(!weaker.whole_tree && !weaker.service_killed);
    assert!(weaker.to_string().contains("NO  when the service is killed"), "{weaker}");
    assert!(weaker.missing().any(|promise| promise.starts_with("when the service is killed")));
    let is_missing = |promise| weaker.to_string().contains(&format!("NO  {promise}"));
    assert!(weaker.missing().all(is_missing), "{weaker}");
}
