//! Contract 10.4: streams that no server should send.

use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{AgentErrorKind, AgentSession as _, AgentUpdate, TurnEnd};
use tokio::io::AsyncWriteExt as _;

use crate::server::{World, over, prompt, run};

#[tokio::test(start_paused = true)]
async fn rule_10_4_nonsense_is_an_event_and_the_turn_goes_on() {
    let nonsense: [&[u8]; 16] = [
        b"\n",
        b"   \r\n",
        b"7\n",
        b"null\n",
        b"\"text\"\n",
        b"[]\n",
        b"{}\n",
        b"{\"id\":\n",
        b"\xff\xfe\xfd\n",
        b"\0\0\0\n",
        b"{\"id\":99,\"result\":{}}\n",
        b"{\"id\":\"4\",\"result\":{}}\n",
        b"{\"id\":null,\"method\":null}\n",
        b"{\"method\":7}\n",
        b"{\"method\":\"x\",\"method\":\"y\"}\n",
        b"{\"method\":\"turn/completed\"}\n",
    ];
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for line in nonsense {
            server.raw(line).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert!(told.has_event("malformed: not a JSON object: 7"), "{:?}", told.events());
    assert!(told.has_event("other_message: a response to nothing"));
    assert!(told.events().iter().all(|event| !event.contains(['\n', '\0'])));
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_long_line_is_read_and_a_longer_one_is_skipped() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let frame =
            r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","text":""}}}"#;
        for (length, name) in [(10 << 20, "ten"), (11 << 20, "eleven")] {
            let text = format!("{name} {}", "x".repeat(length - frame.len() - name.len() - 1));
            let line = frame.replace(r#""text":"""#, &format!(r#""text":"{text}""#));
            assert_eq!(line.len(), length);
            server.raw(line.as_bytes()).await;
            server.raw(b"\n").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert!(told.has_event("notification: ten xxx"), "{:?}", told.events());
    assert!(told.has_event("malformed: a line of 11534336 bytes was skipped"));
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_lines_may_come_in_any_pieces() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        let answer = json!({"id": start["id"], "result": {"turn": {"id": "U"}}});
        let end = json!({"method": "turn/completed", "params": over("completed")});
        for byte in format!("{answer}\r\n\n{end}\n").as_bytes() {
            server.raw(&[*byte]).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let (end, ()) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        let answer = json!({"id": start["id"], "result": {"turn": {"id": "U"}}});
        let end = json!({"method": "turn/completed", "params": over("completed")});
        server.raw(format!("{answer}\n{end}\n").as_bytes()).await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_last_line_without_an_end_still_counts() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let end = json!({"method": "turn/completed", "params": over("completed")});
        server.raw(end.to_string().as_bytes()).await;
        server.output.shutdown().await.unwrap();
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn rule_10_3_a_response_before_its_request_and_a_second_one_are_nobodys() {
    let (session, (), mut server, _) = World::new()
        .open(async |server| {
            for id in 1..6 {
                server.send(json!({"id": id, "result": {"thread": {"id": "FALSE"}}})).await;
            }
            server.greet().await;
        })
        .await;
    // The first request may have been answered too early only if it was already out.
    let mut session = session.unwrap();
    let (end, turn) = run(&mut session, async {
        let turn = server.begin().await;
        server.answer(&turn, json!({"turn": {"id": "FALSE"}})).await;
        server.answer(&turn, json!({"turn": {"id": "FALSE"}})).await;
        server.complete().await;
        turn
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert_eq!(turn["params"]["threadId"], "T");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_server_that_asks_and_does_not_read_ends_the_session_and_not_the_memory() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let filler = "x".repeat(1000);
        for id in 0..100_000 {
            let ask = json!({"id": format!("{id}{filler}"), "method": "currentTime/read"});
            if server.output.write_all(format!("{ask}\n").as_bytes()).await.is_err() {
                break;
            }
        }
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::ProcessExit);
    Box::new(session).close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_after_the_end_of_output_no_turn_begins() {
    let (mut session, mut server, _) = World::new().opened().await;
    server.output.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = session.run_turn(prompt()).await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
}

/// One turn as Codex 0.166 sent it.
const RECORDED: &str = include_str!("../recorded.jsonl");

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_recorded_turn_is_the_same_in_pieces_of_any_size() {
    let recorded = RECORDED.replace("0199a213-81c0-7800-8aa1-bbab2a035a53", "T");
    let mut all = Vec::new();
    for size in [1, 7, 64, 4095, 4096, 4097, 1 << 20] {
        let (mut session, mut server, told) = World::new().opened().await;
        let before = told.all().len();
        let (end, ()) = run(&mut session, async {
            server.expect("turn/start").await;
            for piece in recorded.as_bytes().chunks(size) {
                server.raw(piece).await;
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed, "{size}");
        let updates = told.all().split_off(before);
        let is_told = |update: &&AgentUpdate| {
            matches!(update, AgentUpdate::Session { .. } | AgentUpdate::Usage { .. })
        };
        let facts: Vec<_> = updates.iter().filter(is_told).cloned().collect();
        assert!(told.has_event("turn_completed"), "{:?}", told.events());
        all.push(facts);
    }
    assert!(!all[0].is_empty() && all.iter().all(|facts| facts.last() == all[0].last()), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_bytes_that_are_no_utf_8_do_not_hide_a_message() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, answer) = run(&mut session, async {
        server.begin().await;
        server.raw(b"{\"id\":1,\"method\":\"currentTime/read\",\"params\":\"\xff\"}\n").await;
        let answer = server.next().await.unwrap();
        server
            .raw(b"{\"method\":\"turn/failed\",\"params\":{\"message\":\"no \xff\xfe\"}}\n")
            .await;
        answer
    })
    .await;
    assert_eq!(answer["id"], 1);
    assert_eq!(end.unwrap_err().message, "Codex: no \u{fffd}\u{fffd}");
    assert!(!told.has_event("malformed"));
}

/// A line of 11 MiB that begins like this.
fn eleven(begin: &str, end: &str) -> String {
    let filler = "x".repeat((11 << 20) - begin.len() - end.len());
    format!("{begin}{filler}{end}\n")
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_response_that_is_too_long_is_a_response_error_at_once() {
    let begun = tokio::time::Instant::now();
    let (session, (), ..) = World::new()
        .open(async |server| {
            let hello = server.expect("initialize").await;
            let begin = format!(r#"{{"id":{},"result":{{"x":""#, hello["id"]);
            server.raw(eleven(&begin, r#""}}"#).as_bytes()).await;
        })
        .await;
    let error = session.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ResponseError);
    assert!(error.message.contains("a line of 11534336 bytes was skipped"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5), "it waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_request_that_is_too_long_is_refused() {
    let (_session, mut server, _) = World::new().opened().await;
    let begin = r#"{"method":"applyPatchApproval","id":"long","params":{"x":""#;
    server.raw(eleven(begin, r#""}}"#).as_bytes()).await;
    let answer = server.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("long"), &json!(-32600)));
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_request_that_is_too_long_is_refused_whatever_it_is_full_of() {
    let (_session, mut server, _) = World::new().opened().await;
    let begin = r#"{"method":"applyPatchApproval","id":7,"params":{"x":""#;
    server.raw(eleven(begin, r#""}}"#).replace('x', "7").as_bytes()).await;
    let answer = server.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)));
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_an_end_that_is_too_long_to_read_is_a_failure_and_only_if_it_is_ours() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for (thread, turn) in [("HELPER", "U"), ("T", "OLD"), ("T", "U")] {
            let params = format!(r#"{{"threadId":"{thread}","turn":{{"id":"{turn}","x":""#);
            let begin = format!(r#"{{"method":"turn/completed","params":{params}"#);
            server.raw(eleven(&begin, r#""}}}"#).as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::TurnFailed);
    assert!(error.message.contains("in a line of 11534336 bytes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_half_a_line_and_then_silence_is_silence() {
    let (session, (), ..) = World::new()
        .open(async |server| {
            server.expect("initialize").await;
            server.raw(b"{\"id\":1,\"resu").await;
        })
        .await;
    assert_eq!(session.unwrap_err().kind, AgentErrorKind::ResponseTimeout);
    let world = World::new().with(|it| it.agent.common.turn_timeout = Duration::from_secs(10));
    let (mut session, mut server, _) = world.opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.raw(b"{\"method\":\"turn/compl").await;
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnTimeout);
}

#[tokio::test(start_paused = true)]
async fn rule_10_5_bytes_that_never_become_a_line_are_no_sign_of_life() {
    let world = World::new().with(|it| it.agent.common.turn_timeout = Duration::from_secs(10));
    let (mut session, mut server, _) = world.opened().await;
    let drip = async {
        server.begin().await;
        loop {
            server.raw(b"x").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let end = tokio::select! {
        end = session.run_turn(prompt()) => end,
        () = drip => unreachable!(),
        () = tokio::time::sleep(Duration::from_secs(1000)) => panic!("it goes on"),
    };
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnTimeout);
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_few_long_unread_answers_reach_the_bound() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, asked) = run(&mut session, async {
        server.begin().await;
        let filler = "x".repeat(1 << 20);
        let mut asked = 0;
        while asked < 100 {
            let ask = json!({"id": filler, "method": "currentTime/read"});
            if server.output.write_all(format!("{ask}\n").as_bytes()).await.is_err() {
                break;
            }
            asked += 1;
        }
        asked
    })
    .await;
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
    assert_eq!(error.message, "Codex does not read what it is answered");
    assert!(asked <= 10, "{asked} answers of 1 MiB were kept");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_ids_that_are_no_ids_are_not_kept() {
    let bad = ["", "a b", "\u{1b}[2J", &"x".repeat(100_000)];
    for id in bad {
        let (session, (), ..) = World::new()
            .open(async |server| {
                let hello = server.expect("initialize").await;
                server.answer(&hello, json!({})).await;
                server.expect("initialized").await;
                let start = server.expect("thread/start").await;
                server.answer(&start, json!({"thread": {"id": id}})).await;
            })
            .await;
        assert_eq!(session.unwrap_err().kind, AgentErrorKind::ResponseError);
    }
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        server.answer(&start, json!({"turn": {"id": "\u{1b}"}})).await;
    })
    .await;
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::ResponseError);
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_ends_and_questions_in_a_flood_are_folded_too() {
    let (mut session, mut server, told) = World::new().opened().await;
    let before = told.all().len();
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let other = json!({"threadId": "T", "turn": {"id": "OTHER", "status": "failed"}});
        for _ in 0..1000 {
            server.tell("turn/completed", other.clone()).await;
        }
        for id in 0..100 {
            let ask = json!({"id": id, "method": "item/tool/requestUserInput"});
            server.send(ask).await;
        }
        server.expect("turn/interrupt").await; // once
        server.ask("currentTime/read", json!({})).await;
    })
    .await;
    assert!(matches!(end.unwrap(), TurnEnd::InputRequired { .. }));
    let updates = told.all().len() - before;
    assert!(updates < 30, "{updates} updates");
}
