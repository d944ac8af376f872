//! Everything that Symphony sends, against the schema that Codex writes of itself.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_core::agent::{AgentErrorKind, AgentSession as _, AgentUpdate};
use symphony_core::settings::Approvals;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec};

use symphony_e2e::codex;

use crate::server::{World, prompt};

/// The schemas, in a folder that goes with it.
struct Schemas(tempfile::TempDir);

impl Schemas {
    fn generate() -> Self {
        let folder = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
        let output = Command::new(codex())
            .args(["app-server", "generate-json-schema", "--experimental", "--out"])
            .arg(folder.path())
            .env("CODEX_HOME", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(folder)
    }

    /// Checks a message; members that the schema does not know are an error too.
    fn check(&self, name: &str, message: &Value) {
        let path = Path::new(self.0.path()).join(format!("{name}.json"));
        let mut schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        close(&mut schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<_> =
            validator.iter_errors(message).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {message}: {errors:#?}");
    }
}

/// Lets no object have members that are not named.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("properties").is_some_and(Value::is_object) && !map.contains_key("oneOf") {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            map.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

#[derive(Debug)]
struct OneTool;

#[async_trait]
impl AgentTools for OneTool {
    fn specs(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::new("look", "Looks.", json!({"type": "object"}))]
    }

    async fn call(&self, _: ToolCall) -> ToolResult {
        ToolResult::success("seen")
    }
}

#[tokio::test]
async fn rule_10_3_every_request_is_as_codex_wants_it() {
    let schemas = Schemas::generate();
    for resume in [None, Some("OLD")] {
        let mut world = World::new();
        world.request.tools = Some(Arc::new(OneTool));
        world.request.resume = resume.map(Into::into);
        let (session, mut sent, mut server, _) = world
            .open(async |server| {
                let mut sent = Vec::new();
                for _ in 0..4 {
                    let message = server.next().await.unwrap();
                    if message.get("id").is_some() {
                        server.answer(&message, json!({"thread": {"id": "T"}})).await;
                    }
                    sent.push(message);
                }
                sent
            })
            .await;
        let mut session = session.unwrap();
        tokio::select! {
            _ = session.run_turn(prompt()) => {}
            () = async {
                sent.push(server.begin().await);
                // Answered only after the response before it was read.
                server.ask("currentTime/read", json!({})).await;
            } => {}
        }
        let serve = async { server.next().await.unwrap() };
        let (closed, interrupt) = tokio::join!(Box::new(session).close(), serve);
        closed.unwrap();
        sent.push(interrupt);
        assert_eq!(sent.len(), 6);
        for message in &sent {
            let notification = message.get("id").is_none();
            let name = if notification { "ClientNotification" } else { "ClientRequest" };
            schemas.check(name, message);
        }
    }
}

#[tokio::test]
async fn rule_10_6_every_answer_is_as_codex_wants_it() {
    let schemas = Schemas::generate();
    let requests = [
        ("item/commandExecution/requestApproval", "CommandExecutionRequestApprovalResponse"),
        ("item/fileChange/requestApproval", "FileChangeRequestApprovalResponse"),
        ("item/permissions/requestApproval", "PermissionsRequestApprovalResponse"),
        ("execCommandApproval", "ExecCommandApprovalResponse"),
        ("applyPatchApproval", "ApplyPatchApprovalResponse"),
        ("mcpServer/elicitation/request", "McpServerElicitationRequestResponse"),
        ("currentTime/read", "CurrentTimeReadResponse"),
        ("item/tool/call", "DynamicToolCallResponse"),
    ];
    for approvals in [Approvals::Accept, Approvals::Decline, Approvals::Block] {
        let mut world = World::new().with(|settings| settings.agent.common.approvals = approvals);
        world.request.tools = Some(Arc::new(OneTool));
        let (_session, mut server, _) = world.opened().await;
        for (method, response) in requests {
            let params = json!({
                "tool": "look", "arguments": {}, "permissions": {"network": {"enabled": true}},
            });
            let answer = server.ask(method, params).await;
            schemas.check(response, &answer["result"]);
            schemas.check("JSONRPCResponse", &answer);
        }
        let answer = server.ask("something/new", json!({})).await;
        schemas.check("JSONRPCError", &answer);
    }
}

#[test]
fn rule_10_6_every_request_of_the_server_is_known_or_refused_on_purpose() {
    let schemas = Schemas::generate();
    let path = schemas.0.path().join("ServerRequest.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut methods: Vec<_> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["properties"]["method"]["enum"][0].as_str().unwrap())
        .collect();
    methods.sort_unstable();
    let expected = [
        "account/chatgptAuthTokens/refresh", // refused: Codex has its own login
        "applyPatchApproval",
        "attestation/generate", // refused: we do not say that we can
        "currentTime/read",
        "execCommandApproval",
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/call",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
    ];
    assert_eq!(methods, expected);
}

/// What Codex tells, in words that its own schema allows: a newer Codex that renames or retypes
/// something we read fails here.
#[tokio::test]
async fn rule_10_8_what_codex_tells_is_read_as_its_schema_says_it() {
    let schemas = Schemas::generate();
    let counts = |total: u64| {
        json!({
            "totalTokens": total, "inputTokens": 90, "cachedInputTokens": 40, "outputTokens": 10,
            "reasoningOutputTokens": 2,
        })
    };
    let error = json!({
        "message": "no more for today", "codexErrorInfo": "usageLimitExceeded",
        "additionalDetails": null,
    });
    let window = json!({"usedPercent": 50, "windowDurationMins": 300, "resetsAt": 100});
    let limits =
        json!({"limitId": "codex", "planType": "pro", "primary": window, "secondary": window});
    let item = json!({"type": "agentMessage", "id": "i", "text": "I have begun."});
    let told = [
        (
            "item/completed",
            json!({"threadId": "T", "turnId": "U", "completedAtMs": 5, "item": item}),
        ),
        (
            "thread/tokenUsage/updated",
            json!({
                "threadId": "T", "turnId": "U",
                "tokenUsage": {"total": counts(100), "last": counts(7), "modelContextWindow": null},
            }),
        ),
        ("account/rateLimits/updated", json!({"rateLimits": limits})),
        ("error", json!({"threadId": "T", "turnId": "U", "willRetry": false, "error": error})),
        (
            "turn/completed",
            json!({
                "threadId": "T",
                "turn": {"id": "U", "items": [], "status": "failed", "error": error},
            }),
        ),
    ];
    for (method, params) in &told {
        schemas.check("ServerNotification", &json!({"method": method, "params": params}));
    }
    let (mut session, mut server, heard) = World::new().opened().await;
    let serve = async {
        server.begin().await;
        for (method, params) in told {
            server.tell(method, params).await;
        }
    };
    let (end, ()) = tokio::join!(session.run_turn(prompt()), serve);
    let error = end.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::UsageLimit);
    assert!(error.to_string().contains("no more for today"), "{error}");
    assert!(heard.has_event("notification: I have begun."), "{:?}", heard.events());
    let all = heard.all();
    let usage = all.iter().find_map(|update| match update {
        AgentUpdate::Usage { total, .. } => {
            total.tokens.map(|tokens| (tokens.total, tokens.cached_input))
        }
        _ => None,
    });
    assert_eq!(usage, Some((100, 40)));
    let windows = all.iter().find_map(|update| match update {
        AgentUpdate::RateLimits(limits) => Some(limits.windows.clone()),
        _ => None,
    });
    let windows = windows.expect("limits");
    assert_eq!(windows.len(), 2);
    assert!(windows.iter().all(|window| window.window_minutes == Some(300)));
    assert!(windows.iter().all(|window| window.resets_at.is_some()));
}
