//! What only a person can answer (contract 10.6): there is no answer, so the model must not be told
//! that there is.

use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{QuestionKind, TurnEnd};
use symphony_e2e::ModelAction;

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
    let script =
        [ModelAction::Call("request_user_input", question), ModelAction::Say("So it is red.")];
    let trial = Trial::new(script).await;
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Paint it").await;
    let Ok(TurnEnd::InputRequired { question }) = end else { panic!("{end:?}") };
    assert_eq!(question.to_string(), "Which colour shall the door be? (Red / Green)");
    assert_eq!(question.kind, QuestionKind::Choice);
    let item = &question.items[0];
    assert_eq!((item.id.as_str(), item.accepts_other, item.is_secret), ("colour", true, false));
    assert_eq!(item.options[1].description.as_deref(), Some("As the fence."));
    let again = tokio::time::timeout(WATCHED, trial.model.until_asked(2)).await.is_ok();
    close(session).await;
    assert!(!again, "the model was told: {}", trial.model.results(1));
    assert_eq!(trial.model.asked().len(), 1);
}
