//! Contract 10.3, and what may go wrong on the way.

use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::agent::{
    AgentErrorKind, AgentSession as _, AgentUpdate, ClientTurnId, LastTurn, LastTurnState, Opened,
    TurnEnd,
};

use crate::server::{Server, World, run};

#[tokio::test(start_paused = true)]
async fn rule_10_3_the_messages_of_a_first_turn() {
    let (session, asked, mut server, told) = World::new()
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            let ready = server.expect("initialized").await;
            let start = server.expect("thread/start").await;
            server.answer(&start, json!({"thread": {"id": "T"}})).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
            [hello, ready, start, name]
        })
        .await;
    let mut session = session.unwrap();
    let (end, turn) = run(&mut session, async {
        let turn = server.begin().await;
        server.complete().await;
        turn
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);

    let [hello, ready, start, name] = asked;
    assert_eq!(hello["params"]["clientInfo"]["name"], "symphony");
    assert_eq!(hello["params"]["capabilities"], json!({"experimentalApi": true}));
    assert_eq!(ready, json!({"method": "initialized"}));
    assert_eq!(
        start["params"],
        json!({
            "cwd": "/work/MT-1",
            "approvalPolicy": "never",
            "sandbox": "workspace-write",
            "config": {"features.goals": false},
        })
    );
    assert_eq!(name["params"], json!({"threadId": "T", "name": "MT-1: Fix the door"}));
    assert_eq!(
        turn["params"],
        json!({
            "threadId": "T",
            "clientUserMessageId": "symphony-1.1-1",
            "input": [{"type": "text", "text": "Please"}],
            "cwd": "/work/MT-1",
            "approvalPolicy": "never",
            "sandboxPolicy": {
                "type": "workspaceWrite",
                "writableRoots": ["/work/MT-1"],
                "networkAccess": false,
            },
        })
    );
    let ids: Vec<_> = [&hello, &start, &name, &turn].map(|message| message["id"].as_u64()).into();
    assert_eq!(ids, [Some(1), Some(2), Some(3), Some(4)], "fresh ids");
    let sessions: Vec<_> = told
        .all()
        .into_iter()
        .filter_map(|update| match update {
            AgentUpdate::Session { thread, session_id, pid: None } => {
                Some(format!("{thread} {session_id}"))
            }
            _ => None,
        })
        .collect();
    assert_eq!(sessions, ["T T-U"]);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_resumed_conversation_gets_its_policies_again() {
    let mut world = World::new().with(|settings| {
        settings.agent.section.set("approval_policy", json!("on-request"));
        settings.agent.section.set("thread_sandbox", json!("danger-full-access"));
        settings.agent.section.set("turn_sandbox_policy", json!({"type": "dangerFullAccess"}));
    });
    world.request.resume = Some("OLD".into());
    let (session, resume, mut server, _) = world
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let resume = server.expect("thread/resume").await;
            server.answer(&resume, json!({"thread": {"id": "OLD"}})).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
            resume
        })
        .await;
    assert_eq!(
        resume["params"],
        json!({
            "threadId": "OLD",
            "cwd": "/work/MT-1",
            "approvalPolicy": "on-request",
            "sandbox": "danger-full-access",
            "excludeTurns": true,
            "initialTurnsPage": {"limit": 1, "itemsView": "summary"},
            "config": {"features.goals": false},
        })
    );
    let mut session = session.unwrap();
    let (end, turn) = run(&mut session, async {
        let turn = server.begin().await;
        server.tell("turn/completed", json!({"threadId": "OLD", "turn": {"id": "U"}})).await;
        turn
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert_eq!(turn["params"]["sandboxPolicy"], json!({"type": "dangerFullAccess"}));
}

/// Resumes a conversation and returns what the session says it found.
async fn resumed(answer: Value) -> Opened {
    let mut world = World::new();
    world.request.resume = Some("OLD".into());
    let (session, (), ..) = world
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let resume = server.expect("thread/resume").await;
            server.answer(&resume, answer).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
        })
        .await;
    session.unwrap().opened()
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_an_opened_session_tells_model_effort_and_the_last_turn() {
    let message = json!({"type": "userMessage", "id": "i", "clientId": "symphony-1.1-3"});
    let note = json!({"type": "userMessage", "id": "j", "clientId": "note-1"});
    let said = json!({"type": "agentMessage", "id": "k", "text": "Done."});
    let turn = json!({"id": "U", "status": "interrupted", "items": [message, said, note]});
    let opened = resumed(json!({
        "thread": {"id": "OLD"}, "model": "gpt-9", "reasoningEffort": "high",
        "initialTurnsPage": {"data": [turn]},
    }))
    .await;
    assert_eq!(opened.thread, Some("OLD".into()));
    assert_eq!((opened.model.as_deref(), opened.effort.as_deref()), (Some("gpt-9"), Some("high")));
    let client_id = Some(ClientTurnId::from("symphony-1.1-3"));
    assert_eq!(opened.last_turn, Some(LastTurn::new(client_id, LastTurnState::Interrupted)));
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_what_cannot_be_read_of_the_last_turn_does_not_end_the_conversation() {
    for page in [json!(7), json!({"data": 1}), json!({"data": [{"items": "x"}]}), json!(null)] {
        let answer = json!({"thread": {"id": "OLD"}, "model": 1, "initialTurnsPage": page});
        let mut unknown = Opened::new("OLD".into());
        unknown.last_turn = Some(LastTurn::new(None, LastTurnState::Unknown));
        assert_eq!(resumed(answer).await, unknown, "{page}");
    }
    let none = json!({"thread": {"id": "OLD"}, "initialTurnsPage": {"data": []}});
    assert_eq!(resumed(none).await.last_turn, None);
    let bare = json!({"thread": {"id": "OLD"}, "initialTurnsPage": {"data": [{}]}});
    let unknown = LastTurn::new(None, LastTurnState::Unknown);
    assert_eq!(resumed(bare).await.last_turn, Some(unknown));
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_a_conversation_that_another_process_has_is_not_replaced() {
    let mut world = World::new();
    world.request.resume = Some("OLD".into());
    let (session, (), ..) = world
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let resume = server.expect("thread/resume").await;
            let message = "thread OLD already has an active writer";
            let error = json!({"code": -32600, "message": message});
            server.send(json!({"id": resume["id"], "error": error})).await;
        })
        .await;
    assert_eq!(session.unwrap_err().kind, AgentErrorKind::ThreadInUse);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_later_turns_go_on_in_the_same_conversation() {
    let (mut session, mut server, _) = World::new().opened().await;
    for id in [4, 5, 6] {
        let (end, turn) = run(&mut session, async {
            let turn = server.begin().await;
            server.complete().await;
            turn
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed);
        assert_eq!((&turn["id"], &turn["params"]["threadId"]), (&json!(id), &json!("T")));
    }
}

/// Serves so many requests of the handshake.
async fn serve(server: &mut Server, count: usize) {
    let results = [json!({}), json!({"thread": {"id": "T"}}), json!({})];
    let mut served = 0;
    while served < count {
        let message = server.next().await.unwrap();
        if message.get("id").is_some() {
            server.answer(&message, results[served].clone()).await;
            served += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_silence_at_every_point_of_the_handshake_is_a_response_timeout() {
    for (count, method) in ["initialize", "thread/start"].into_iter().enumerate() {
        let (session, (), _, told) =
            World::new().open(async |server| serve(server, count).await).await;
        let error = session.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ResponseTimeout, "{method}");
        assert!(error.message.contains(&format!("{method} within 50000 ms")), "{error}");
        assert!(told.has_event("startup_failed: Codex did not answer"));
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_other_traffic_does_not_move_a_deadline() {
    let (session, (), ..) = World::new()
        .open(async |server| {
            let hello = server.expect("initialize").await;
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                server.tell("configWarning", json!({"summary": "hm"})).await;
            }
            // Too late: the session does not listen, and the input has ended.
            server.answer(&hello, json!({})).await;
            assert_eq!(server.next().await, None);
        })
        .await;
    assert_eq!(session.unwrap_err().kind, AgentErrorKind::ResponseTimeout);
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_the_end_of_output_at_every_point_is_a_process_exit() {
    for count in 0..3 {
        let (session, (), ..) = World::new()
            .open(async |server| {
                serve(server, count).await;
                server.output = tokio::io::duplex(1).0;
            })
            .await;
        let error = session.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ProcessExit, "after {count}: {error}");
    }
    for begun in [false, true] {
        let (mut session, mut server, _) = World::new().opened().await;
        let (end, ()) = run(&mut session, async {
            if begun {
                server.begin().await;
            }
            server.output = tokio::io::duplex(1).0;
        })
        .await;
        assert_eq!(end.unwrap_err().kind, AgentErrorKind::ProcessExit);
        Box::new(session).close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_10_a_refused_request_is_a_response_error_with_codexs_words() {
    let (session, (), ..) = World::new()
        .open(async |server| {
            serve(server, 1).await;
            server.expect("initialized").await;
            let start = server.expect("thread/start").await;
            server.refuse(&start, -32600, "unknown variant `x`").await;
        })
        .await;
    let error = session.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ResponseError);
    assert_eq!(error.message, "Codex refused thread/start: unknown variant `x` (-32600)");
}

#[tokio::test(start_paused = true)]
async fn rule_10_10_a_response_of_another_shape_is_a_response_error() {
    for result in [Value::Null, json!(7), json!({"thread": null}), json!({"thread": {"id": 1}})] {
        let (session, (), ..) = World::new()
            .open(async |server| {
                serve(server, 1).await;
                server.expect("initialized").await;
                let start = server.expect("thread/start").await;
                server.answer(&start, result.clone()).await;
            })
            .await;
        assert_eq!(session.unwrap_err().kind, AgentErrorKind::ResponseError, "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_server_that_cannot_name_threads_does_not_fail_the_session() {
    let (session, (), ..) = World::new()
        .open(async |server| {
            serve(server, 2).await;
            let name = server.expect("thread/name/set").await;
            server.refuse(&name, -32601, "unknown method").await;
        })
        .await;
    let _ = session.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_name_that_is_not_answered_does_not_fail_the_session() {
    let (session, (), mut server, told) =
        World::new().open(async |server| serve(server, 2).await).await;
    let name = server.expect("thread/name/set").await;
    let mut session = session.unwrap();
    let (end, ()) = run(&mut session, async {
        server.answer(&name, json!({})).await; // too late, and of no interest
        server.begin().await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let said = "notification: the conversation has no name: Codex did not answer thread/name/set";
    assert!(told.has_event(said), "{:?}", told.events());
}

#[tokio::test(start_paused = true)]
async fn rule_10_9_close_closes_the_servers_input() {
    let (session, mut server, _) = World::new().opened().await;
    Box::new(session).close().await.unwrap();
    assert_eq!(server.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_conversation_that_codex_lost_is_begun_anew() {
    let mut world = World::new();
    world.request.resume = Some("OLD".into());
    let (session, methods, mut server, told) = world
        .open(async |server| {
            serve(server, 1).await;
            server.expect("initialized").await;
            let resume = server.expect("thread/resume").await;
            let message = "no rollout found for thread id OLD";
            server.refuse(&resume, -32600, message).await;
            let start = server.expect("thread/start").await;
            server.answer(&start, json!({"thread": {"id": "T"}})).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
            [resume, start, name]
        })
        .await;
    let [resume, start, name] = methods;
    assert_eq!(resume["params"]["threadId"], "OLD");
    assert_eq!(start["params"].get("threadId"), None);
    assert_eq!(name["params"]["threadId"], "T");
    let mut session = session.unwrap();
    let (end, turn) = run(&mut session, async {
        let turn = server.begin().await;
        server.complete().await;
        turn
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert_eq!(turn["params"]["threadId"], "T");
    let said = "notification: a new conversation begins: Codex refused thread/resume: no rollout";
    assert!(told.has_event(said), "{:?}", told.events());
}

/// What Codex answers to the resume of a thread that it has, or may have.
#[tokio::test(start_paused = true)]
async fn rule_10_3_a_refused_resume_of_a_thread_that_exists_fails_the_attempt() {
    for (code, words) in [
        (-32600, "thread OLD already has an active writer"),
        (-32600, "session OLD is archived. Run `codex unarchive OLD` to unarchive it first."),
        (-32600, "Invalid request: unknown variant `x`, expected one of `read-only`"),
        (-32603, "failed to read thread: thread-store internal error"),
    ] {
        let mut world = World::new();
        world.request.resume = Some("OLD".into());
        let (session, (), mut server, _) = world
            .open(async |server| {
                serve(server, 1).await;
                server.expect("initialized").await;
                let resume = server.expect("thread/resume").await;
                server.refuse(&resume, code, words).await;
            })
            .await;
        let error = session.unwrap_err();
        assert_eq!(error.kind, AgentErrorKind::ResponseError);
        assert_eq!(error.message, format!("Codex refused thread/resume: {words} ({code})"));
        assert_eq!(server.next().await, None, "no other thread is begun");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_resume_that_is_not_answered_fails_the_attempt() {
    let mut world = World::new();
    world.request.resume = Some("OLD".into());
    let (session, (), ..) = world.open(async |server| serve(server, 1).await).await;
    let error = session.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ResponseTimeout);
    assert!(error.message.contains("thread/resume within 50000 ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_turn_does_not_widen_a_read_only_conversation() {
    let write = json!({
        "type": "workspaceWrite", "writableRoots": ["/work/MT-1"], "networkAccess": false,
    });
    let own = json!({"type": "dangerFullAccess"});
    let cases = [
        ("read-only", None, json!({"type": "readOnly"})),
        ("workspace-write", None, write.clone()),
        ("danger-full-access", None, write),
        ("read-only", Some(own.clone()), own),
    ];
    for (thread, policy, expected) in cases {
        let world = World::new().with(|settings| {
            settings.agent.section.set("thread_sandbox", json!(thread));
            settings.agent.section.set("turn_sandbox_policy", json!(policy));
        });
        let (mut session, mut server, _) = world.opened().await;
        let (end, turn) = run(&mut session, async {
            let turn = server.begin().await;
            server.complete().await;
            turn
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed);
        assert_eq!(turn["params"]["sandboxPolicy"], expected, "{thread}");
    }
}
