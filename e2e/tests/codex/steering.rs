//! What a resumed session says of its last turn, and notes to a live one (contract 10.3, 10.11).

use std::time::Duration;

use symphony_core::agent::{
    AgentErrorKind, ClientTurnId, LastTurn, LastTurnState, SteerNote, Turn, TurnEnd,
};
use symphony_core::run::RunId;
use symphony_e2e::ModelAction;

use crate::sessions::{TEST_TIMEOUT, Trial, close, turn};

#[tokio::test]
async fn rule_10_3_codex_remembers_the_last_turn_by_our_id() {
    let mut trial =
        Trial::new([ModelAction::Say("Done."), ModelAction::Say("Done again."), ModelAction::Hang])
            .await;
    let mut session = trial.open().await;
    let first = session.opened();
    assert!(first.thread.is_some() && first.model.is_some(), "{first:?}");
    assert_eq!(first.last_turn, None, "the conversation is new");
    let run = RunId { boot: 1, number: 1 };
    for number in [1, 2] {
        let turn = Turn::new(run, number, format!("Turn {number}"));
        let end = tokio::time::timeout(TEST_TIMEOUT, session.run_turn(turn)).await.expect("an end");
        assert_eq!(end.unwrap(), TurnEnd::Completed);
    }
    close(session).await;

    trial.request.resume.clone_from(&first.thread);
    let mut session = trial.open().await;
    let second = session.opened();
    assert_eq!((&second.thread, &second.model), (&first.thread, &first.model));
    let id = |number| Some(ClientTurnId::of_turn(run, number));
    assert_eq!(second.last_turn, Some(LastTurn::new(id(2), LastTurnState::Completed)));
    tokio::select! {
        _ = session.run_turn(Turn::new(run, 3, "Turn 3")) => panic!("it never ends"),
        () = trial.model.until_asked(3) => {}
    }
    close(session).await;

    let session = trial.open().await;
    let third = session.opened().last_turn;
    assert_eq!(third, Some(LastTurn::new(id(3), LastTurnState::Interrupted)));
    close(session).await;
}

#[tokio::test]
async fn rule_10_11_the_model_reads_a_note_within_the_turn() {
    let wait = "touch begun; until test -e told; do sleep 0.05; done";
    let trial = Trial::new([ModelAction::run(wait), ModelAction::Say("Done.")]).await;
    let mut session = trial.open().await;
    let steering = session.steering().expect("Codex takes notes");
    let early = steering.steer(SteerNote::new("note-0", "Too early.")).await;
    assert_eq!(early.unwrap_err().kind, AgentErrorKind::ResponseError);
    let tell = async {
        let begun = trial.workspace.join("begun");
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let told = steering.steer(SteerNote::new("note-1", "Mind the paint.")).await;
        std::fs::write(trial.workspace.join("told"), "").unwrap();
        told
    };
    let (end, told) = tokio::join!(turn(session.as_mut(), "Fix it"), tell);
    close(session).await;
    told.unwrap();
    assert_eq!(end, Ok(TurnEnd::Completed));
    let asked = trial.model.asked();
    assert_eq!(asked.len(), 2, "one turn, whose model was asked again after the command");
    assert!(!asked[0].to_string().contains("Mind the paint."));
    assert!(asked[1].to_string().contains("Mind the paint."));
}
