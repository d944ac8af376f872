//! What must hold with a helper and without.

use std::sync::{Arc, Mutex};

use symphony_core::agent::{AgentErrorKind, TurnEnd};
use symphony_core::transcript::{Direction, Transcript};
use symphony_host::Host;

use crate::trial::{Trial, gone, is_alive, please, server, trial};

/// Calls a macro with the names of all cases.
macro_rules! each_case {
    ($run:ident) => {
        $run! {
            rule_10_1_a_session_runs_a_turn_and_ends,
            rule_10_4_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept,
            rule_10_5_an_exit_at_every_point_is_a_process_exit_with_its_last_words,
            rule_10_5_a_closed_output_at_every_point_is_the_end_of_a_live_process,
            rule_13_1_what_is_said_on_stderr_is_told_line_by_line,
            rule_10_9_what_is_dropped_at_any_point_leaves_nothing,
            rule_10_9_what_the_command_left_in_the_background_ends_with_the_session
        }
    };
}

/// A server that answers so many requests and then does this.
fn until(count: usize, then: &str) -> Trial {
    let script = format!(
        r#"
        echo $$ > ../pid
        left={count}
        while [ $left -gt 0 ] && read -r line; do
            id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
            case $line in
                *'"initialized"'*) ;;
                *) echo "{{\"id\":$id,\"result\":{{\"thread\":{{\"id\":\"T\"}},\"turn\":{{\"id\":\"U\"}}}}}}"
                   left=$((left - 1)) ;;
            esac
        done
        {then}
        "#
    );
    trial(&script)
}

/// The server's own number.
async fn pid_of(trial: &Trial) -> u32 {
    let written = trial.folder.path().join("pid");
    loop {
        let text = std::fs::read_to_string(&written).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n') {
            return pid.parse().unwrap();
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn rule_10_1_a_session_runs_a_turn_and_ends(host: &Arc<dyn Host>) {
    let trial = server("complete").on(host);
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    assert!(!is_alive(trial.pid()));
}

pub(crate) async fn rule_10_4_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept(
    host: &Arc<dyn Host>,
) {
    let flood = "head -c 20000000 /dev/zero | tr '\\0' x >&2";
    let trial = server(&format!("{flood}; complete")).on(host);
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let trial = server(&format!("{flood}; echo; echo the end >&2; exit 1")).on(host);
    let error = trial.run().await.unwrap_err();
    assert!(error.message.ends_with("the end") && error.message.len() < 10_000);
}

pub(crate) async fn rule_13_1_what_is_said_on_stderr_is_told_line_by_line(host: &Arc<dyn Host>) {
    let long = "head -c 70000 /dev/zero | tr '\\0' x >&2; echo >&2";
    let script = format!("echo one >&2; {long}; printf 'no end' >&2; exit 1");
    let mut trial = server(&script).on(host);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    trial.request.transcript = Transcript::new(move |direction, line| {
        if direction == Direction::Stderr {
            sink.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
        }
    });
    trial.run().await.unwrap_err();
    let lines = lines.lock().unwrap();
    let middle: String = lines[1..lines.len() - 1].concat();
    assert_eq!((lines.first().unwrap().as_str(), middle), ("one", "x".repeat(70_000)));
    assert_eq!(lines.last().unwrap(), "no end");
}

/// The three requests of the handshake, and a turn.
pub(crate) async fn rule_10_5_an_exit_at_every_point_is_a_process_exit_with_its_last_words(
    host: &Arc<dyn Host>,
) {
    for count in 0..=4 {
        let trial = until(count, "echo out of luck >&2; exit 3").on(host);
        let error = trial.run().await.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ProcessExit, "after {count}: {error}");
        let end = "ended with exit code 3; the end of its stderr: out of luck";
        assert!(error.message.ends_with(end), "after {count}: {error}");
        assert!(!is_alive(pid_of(&trial).await), "after {count}");
    }
}

pub(crate) async fn rule_10_5_a_closed_output_at_every_point_is_the_end_of_a_live_process(
    host: &Arc<dyn Host>,
) {
    for count in 0..=4 {
        let trial = until(count, "exec >&-; sleep 60").on(host);
        let error = trial.run().await.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ProcessExit, "after {count}: {error}");
        assert!(error.message.contains("closed its output, though it still runs"), "{error}");
        assert!(!is_alive(pid_of(&trial).await), "after {count}");
    }
}

pub(crate) async fn rule_10_9_what_is_dropped_at_any_point_leaves_nothing(host: &Arc<dyn Host>) {
    for count in 0..=4 {
        // It says nothing more, so that the session is wherever it waits for an answer.
        let trial = until(count, "touch ../stuck; sleep 60").on(host);
        let stuck = trial.folder.path().join("stuck");
        let waits = async {
            while !stuck.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            end = trial.run() => panic!("after {count}: {end:?}"),
            () = waits => {}
        }
        gone(pid_of(&trial).await).await;
    }
    let trial = server("complete").on(host);
    let mut session = trial.open().await.unwrap();
    assert_eq!(session.run_turn(please()).await.unwrap(), TurnEnd::Completed);
    let pid = trial.pid();
    assert!(is_alive(pid));
    drop(session);
    gone(pid).await;
}

pub(crate) async fn rule_10_9_what_the_command_left_in_the_background_ends_with_the_session(
    host: &Arc<dyn Host>,
) {
    // One in the group, and one that does not listen to SIGTERM.
    let turn = "sleep 600 & echo $! > ../pid; (trap '' TERM; exec sleep 600) & echo $! > ../deaf; complete";
    let trial = server(turn).on(host);
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let deaf = std::fs::read_to_string(trial.folder.path().join("deaf")).unwrap();
    assert!(!is_alive(pid_of(&trial).await));
    assert!(!is_alive(deaf.trim().parse().unwrap()));
}
