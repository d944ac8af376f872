//! Contract 10.11: notes to a live turn.

use serde_json::json;
use symphony_core::agent::{AgentError, AgentErrorKind, AgentSession as _, SteerNote, TurnEnd};

use crate::server::{Server, World, run};

fn note() -> SteerNote {
    SteerNote::new("note-1", "Mind the paint.")
}

/// Sends a note in a live turn, which then completes; what came of the note.
async fn steered(serve: impl AsyncFnOnce(&mut Server)) -> Result<(), AgentError> {
    let (mut session, mut server, _) = World::new().opened().await;
    let steering = session.steering().unwrap();
    let (end, steered) = run(&mut session, async {
        server.begin().await;
        server.ask("currentTime/read", json!({})).await; // the turn has its name
        let (steered, ()) = tokio::join!(steering.steer(note()), serve(&mut server));
        server.complete().await;
        steered
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed, "the turn goes on");
    steered
}

#[tokio::test(start_paused = true)]
async fn rule_10_11_a_note_goes_into_the_live_turn() {
    let steered = steered(async |server| {
        let steer = server.expect("turn/steer").await;
        let expected = json!({
            "threadId": "T", "expectedTurnId": "U", "clientUserMessageId": "note-1",
            "input": [{"type": "text", "text": "Mind the paint."}],
        });
        assert_eq!(steer["params"], expected);
        server.answer(&steer, json!({"turnId": "U"})).await;
    });
    steered.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_10_11_a_note_that_is_refused_or_not_answered_is_an_error() {
    let refused = steered(async |server| {
        let steer = server.expect("turn/steer").await;
        let error = json!({"code": -32600, "message": "no active turn to steer"});
        server.send(json!({"id": steer["id"], "error": error})).await;
    });
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.kind, AgentErrorKind::ResponseError);
    assert!(refused.message.contains("no active turn to steer"), "{}", refused.message);
    let silent = steered(async |server| drop(server.expect("turn/steer").await)).await;
    assert_eq!(silent.unwrap_err().kind, AgentErrorKind::ResponseTimeout);
}

#[tokio::test(start_paused = true)]
async fn rule_10_11_without_a_live_turn_nothing_is_sent() {
    let (mut session, mut server, _) = World::new().opened().await;
    let steering = session.steering().unwrap();
    assert_eq!(steering.steer(note()).await.unwrap_err().kind, AgentErrorKind::ResponseError);
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert_eq!(steering.steer(note()).await.unwrap_err().kind, AgentErrorKind::ResponseError);
    let (closed, last) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(last, None, "no note was sent");
    assert_eq!(steering.steer(note()).await.unwrap_err().kind, AgentErrorKind::ProcessExit);
}
