//! What only a person can answer (contract 10.6): nobody answers, so the model must not be told that
//! somebody did.

use std::time::Duration;

use serde_json::json;
use symphony_core::agent::TurnEnd;
use symphony_e2e::Does;

use crate::sessions::{Trial, close, turn};

/// Within this time a model that was answered would have been asked again.
const WATCHED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn rule_10_6_a_model_that_asks_a_question_is_not_asked_again() {
    let question = json!({"questions": [{
        "id": "colour", "header": "Colour", "question": "Which colour shall the door be?",
        "options": [
            {"label": "Red", "description": "As it was."},
            {"label": "Green", "description": "As the fence."},
        ],
    }]});
    let script = [Does::Call("request_user_input", question), Does::Say("So it is red.")];
    let trial = Trial::new(script).await;
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Paint it").await;
    let question = "Which colour shall the door be? (Red / Green)".to_owned();
    assert_eq!(end, Ok(TurnEnd::InputRequired { question }));
    let again = tokio::time::timeout(WATCHED, trial.model.until_asked(2)).await.is_ok();
    close(session).await;
    assert!(!again, "the model was told: {}", trial.model.results(1));
    assert_eq!(trial.model.asked().len(), 1);
}
