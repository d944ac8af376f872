//! Sessions with a real process, which is a shell script that speaks the protocol.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

#[macro_use]
mod cases;
mod trial;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use symphony_core::Settings;
use symphony_core::agent::{AgentErrorKind, AgentUpdate, TurnEnd};
use symphony_core::workspace::OpenFolder;

use trial::{COMPLETE, SERVER, Trial, is_alive, please, server, trial};

/// The cases that are run with a helper and without: here without.
macro_rules! without_helper {
    ($($case:ident),*) => {
        mod without_helper {
            $(#[tokio::test]
            async fn $case() {
                let host: std::sync::Arc<dyn symphony_host::Host> =
                    std::sync::Arc::new(symphony_host::LocalHost::without_helper());
                crate::cases::$case(&host).await;
            })*
        }
    };
}
each_case!(without_helper);

#[tokio::test]
async fn rule_10_2_the_command_runs_in_the_workspace_and_ends_with_the_session() {
    let trial = server("pwd > where; complete");
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let place = std::fs::read_to_string(trial.workspace().join("where")).unwrap();
    assert_eq!(Path::new(place.trim()), trial.workspace().canonicalize().unwrap());
    assert!(!is_alive(trial.pid()));
}

#[tokio::test]
async fn rule_10_2_it_starts_in_the_open_folder_whatever_its_path_has_become() {
    let mut trial = server("pwd > where; complete");
    let handle: OwnedFd = std::fs::File::open(trial.workspace()).unwrap().into();
    trial.request.folder = Some(OpenFolder::new(Arc::new(handle)));
    let moved = trial.folder.path().join("moved");
    std::fs::rename(trial.workspace(), &moved).unwrap();
    std::fs::create_dir(trial.workspace()).unwrap();
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    assert!(moved.join("where").exists());
}

#[tokio::test]
async fn rule_9_2_a_handle_of_another_kind_of_host_is_not_replaced_by_its_path() {
    let mut trial = server("complete");
    trial.request.folder = Some(OpenFolder::new(Arc::new("host:/workspace")));
    let error = trial.run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::InvalidWorkspace);
}

#[tokio::test]
async fn rule_10_2_a_command_may_begin_with_a_variable() {
    let mut trial = trial("");
    let script = format!("{COMPLETE}turn() {{ echo $FOO > foo; complete; }}\n{SERVER}");
    std::fs::write(trial.folder.path().join("server"), script).unwrap();
    let mut settings = Settings::clone(&trial.request.settings);
    settings.agent.common.command = Some("FOO=1 bash ../server".to_owned());
    trial.request.settings = settings.into();
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    assert_eq!(std::fs::read_to_string(trial.workspace().join("foo")).unwrap(), "1\n");
}

#[tokio::test]
async fn rule_10_2_hidden_variables_are_not_seen() {
    // Cargo sets this one for every test, so it is there to be removed.
    let mut trial = server("env > seen; complete");
    trial.request.hidden_env = Arc::from(["CARGO_MANIFEST_DIR".to_owned()]);
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let seen = std::fs::read_to_string(trial.workspace().join("seen")).unwrap();
    assert!(seen.contains("CARGO_PKG_NAME=") && !seen.contains("CARGO_MANIFEST_DIR="));
}

#[tokio::test]
async fn rule_10_10_a_command_that_is_not_there_is_codex_not_found() {
    let error = trial("no-such-codex app-server").run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::CodexNotFound, "{error}");
    assert!(error.message.contains("no-such-codex: command not found"), "{error}");
}

#[tokio::test]
async fn rule_10_10_a_workspace_that_is_not_there_is_an_invalid_workspace() {
    let trial = server("complete");
    std::fs::remove_dir(trial.workspace()).unwrap();
    assert_eq!(trial.run().await.unwrap_err().kind, AgentErrorKind::InvalidWorkspace);
}

#[tokio::test]
async fn rule_10_5_a_process_that_ends_in_a_turn_says_how_and_why() {
    let error = server("echo 'out of\n  luck' >&2; exit 3").run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
    let end = "ended with exit code 3; the end of its stderr: out of luck";
    assert!(error.message.ends_with(end), "{error}");
}

#[tokio::test]
async fn rule_10_5_an_end_that_a_background_child_hides_is_seen() {
    let trial = server("sleep 60 & exit 3");
    let error = trial.run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit, "{error}");
}

/// With other settings.
fn with(mut trial: Trial, change: impl FnOnce(&mut Settings)) -> Trial {
    let mut settings = Settings::clone(&trial.request.settings);
    change(&mut settings);
    trial.request.settings = settings.into();
    trial
}

/// A service that stands still, as after SIGSTOP, while its agent speaks.
#[tokio::test]
async fn rule_10_5_a_service_that_stood_still_hears_its_agent_before_it_judges() {
    let talk = r#"sleep 1.2; echo '{"method":"brand/new"}'; touch ../spoke; sleep 0.3; complete"#;
    let trial = with(server(talk), |it| it.agent.common.turn_timeout = Duration::from_secs(1));
    let mut session = trial.open().await.unwrap();
    let stand_still = async {
        let is_turn = |update: &AgentUpdate| matches!(update, AgentUpdate::Session { .. });
        while !trial.told.lock().unwrap().iter().any(is_turn) {
            tokio::task::yield_now().await;
        }
        let limit = Instant::now() + Duration::from_secs(30);
        while !trial.folder.path().join("spoke").exists() && Instant::now() < limit {
            std::thread::yield_now(); // and nothing else runs: the test has one thread
        }
    };
    let (end, ()) = tokio::join!(session.run_turn(please()), stand_still);
    session.close().await.unwrap();
    assert_eq!(end.unwrap(), TurnEnd::Completed);
}

#[tokio::test]
async fn rule_10_10_a_server_that_says_nothing_at_all_is_told_so() {
    let cases = [
        ("sleep 60", "nothing was heard from it, not even on stderr: its login profile may hang"),
        ("echo trouble >&2; sleep 60", "all that was heard is its stderr: trouble"),
    ];
    for (command, end) in cases {
        let trial =
            with(trial(command), |it| it.agent.common.read_timeout = Duration::from_millis(200));
        let error = trial.run().await.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ResponseTimeout);
        let start = "Codex did not answer initialize within 2000 ms; ";
        assert_eq!(error.message, format!("{start}{end}"));
    }
}

#[tokio::test]
async fn rule_10_5_what_was_said_before_the_end_counts() {
    assert_eq!(server("complete; exit 3").run().await.unwrap(), TurnEnd::Completed);
}

#[tokio::test]
async fn rule_10_5_output_that_is_closed_by_a_live_process_is_the_end_of_it() {
    let trial = server("exec >&-; sleep 60");
    let error = trial.run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
    assert!(error.message.contains("closed its output, though it still runs"), "{error}");
    assert!(!is_alive(trial.pid()));
}
