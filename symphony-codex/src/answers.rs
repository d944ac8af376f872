//! What Symphony answers when the agent asks (contract 10.6). Every request gets an answer, but for a
//! question within a turn: whatever is said to it, the model takes it for an answer.

use serde::Deserialize;
use serde_json::{Value, json};
use symphony_core::settings::Approvals;

use crate::news::now;
use crate::text::one_line;
use crate::wire::{Payload, ToolCalled};

/// The length of a question that is kept for a person.
const MAX_QUESTION_BYTES: usize = 2000;
/// What the agent reads when it may not.
const REFUSAL_TEXT: &str = "Symphony runs without a person who could approve this.";

/// What to do with a request of the server.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    /// Send this, and go on.
    Give(Value),
    /// Send this, and tell that an approval was given or refused.
    Approve { result: Value, summary: String },
    /// The turn needs a person, who is to read the question.
    Block { question: String, reply: BlockReply },
    /// Run a tool and send what it says.
    Run(ToolCalled),
    /// There is no such method here.
    Unknown,
}

/// What is said to a request that needs a person.
#[derive(Debug)]
pub(crate) enum BlockReply {
    /// This, which itself ends the turn.
    Always(Value),
    /// Nothing within a turn, which is interrupted. Where there is none, this: no model hears it, and
    /// the asker may hold up the handshake.
    BetweenTurns(Value),
    /// Nothing.
    Never,
}

/// The answer to a request.
pub(crate) fn answer(method: &str, params: Payload<'_>, approvals: Approvals) -> RequestAnswer {
    let modern = [json!("accept"), json!("decline"), json!("cancel")];
    match method {
        "item/tool/call" => params.read().map_or_else(unreadable_call, RequestAnswer::Run),
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            approve(method, params, approvals, modern)
        }
        "execCommandApproval" | "applyPatchApproval" => {
            let denied = json!({"denied": {"rejection": REFUSAL_TEXT}});
            approve(method, params, approvals, [json!("approved"), denied, json!("abort")])
        }
        "item/permissions/requestApproval" => permissions(params, approvals),
        "item/tool/requestUserInput" => {
            RequestAnswer::Block { question: questions(params), reply: BlockReply::Never }
        }
        "mcpServer/elicitation/request" => {
            let cancelled = json!({"action": "cancel", "content": null});
            let (question, reply) = (elicitation(params), BlockReply::BetweenTurns(cancelled));
            RequestAnswer::Block { question, reply }
        }
        "currentTime/read" => {
            RequestAnswer::Give(json!({"currentTimeAt": now().as_unix_millis().div_euclid(1000)}))
        }
        _ => RequestAnswer::Unknown,
    }
}

/// The result of a tool call.
pub(crate) fn tool_result(success: bool, text: &str) -> Value {
    json!({"success": success, "contentItems": [{"type": "inputText", "text": text}]})
}

fn unreadable_call() -> RequestAnswer {
    RequestAnswer::Give(tool_result(false, "the tool call could not be read: it names no tool"))
}

/// `accept`, `decline` and `block`, each as this method spells it.
fn approve(
    method: &str,
    params: Payload<'_>,
    approvals: Approvals,
    [yes, no, stop]: [Value; 3],
) -> RequestAnswer {
    let asked = asked(method, params);
    let decided = |decision: Value| json!({ "decision": decision });
    match approvals {
        Approvals::Accept => {
            RequestAnswer::Approve { result: decided(yes), summary: format!("approved: {asked}") }
        }
        Approvals::Decline => {
            RequestAnswer::Approve { result: decided(no), summary: format!("declined: {asked}") }
        }
        Approvals::Block => {
            let (question, reply) = (codex_asks_to(&asked), BlockReply::Always(decided(stop)));
            RequestAnswer::Block { question, reply }
        }
    }
}

fn codex_asks_to(asked: &str) -> String {
    format!("Codex asks to {asked}")
}

/// What is granted is what was asked for, for this turn; nothing is granted by leaving it out.
fn permissions(params: Payload<'_>, approvals: Approvals) -> RequestAnswer {
    #[derive(Deserialize)]
    struct PermissionsRequest {
        permissions: Value,
    }
    let asked = asked("item/permissions/requestApproval", params);
    let nothing = json!({"permissions": {}});
    match (approvals, params.read::<PermissionsRequest>()) {
        (Approvals::Accept, Some(PermissionsRequest { permissions })) => RequestAnswer::Approve {
            result: json!({"permissions": permissions, "scope": "turn"}),
            summary: format!("approved: {asked}"),
        },
        // No answer ends the turn, and the model would read that nothing is granted and go on.
        (Approvals::Block, _) => {
            let (question, reply) = (codex_asks_to(&asked), BlockReply::BetweenTurns(nothing));
            RequestAnswer::Block { question, reply }
        }
        _ => RequestAnswer::Approve { result: nothing, summary: format!("declined: {asked}") },
    }
}

/// What an approval is for, in words.
fn asked(method: &str, params: Payload<'_>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ApprovalRequest {
        command: Option<Value>,
        reason: Option<String>,
        grant_root: Option<String>,
    }
    let asked: ApprovalRequest = params.read().unwrap_or_default();
    let command = match asked.command {
        Some(Value::String(command)) => Some(command),
        Some(Value::Array(words)) => {
            Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    let what = match (method, command, asked.grant_root) {
        ("item/permissions/requestApproval", ..) => "have more permissions".to_owned(),
        (_, Some(command), _) => format!("run `{command}`"),
        (_, None, Some(root)) => format!("write below {root}"),
        ("item/fileChange/requestApproval" | "applyPatchApproval", ..) => "change files".to_owned(),
        _ => "run a command".to_owned(),
    };
    let reason = asked.reason.filter(|reason| !reason.trim().is_empty());
    one_line(
        &reason.map_or(what.clone(), |reason| format!("{what} ({reason})")),
        MAX_QUESTION_BYTES,
    )
}

fn questions(params: Payload<'_>) -> String {
    #[derive(Deserialize)]
    struct QuestionsRequest {
        questions: Vec<QuestionText>,
    }
    #[derive(Deserialize)]
    struct QuestionText {
        question: String,
        options: Option<Vec<QuestionOption>>,
    }
    #[derive(Deserialize)]
    struct QuestionOption {
        label: String,
    }
    let asked = params.read::<QuestionsRequest>().map(|asked| asked.questions).unwrap_or_default();
    let texts: Vec<_> = asked
        .into_iter()
        .map(|question| {
            let choices = question.options.unwrap_or_default();
            let choices: Vec<_> = choices.into_iter().map(|choice| choice.label).collect();
            if choices.is_empty() {
                question.question
            } else {
                format!("{} ({})", question.question, choices.join(" / "))
            }
        })
        .collect();
    if texts.is_empty() {
        return "Codex asks for input, but not what.".to_owned();
    }
    one_line(&texts.join(" "), MAX_QUESTION_BYTES)
}

fn elicitation(params: Payload<'_>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ElicitationRequest {
        server_name: Option<String>,
        message: Option<String>,
        description: Option<String>,
        url: Option<String>,
    }
    let asked: ElicitationRequest = params.read().unwrap_or_default();
    let server = asked.server_name.unwrap_or_else(|| "a server".to_owned());
    let message = asked.message.or(asked.description).unwrap_or_else(|| "input".to_owned());
    let url = asked.url.map(|url| format!(" {url}")).unwrap_or_default();
    one_line(&format!("The MCP server {server} asks: {message}{url}"), MAX_QUESTION_BYTES)
}
