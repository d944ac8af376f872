//! Contract 10.3: turns that Codex begins by itself.

use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::agent::{AgentErrorKind, AgentSession as _, AgentUpdate, TurnEnd};

use crate::server::{Server, Told, World, over, prompt, run};

fn begun(turn: &str) -> Value {
    json!({"threadId": "T", "turn": {"id": turn, "status": "inProgress"}})
}

fn ended(turn: &str, status: &str) -> Value {
    json!({"threadId": "T", "turn": {"id": turn, "status": status}})
}

fn unrequested(told: &Told) -> usize {
    told.all().iter().filter(|update| **update == AgentUpdate::UnrequestedTurn).count()
}

/// Begins a turn by itself, which is interrupted.
async fn begin_one(server: &mut Server, turn: &str) -> Value {
    server.tell("turn/started", begun(turn)).await;
    let interrupt = server.expect("turn/interrupt").await;
    assert_eq!(interrupt["params"], json!({"threadId": "T", "turnId": turn}));
    interrupt
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_that_was_not_asked_for_is_interrupted_and_shown() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.tell("turn/started", begun("U")).await; // ours
        server.complete().await;
    })
    .await;
    assert_eq!((end.unwrap(), unrequested(&told)), (TurnEnd::Completed, 0));
    let interrupt = begin_one(&mut server, "X").await;
    server.tell("turn/started", begun("X")).await; // told twice, and counted once
    server.answer(&interrupt, json!({})).await;
    server.tell("turn/completed", ended("X", "interrupted")).await;
    server.ask("currentTime/read", json!({})).await; // what came before it was read
    assert_eq!(unrequested(&told), 1);
    assert!(
        told.has_event("notification: Codex began a turn that was not asked for, 1 of at most 3")
    );
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed, "one does no harm");
    assert!(!told.has_event("other_message"), "{:?}", told.events());
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_the_end_of_a_turn_that_was_not_asked_for_is_not_ours() {
    for end_of_x in [ended("X", "completed"), json!({"threadId": "T", "turn": {}})] {
        let (mut session, mut server, told) = World::new().opened().await;
        let (end, ()) = run(&mut session, async {
            server.begin().await;
            begin_one(&mut server, "X").await;
            let used = json!({"total": {"totalTokens": 700}});
            let used = json!({"threadId": "T", "turnId": "X", "tokenUsage": used});
            server.tell("thread/tokenUsage/updated", used).await;
            let error = json!({"message": "of X", "codexErrorInfo": "unauthorized"});
            let error = json!({"threadId": "T", "turnId": "X", "willRetry": false, "error": error});
            server.tell("error", error).await;
            server.tell("turn/completed", end_of_x).await;
            server.tell("turn/completed", over("failed")).await;
        })
        .await;
        let error = end.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::TurnFailed, "neither the end nor the error of X");
        let counted = |update: &AgentUpdate| match update {
            AgentUpdate::Usage { total, .. } => total.tokens.unwrap().total == 700,
            _ => false,
        };
        assert!(told.all().iter().any(counted), "what it cost counts");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_the_third_turn_that_was_not_asked_for_ends_the_run() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for turn in ["X", "Y", "Z"] {
            begin_one(&mut server, turn).await;
            server.tell("turn/completed", ended(turn, "interrupted")).await;
        }
        for turn in 0..1000 {
            server.tell("turn/started", begun(&format!("more-{turn}"))).await;
            server.expect("turn/interrupt").await;
        }
    })
    .await;
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::UnrequestedTurns);
    assert_eq!(error.message, "Codex began 3 turns that were not asked for");
    assert_eq!(unrequested(&told), 3, "a flood of them is not told one by one");
    let (closed, interrupt) =
        tokio::join!(Box::new(session).close(), server.expect("turn/interrupt"));
    closed.unwrap();
    assert_eq!(interrupt["params"]["turnId"], "U", "and ours ends too");
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_turns_that_were_not_asked_for_between_turns_fail_the_next() {
    let (mut session, mut server, _) = World::new().opened().await;
    for turn in ["X", "Y", "Z"] {
        begin_one(&mut server, turn).await;
        server.tell("turn/completed", ended(turn, "interrupted")).await;
    }
    server.ask("currentTime/read", json!({})).await;
    let error = session.run_turn(prompt()).await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::UnrequestedTurns);
    let (closed, last) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(last, None, "no turn/start");
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_no_turn_is_asked_for_while_another_is_live() {
    for is_refused in [false, true] {
        let (mut session, mut server, told) = World::new().opened().await;
        let interrupt = begin_one(&mut server, "X").await;
        let (end, ()) = run(&mut session, async {
            // The session wants its turn now, and Codex would merge it into X.
            let asked = tokio::time::timeout(Duration::from_secs(3), server.next()).await;
            assert!(asked.is_err(), "{asked:?}");
            if is_refused {
                let error = json!({"code": -32600, "message": "no active turn"});
                server.send(json!({"id": interrupt["id"], "error": error})).await;
            } else {
                server.answer(&interrupt, json!({})).await;
                server.tell("turn/completed", ended("X", "interrupted")).await;
            }
            server.begin().await;
            server.complete().await;
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed);
        assert!(told.has_event("notification: the turn waits for the end of one"));
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_that_waited_in_vain_is_not_asked_for_later() {
    let (mut session, mut server, _) = World::new().opened().await;
    begin_one(&mut server, "X").await;
    let error = session.run_turn(prompt()).await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ResponseTimeout);
    server.tell("turn/completed", ended("X", "interrupted")).await;
    server.ask("currentTime/read", json!({})).await; // no turn/start before it
    let (closed, last) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(last, None);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_while_ours_is_live_is_an_error_and_is_not_sent() {
    let (mut session, mut server, _) = World::new().opened().await;
    tokio::select! {
        _ = session.run_turn(prompt()) => panic!("it has no end"),
        () = async {
            server.begin().await;
            server.ask("currentTime/read", json!({})).await;
        } => {}
    }
    let error = session.run_turn(prompt()).await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::TurnFailed);
    assert_eq!(error.message, "the turn before has not ended");
    let (closed, next) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(next.unwrap()["method"], "turn/interrupt");
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_what_began_before_ours_had_a_name_is_judged_then() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        server.tell("turn/started", begun("OVER")).await;
        server.tell("turn/completed", ended("OVER", "completed")).await;
        server.tell("turn/started", begun("X")).await;
        server.tell("turn/started", begun("U")).await;
        server.answer(&start, json!({"turn": {"id": "U"}})).await;
        let interrupt = server.expect("turn/interrupt").await;
        assert_eq!(interrupt["params"]["turnId"], "X", "neither ours nor the one that is over");
        server.complete().await;
    })
    .await;
    assert_eq!((end.unwrap(), unrequested(&told)), (TurnEnd::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_conversation_may_begin_a_turn_before_its_resume_is_answered() {
    let mut world = World::new();
    world.request.resume = Some("T".into());
    let (session, (), _, told) = world
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let resume = server.expect("thread/resume").await;
            begin_one(server, "X").await;
            // All in one piece, so that nothing is between the answer and what comes after it.
            let answer = json!({"id": resume["id"], "result": {"thread": {"id": "T"}}});
            let next = json!({"method": "turn/started", "params": begun("Y")});
            server.raw(format!("{answer}\n{next}\n").as_bytes()).await;
            server.expect("turn/interrupt").await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
        })
        .await;
    drop(session.unwrap());
    assert_eq!(unrequested(&told), 2);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_turns_of_helpers_are_left_alone() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for turn in 0..10 {
            let begun = json!({"threadId": "HELPER", "turn": {"id": format!("h-{turn}")}});
            server.tell("turn/started", begun).await;
        }
        server.tell("turn/started", json!("nonsense")).await;
        server.ask("currentTime/read", json!({})).await; // nothing was interrupted before
        server.complete().await;
    })
    .await;
    assert_eq!((end.unwrap(), unrequested(&told)), (TurnEnd::Completed, 0));
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_that_was_not_asked_for_gets_neither_tools_nor_approvals() {
    use symphony_core::settings::Approvals;
    let world = World::new().with(|settings| settings.agent.common.approvals = Approvals::Accept);
    let (mut session, mut server, told) = world.opened().await;
    begin_one(&mut server, "X").await;
    let of_x = json!({"threadId": "T", "turnId": "X", "command": "make", "tool": "look"});
    for method in ["item/commandExecution/requestApproval", "item/tool/call"] {
        let answer = server.ask(method, of_x.clone()).await;
        assert_eq!(answer["error"]["message"], "the turn was not asked for", "{method}");
    }
    server.send(json!({"id": "q", "method": "item/tool/requestUserInput", "params": of_x})).await;
    server.ask("currentTime/read", json!({})).await; // and nothing was said to the question
    server.tell("turn/completed", ended("X", "interrupted")).await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed, "its question is not ours");
    assert!(!told.has_event("turn_input_required"), "{:?}", told.events());
}
