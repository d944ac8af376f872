//! Turns that Codex begins by itself (contract 10.3): with a goal it goes on and on.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::Settings;
use symphony_core::agent::{AgentErrorKind, AgentUpdate, TurnEnd};
use symphony_e2e::{Model, ModelAction, codex};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::sessions::{TEST_TIMEOUT, Trial, close, turn};

/// Within this time Codex has begun several turns by itself where it does so at all.
const WATCHED: Duration = Duration::from_secs(2);

/// A model that sets itself a goal and then says that it is done, however often it is asked.
async fn with_a_goal() -> Model {
    let goal = json!({"objective": "Mend every door there is"});
    let mut first = Some(ModelAction::Call("create_goal", goal));
    Model::deciding(move |_| first.take().unwrap_or(ModelAction::Say("Done."))).await
}

/// The tools that the model was offered with a request.
fn offered(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}

/// Whether the model is asked so often, though no turn asks for it.
async fn is_asked(model: &Model, times: usize) -> bool {
    tokio::time::timeout(WATCHED, model.until_asked(times)).await.is_ok()
}

#[tokio::test]
async fn rule_10_3_a_model_that_sets_a_goal_gets_no_turns_of_its_own() {
    let trial = Trial::with(with_a_goal().await);
    let mut session = trial.open().await;
    assert_eq!(turn(session.as_mut(), "Fix it").await, Ok(TurnEnd::Completed));
    let more = is_asked(&trial.model, 3).await;
    let asked = trial.model.asked();
    assert!(!more, "the model was asked {} times", asked.len());
    assert_eq!(turn(session.as_mut(), "Go on").await, Ok(TurnEnd::Completed));
    close(session).await;
    assert_eq!(trial.model.asked().len(), 3, "twice in the first turn, once in the second");
    let tools = offered(&asked[0]);
    assert!(tools.contains(&"exec_command".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool.ends_with("_goal")), "{tools:?}");
}

/// A conversation with an active goal, as a Codex makes it that is not told anything about goals.
/// It has then begun turns by itself.
async fn conversation_with_a_goal(trial: &Trial) -> String {
    let mut server = Command::new(codex())
        .arg("app-server")
        .env("CODEX_HOME", trial.folder.path().join("home"))
        .current_dir(&trial.workspace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap()).lines();
    let client = json!({
        "clientInfo": {"name": "test", "title": "test", "version": "1"},
        "capabilities": {"experimentalApi": true},
    });
    let mut thread = String::new();
    for (id, method) in ["initialize", "thread/start", "turn/start"].into_iter().enumerate() {
        let params = match method {
            "initialize" => client.clone(),
            "thread/start" => json!({"cwd": trial.workspace}),
            _ => json!({"threadId": thread, "input": [{"type": "text", "text": "Fix it"}]}),
        };
        let line = json!({"id": id, "method": method, "params": params});
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        loop {
            let line =
                tokio::time::timeout(TEST_TIMEOUT, output.next_line()).await.expect("a line");
            let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                let opened = message["result"]["thread"]["id"].as_str();
                thread = opened.map_or(thread, str::to_owned);
                break;
            }
        }
        if method == "initialize" {
            input.write_all(b"{\"method\":\"initialized\"}\n").await.unwrap();
        }
    }
    // It goes on by itself for as long as its output is read.
    let read = async { while output.next_line().await.unwrap().is_some() {} };
    tokio::select! {
        () = read => panic!("Codex ended"),
        asked = tokio::time::timeout(TEST_TIMEOUT, trial.model.until_asked(5)) => {
            asked.expect("Codex begins turns by itself: else all of this is needless");
        }
    }
    let group = server.id().unwrap();
    let killed = Command::new("kill").args(["-9", "--", &format!("-{group}")]).status().await;
    assert!(killed.unwrap().success());
    server.wait().await.unwrap();
    thread
}

#[tokio::test]
async fn rule_10_3_a_resumed_conversation_with_a_goal_gets_no_turns_of_its_own() {
    let mut trial = Trial::with(with_a_goal().await);
    let thread = conversation_with_a_goal(&trial).await;
    let before = trial.model.asked().len();
    trial.request.resume = Some(thread.as_str().into());
    let mut session = trial.open().await;
    let more = is_asked(&trial.model, before + 1).await;
    assert!(!more, "asked {} times before any turn", trial.model.asked().len() - before);
    assert_eq!(turn(session.as_mut(), "Go on").await, Ok(TurnEnd::Completed));
    let more = is_asked(&trial.model, before + 2).await;
    close(session).await;
    assert!(!more, "asked {} times in one turn", trial.model.asked().len() - before);
    assert_eq!(trial.thread().as_str(), thread, "it is the same conversation");
}

/// Should a Codex not heed what it is told about goals, the session does.
#[tokio::test]
async fn rule_10_3_turns_that_codex_begins_all_the_same_are_interrupted_and_end_the_run() {
    let mut trial = Trial::with(with_a_goal().await);
    let mut settings = Settings::clone(&trial.request.settings);
    let command = settings.agent.common.command.unwrap();
    // A filter between the session and Codex takes the setting away.
    let away = r#"sed -u 's/"config":{"features.goals":false},//'"#;
    settings.agent.common.command = Some(format!("{away} | {command}"));
    trial.request.settings = settings.into();
    let mut session = trial.open().await;
    let mut ends = Vec::new();
    for number in 1..=20 {
        let end = turn(session.as_mut(), &format!("Turn {number}")).await;
        ends.push(end.clone());
        if end.is_err() {
            break;
        }
        // Codex has its time to begin one.
        let before = unrequested(&trial);
        let began = async {
            while unrequested(&trial) == before {
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(WATCHED, began).await;
    }
    close(session).await;
    let asked = trial.model.asked().len();
    let most = 2 + ends.len() + 3; // each that began by itself may have got as far as one request
    assert!(asked <= most, "{asked} requests in {ends:?}");
    assert_eq!(ends.last(), Some(&Err(AgentErrorKind::UnrequestedTurns)));
    assert_eq!(unrequested(&trial), 3);
}

fn unrequested(trial: &Trial) -> usize {
    trial.told().iter().filter(|update| **update == AgentUpdate::UnrequestedTurn).count()
}
