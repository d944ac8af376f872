//! Contract 10.4: streams that nobody should send.

use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{AgentErrorKind, AgentSession as _, TurnEnd};
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
