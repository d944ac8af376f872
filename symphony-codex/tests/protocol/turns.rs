//! Contract 10.5: how a turn ends.

use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{AgentErrorKind, AgentSession as _, TurnEnd};

use crate::server::{World, over, prompt, run};

#[tokio::test(start_paused = true)]
async fn rule_10_5_only_a_completed_turn_is_a_success() {
    let failed = |info: &str| {
        let mut over = over("failed");
        over["turn"]["error"] = json!({"message": "no", "codexErrorInfo": info});
        ("turn/completed", over)
    };
    let cases = [
        (("turn/completed", over("completed")), None),
        (("turn/completed", over("interrupted")), Some(AgentErrorKind::TurnCancelled)),
        (("turn/completed", over("failed")), Some(AgentErrorKind::TurnFailed)),
        (("turn/completed", over("exploded")), Some(AgentErrorKind::TurnFailed)),
        (failed("sandboxError"), Some(AgentErrorKind::TurnFailed)),
        (failed("usageLimitExceeded"), Some(AgentErrorKind::UsageLimit)),
        (failed("rateLimitExceeded"), Some(AgentErrorKind::RateLimited)),
        (failed("unauthorized"), Some(AgentErrorKind::Unauthorized)),
        (("turn/failed", json!({"error": "no"})), Some(AgentErrorKind::TurnFailed)),
        (("turn/failed", json!({"message": "no"})), Some(AgentErrorKind::TurnFailed)),
        (("turn/cancelled", json!({})), Some(AgentErrorKind::TurnCancelled)),
    ];
    for ((method, params), kind) in cases {
        let (mut session, mut server, told) = World::new().opened().await;
        let (end, ()) = run(&mut session, async {
            server.begin().await;
            server.tell(method, params.clone()).await;
        })
        .await;
        assert_eq!(end.err().map(|error| error.kind), kind, "{method} {params}");
        let name = match kind {
            None => "turn_completed",
            Some(AgentErrorKind::TurnCancelled) => "turn_cancelled",
            Some(_) => "turn_failed",
        };
        assert!(told.has_event(name), "{:?}", told.events());
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_10_a_failure_that_was_told_before_the_end_is_in_the_error() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let error = |message: &str| json!({"message": message, "codexErrorInfo": "unauthorized"});
        let told = |thread, retry, message| {
            json!({"threadId": thread, "turnId": "U", "willRetry": retry, "error": error(message)})
        };
        server.tell("error", told("T", false, "bad key")).await;
        server.tell("error", told("T", true, "again")).await;
        server.tell("error", told("HELPER", false, "another's")).await;
        server.tell("turn/completed", over("failed")).await;
    })
    .await;
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::Unauthorized);
    assert_eq!(error.message, "Codex: bad key (unauthorized)");
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_a_turn_may_end_before_its_start_is_answered() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        let other = json!({"threadId": "T", "turn": {"id": "OTHER", "status": "failed"}});
        server.tell("turn/completed", other).await;
        server.complete().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.answer(&start, json!({"turn": {"id": "U"}})).await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_the_end_of_another_turn_or_conversation_is_not_ours() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let other =
            |thread, turn| json!({"threadId": thread, "turn": {"id": turn, "status": "completed"}});
        server.tell("turn/completed", other("HELPER", "U")).await;
        server.tell("turn/completed", other("T", "OLD")).await;
        server.tell("turn/completed", json!("nonsense")).await;
        server.tell("turn/completed", over("interrupted")).await;
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnCancelled);
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_silence_in_a_turn_is_a_timeout_and_any_line_is_a_sign_of_life() {
    let world = World::new().with(|it| it.agent.common.turn_timeout = Duration::from_secs(10));
    let (mut session, mut server, told) = world.opened().await;
    let (end, lines) = run(&mut session, async {
        server.begin().await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(9)).await;
            server.raw(b"7\n").await;
        }
        10
    })
    .await;
    assert_eq!(lines, 10);
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::TurnTimeout);
    assert_eq!(error.message, "Codex was silent for 10000 ms in a turn");
    assert!(told.has_event("turn_ended_with_error: Codex was silent"), "{:?}", told.events());
}

/// A turn whose agent is heard, and then, in one moment, so much time has passed: as after SIGSTOP or
/// in a cgroup that was frozen.
async fn after_a_stop(
    seconds: u64,
    meanwhile: &[u8],
    afterwards: bool,
) -> Result<TurnEnd, AgentErrorKind> {
    let world = World::new().with(|it| it.agent.common.turn_timeout = Duration::from_secs(10));
    let (mut session, mut server, _) = world.opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.ask("currentTime/read", json!({})).await;
        server.raw(meanwhile).await;
        tokio::time::advance(Duration::from_secs(seconds)).await;
        if afterwards {
            tokio::time::sleep(Duration::from_secs(5)).await;
            server.complete().await;
        }
    })
    .await;
    end.map_err(|error| error.kind)
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_what_waits_in_the_pipe_is_heard_before_silence_is_judged() {
    for seconds in [10, 11, 60] {
        let end = after_a_stop(seconds, b"7\n", true).await;
        assert_eq!(end, Ok(TurnEnd::Completed), "{seconds} s");
    }
    // The beginning of a line is none, and the timer was not late.
    assert_eq!(after_a_stop(11, b"7", true).await, Err(AgentErrorKind::TurnTimeout));
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_silence_does_not_count_while_the_service_was_stopped() {
    // The agent was stopped as well, and speaks again soon.
    assert_eq!(after_a_stop(60, b"", true).await, Ok(TurnEnd::Completed));
    // It never does: then its silence begins after the stop.
    assert_eq!(after_a_stop(60, b"", false).await, Err(AgentErrorKind::TurnTimeout));
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_that_is_not_acknowledged_is_a_response_timeout() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, _) = run(&mut session, server.expect("turn/start")).await;
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ResponseTimeout);
    assert_eq!(error.message, "Codex did not answer turn/start within 5000 ms");
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_a_dropped_turn_is_interrupted_when_the_session_is_closed() {
    let (mut session, mut server, _) = World::new().opened().await;
    tokio::select! {
        _ = session.run_turn(prompt()) => panic!("it has no end"),
        () = async {
            server.begin().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        } => {}
    }
    let serve = async {
        let interrupt = server.expect("turn/interrupt").await;
        assert_eq!(interrupt["params"], json!({"threadId": "T", "turnId": "U"}));
        server.answer(&interrupt, json!({})).await;
        server.tell("turn/completed", over("interrupted")).await;
        server.next().await
    };
    let (closed, last) = tokio::join!(Box::new(session).close(), serve);
    closed.unwrap();
    assert_eq!(last, None, "and then its input ends");
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_a_server_that_ignores_everything_is_closed_all_the_same() {
    let (mut session, mut server, _) = World::new().opened().await;
    tokio::select! {
        _ = session.run_turn(prompt()) => panic!("it has no end"),
        () = async {
            server.begin().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        } => {}
    }
    Box::new(session).close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_a_turn_that_has_ended_is_not_interrupted() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.complete().await;
    })
    .await;
    end.unwrap();
    let (closed, last) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(last, None);
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_what_comes_between_turns_is_read_and_answered() {
    let (mut session, mut server, told) = World::new().opened().await;
    let answer = server.ask("currentTime/read", json!({"threadId": "T"})).await;
    assert!(answer["result"]["currentTimeAt"].as_i64().unwrap() > 1_700_000_000);
    server.complete().await; // of no turn
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(told.has_event("turn_completed"));
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.tell("turn/completed", over("failed")).await;
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnFailed, "an old end ends no new turn");
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_every_id_is_one_that_codex_can_read() {
    let (mut session, mut server, _) = World::new().opened().await;
    tokio::select! {
        _ = session.run_turn(prompt()) => panic!("it has no end"),
        () = async {
            server.begin().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        } => {}
    }
    let (closed, interrupt) =
        tokio::join!(Box::new(session).close(), server.expect("turn/interrupt"));
    closed.unwrap();
    assert_eq!(interrupt["id"], 5, "fresh, and small: Codex takes 64 bits with a sign");
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_an_end_counts_though_the_start_is_never_answered() {
    for silent in [true, false] {
        let (mut session, mut server, _) = World::new().opened().await;
        let (end, ()) = run(&mut session, async {
            server.expect("turn/start").await;
            server.tell("turn/cancelled", json!({"threadId": "T"})).await;
            if !silent {
                server.output = tokio::io::duplex(1).0;
            }
        })
        .await;
        assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnCancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_the_start_and_the_end_of_output_are_a_process_exit() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.output = tokio::io::duplex(1).0;
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::ProcessExit);
}
