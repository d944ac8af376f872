//! Contract 13.1: a transcript gets every raw line of a session that the protocol allows.

use std::sync::{Arc, Mutex};

use symphony_core::agent::{AgentSession as _, TurnEnd};
use symphony_core::transcript::{Direction, Transcript};

use crate::server::{World, run};

#[tokio::test(start_paused = true)]
async fn rule_13_1_every_line_of_a_session_is_told_in_order_and_as_it_is() {
    let mut world = World::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    world.request.transcript = Transcript::new(move |direction, line| {
        sink.lock().unwrap().push((direction, String::from_utf8_lossy(line).into_owned()));
    });
    let (mut session, mut server, _) = world.opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.raw(b"no JSON \xff\r\n").await;
        server.raw(&b"x".repeat(11 << 20)).await;
        server.raw(b"\n").await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    Box::new(session).close().await.unwrap();
    let lines = lines.lock().unwrap();
    let shown = |(direction, line): &(Direction, String)| {
        let method = line.split_once(r#""method":""#).and_then(|(_, rest)| rest.split('"').next());
        format!("{} {}", direction.as_str(), method.unwrap_or(&line[..line.len().min(20)]))
    };
    let shown: Vec<String> = lines.iter().map(shown).collect();
    let result = r#"in {"id":1,"result":{"u"#;
    assert_eq!(
        shown,
        [
            "out initialize",
            result,
            "out initialized",
            "out thread/start",
            r#"in {"id":2,"result":{"t"#,
            "out thread/name/set",
            r#"in {"id":3,"result":{}}"#,
            "out turn/start",
            r#"in {"id":4,"result":{"t"#,
            "in no JSON \u{fffd}",
            // Not the one that is too long: a secret in it might be cut in two.
            "in turn/completed",
        ]
    );
    assert!(lines.iter().all(|(_, line)| !line.contains('\n') && line.len() <= 1024));
}
