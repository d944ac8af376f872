//! Contract 10.6: every request of the server gets an answer, but for a question within a turn.

use serde_json::{Value, json};
use symphony_codex::CodexSession;
use symphony_core::agent::{AgentSession as _, QuestionKind, TurnEnd};
use symphony_core::settings::Approvals;

use crate::server::{Server, World, run};

/// Asks in a turn that then completes; the answer and how the turn ended.
async fn asked(approvals: Approvals, method: &str, params: Value) -> (Value, String, Vec<String>) {
    let world = World::new().with(|settings| settings.agent.common.approvals = approvals);
    let (mut session, mut server, told) = world.opened().await;
    let (end, answer) = run(&mut session, async {
        server.begin().await;
        let answer = server.ask(method, params).await;
        server.complete().await;
        answer
    })
    .await;
    (answer, words(end.unwrap()), told.events())
}

/// Asks in a turn what only a person can answer: the turn is interrupted, and closing the session
/// says nothing more. How the turn ended, and the events.
async fn asked_in_vain(approvals: Approvals, method: &str, params: Value) -> (String, Vec<String>) {
    let world = World::new().with(|settings| settings.agent.common.approvals = approvals);
    let (mut session, mut server, told) = world.opened().await;
    let (end, interrupt) = run(&mut session, async {
        server.begin().await;
        server.send(json!({"id": "s-1", "method": method, "params": params})).await;
        server.expect("turn/interrupt").await
    })
    .await;
    assert_eq!(interrupt["params"], json!({"threadId": "T", "turnId": "U"}), "{method}");
    close_interrupted(session, &mut server, &interrupt).await;
    assert!(!told.has_event("turn_cancelled"), "the question is the last that is shown");
    (words(end.unwrap()), told.events())
}

/// `completed`, or the question.
fn words(end: TurnEnd) -> String {
    match end {
        TurnEnd::Completed => "completed".to_owned(),
        TurnEnd::InputRequired { question } => question.to_string(),
    }
}

/// Closes a session whose turn was interrupted: neither an answer nor a second interrupt is sent.
async fn close_interrupted(session: CodexSession, server: &mut Server, interrupt: &Value) {
    server.answer(interrupt, json!({})).await;
    server.tell("turn/completed", crate::server::over("interrupted")).await;
    let (closed, last) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(last, None);
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_approvals_are_answered_as_the_settings_say() {
    let denied = "Symphony runs without a person who could approve this.";
    let permissions = json!({"network": {"enabled": true}});
    let modern = [json!("accept"), json!("decline"), json!("cancel")];
    let old = [json!("approved"), json!({"denied": {"rejection": denied}}), json!("abort")];
    let decision = |[a, b, c]: [Value; 3]| [a, b, c].map(|answer| json!({"decision": answer}));
    let cases = [
        (
            "item/commandExecution/requestApproval",
            json!({"command": "make", "reason": "why not"}),
            decision(modern.clone()),
            "run `make` (why not)",
        ),
        (
            "item/fileChange/requestApproval",
            json!({"grantRoot": "/etc"}),
            decision(modern),
            "write below /etc",
        ),
        (
            "execCommandApproval",
            json!({"command": ["make", "all"]}),
            decision(old.clone()),
            "run `make all`",
        ),
        ("applyPatchApproval", json!({"fileChanges": {}}), decision(old), "change files"),
        (
            "item/permissions/requestApproval",
            json!({"permissions": permissions}),
            [
                json!({"permissions": permissions, "scope": "turn"}),
                json!({"permissions": {}}),
                Value::Null, // no answer would end the turn
            ],
            "have more permissions",
        ),
    ];
    for (method, params, answers, what) in cases {
        let settings = [Approvals::Accept, Approvals::Decline, Approvals::Block];
        for (approvals, expected) in settings.into_iter().zip(answers) {
            let (answer, end, events) = if expected.is_null() {
                let (end, events) = asked_in_vain(approvals, method, params.clone()).await;
                (json!({}), end, events)
            } else {
                asked(approvals, method, params.clone()).await
            };
            assert_eq!(answer["result"], expected, "{method} {approvals:?}");
            let (ended, event) = match approvals {
                Approvals::Accept => {
                    ("completed".to_owned(), format!("approval_auto_approved: approved: {what}"))
                }
                Approvals::Decline => {
                    ("completed".to_owned(), format!("notification: declined: {what}"))
                }
                Approvals::Block => {
                    let question = format!("Codex asks to {what}");
                    let event = format!("turn_input_required: {question}");
                    (question, event)
                }
            };
            assert_eq!(end, ended, "{method}");
            assert!(events.contains(&event), "{event} in {events:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_question_is_not_answered_and_ends_the_turn_with_the_question() {
    let cases = [
        (
            "item/tool/requestUserInput",
            json!({"isBlocking": true, "questions": [
                {"id": "a", "header": "h", "question": "Which\ndoor?",
                 "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]},
                {"id": "b", "header": "h", "question": "Why?"},
            ]}),
            "Which door? (red / blue) Why?",
        ),
        ("item/tool/requestUserInput", json!(null), "Codex asks for input, but not what."),
        (
            "mcpServer/elicitation/request",
            json!({"serverName": "git", "mode": "url", "message": "Log in", "url": "https://x"}),
            "The MCP server git asks: Log in https://x",
        ),
    ];
    for (method, params, question) in cases {
        for approvals in [Approvals::Accept, Approvals::Decline, Approvals::Block] {
            let (end, _) = asked_in_vain(approvals, method, params.clone()).await;
            assert_eq!(end, question);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_question_keeps_what_an_answer_needs() {
    let (mut session, mut server, _) = World::new().opened().await;
    let options = json!([{"label": "red\u{1b}[2J", "description": "As it was."}]);
    let long = "x".repeat(10_000);
    let params = json!({"threadId": "T", "turnId": "U", "itemId": "call-1", "questions": [
        {"id": "a", "question": "Which?", "options": options, "isOther": true},
        {"id": "b", "question": long, "isSecret": true},
    ]});
    let (end, _) = run(&mut session, async {
        server.begin().await;
        let id = json!(7);
        let method = "item/tool/requestUserInput";
        server.send(json!({"id": id, "method": method, "params": params})).await;
        server.expect("turn/interrupt").await
    })
    .await;
    let TurnEnd::InputRequired { question } = end.unwrap() else { panic!("no question") };
    assert_eq!((question.id.as_str(), question.kind), ("U/call-1", QuestionKind::Choice));
    let [a, b] = &question.items[..] else { panic!("{question:?}") };
    assert_eq!((a.id.as_str(), a.accepts_other, a.is_secret), ("a", true, false));
    assert_eq!((b.id.as_str(), b.accepts_other, b.is_secret), ("b", false, true));
    assert_eq!(a.options[0].label, "red [2J", "untrusted text is one plain line");
    assert_eq!(a.options[0].description.as_deref(), Some("As it was."));
    assert!(b.text.len() < 2_100, "{}", b.text.len());
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_what_is_unknown_is_refused_at_once_and_the_turn_goes_on() {
    let methods =
        ["account/chatgptAuthTokens/refresh", "attestation/generate", "something/new", ""];
    for method in methods {
        let (answer, end, _) = asked(Approvals::Accept, method, json!({"x": 1})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
        assert_eq!(answer.get("result"), None);
        assert_eq!(end, "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_requests_in_the_handshake_are_answered_too() {
    let (session, answers, ..) = World::new()
        .open(async |server| {
            let hello = server.expect("initialize").await;
            let first = server.ask("something/new", json!({})).await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let start = server.expect("thread/start").await;
            let params = json!({"serverName": "git", "mode": "form", "message": "Who?"});
            let second = server.ask("mcpServer/elicitation/request", params).await;
            server.answer(&start, json!({"thread": {"id": "T"}})).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
            [first, second]
        })
        .await;
    let _ = session.unwrap();
    assert_eq!(answers[0]["error"]["code"], -32601);
    assert_eq!(answers[1]["result"]["action"], "cancel");
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_any_id_is_given_back_as_it_came() {
    let (_session, mut server, _) = World::new().opened().await;
    for id in [json!(0), json!(-7), json!(1.5), json!("x"), json!({"a": [1]}), json!(u64::MAX)] {
        server.send(json!({"id": id, "method": "currentTime/read"})).await;
        assert_eq!(server.next().await.unwrap()["id"], id);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_question_before_a_turn_blocks_it_and_nothing_is_started() {
    let (mut session, mut server, _) = World::new().opened().await;
    let params = json!({"serverName": "git", "mode": "form", "message": "Who?"});
    server.ask("mcpServer/elicitation/request", params).await;
    let end = session.run_turn(crate::server::prompt()).await.unwrap();
    assert_eq!(words(end), "The MCP server git asks: Who?");
    let (closed, next) = tokio::join!(Box::new(session).close(), server.next());
    closed.unwrap();
    assert_eq!(next, None, "no turn/start");
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_blocked_turn_is_interrupted_at_once() {
    let world = World::new().with(|settings| settings.agent.common.approvals = Approvals::Block);
    let (mut session, mut server, _) = world.opened().await;
    let (end, interrupt) = run(&mut session, async {
        server.begin().await;
        let params = json!({"command": "make"});
        server.ask("item/commandExecution/requestApproval", params).await;
        server.expect("turn/interrupt").await
    })
    .await;
    assert!(matches!(end.unwrap(), TurnEnd::InputRequired { .. }));
    close_interrupted(session, &mut server, &interrupt).await;
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_question_before_the_turn_has_a_name_interrupts_it_then() {
    let (mut session, mut server, _) = World::new().opened().await;
    let (end, interrupt) = run(&mut session, async {
        let start = server.expect("turn/start").await;
        server.send(json!({"id": "q", "method": "item/tool/requestUserInput"})).await;
        server.answer(&start, json!({"turn": {"id": "U"}})).await;
        server.expect("turn/interrupt").await
    })
    .await;
    assert!(matches!(end.unwrap(), TurnEnd::InputRequired { .. }));
    assert_eq!(interrupt["params"]["turnId"], "U");
}
