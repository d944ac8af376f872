//! What Symphony answers when the agent asks (contract 10.6). Every request gets an answer, but for a
//! question within a turn: whatever is said to it, the model takes it for an answer.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use symphony_core::agent::Question;
use symphony_core::settings::Approvals;

use crate::questions::{approval, describe_approval, elicitation, user_input};
use crate::update_batcher::now;
use crate::wire::{Payload, ToolCalled};

/// The agent reads this when a request is declined.
const REFUSAL_TEXT: &str = "Symphony runs without a person who could approve this.";

/// What to do with a request of the server.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    /// Send this, and go on.
    Give(Value),
    /// Send this, and tell that an approval was given or refused.
    Approve { result: Value, summary: String },
    /// The turn needs a person; the question is shown to that person.
    Block { question: Question, reply: BlockReply },
    /// Run a tool and send what it says.
    Run(ToolCalled),
    /// The method is unknown.
    Unknown,
}

/// What is said to a request that needs a person.
#[derive(Debug)]
pub(crate) enum BlockReply {
    /// This response ends the turn by itself.
    Always(Value),
    /// Nothing within a turn, which is interrupted. Outside of a turn this response is sent: no model
    /// reads it, and an unanswered request could hold up the handshake.
    BetweenTurns(Value),
    /// Nothing.
    Never,
}

/// The answer to a request.
pub(crate) fn answer(
    id: &RawValue,
    method: &str,
    params: Payload<'_>,
    approvals: Approvals,
) -> RequestAnswer {
    let modern = [json!("accept"), json!("decline"), json!("cancel")];
    match method {
        "item/tool/call" => params.read().map_or_else(unreadable_call, RequestAnswer::Run),
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            approve((id, method, params), approvals, modern)
        }
        "execCommandApproval" | "applyPatchApproval" => {
            let denied = json!({"denied": {"rejection": REFUSAL_TEXT}});
            approve((id, method, params), approvals, [json!("approved"), denied, json!("abort")])
        }
        "item/permissions/requestApproval" => permissions((id, method, params), approvals),
        "item/tool/requestUserInput" => {
            RequestAnswer::Block { question: user_input(id, params), reply: BlockReply::Never }
        }
        "mcpServer/elicitation/request" => {
            let cancelled = json!({"action": "cancel", "content": null});
            let (question, reply) = (elicitation(id, params), BlockReply::BetweenTurns(cancelled));
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
    (id, method, params): (&RawValue, &str, Payload<'_>),
    approvals: Approvals,
    [yes, no, stop]: [Value; 3],
) -> RequestAnswer {
    let asked = describe_approval(method, params);
    let decided = |decision: Value| json!({ "decision": decision });
    match approvals {
        Approvals::Accept => {
            RequestAnswer::Approve { result: decided(yes), summary: format!("approved: {asked}") }
        }
        Approvals::Decline => {
            RequestAnswer::Approve { result: decided(no), summary: format!("declined: {asked}") }
        }
        Approvals::Block => {
            let (question, reply) =
                (approval(id, method, params), BlockReply::Always(decided(stop)));
            RequestAnswer::Block { question, reply }
        }
    }
}

/// What is granted is what was asked for, for this turn; nothing is granted by leaving it out.
fn permissions(
    (id, method, params): (&RawValue, &str, Payload<'_>),
    approvals: Approvals,
) -> RequestAnswer {
    #[derive(Deserialize)]
    struct PermissionsRequest {
        permissions: Value,
    }
    let asked = describe_approval(method, params);
    let nothing = json!({"permissions": {}});
    match (approvals, params.read::<PermissionsRequest>()) {
        (Approvals::Accept, Some(PermissionsRequest { permissions })) => RequestAnswer::Approve {
            result: json!({"permissions": permissions, "scope": "turn"}),
            summary: format!("approved: {asked}"),
        },
        // No answer ends the turn, and the model would read that nothing is granted and go on.
        (Approvals::Block, _) => {
            let (question, reply) =
                (approval(id, method, params), BlockReply::BetweenTurns(nothing));
            RequestAnswer::Block { question, reply }
        }
        _ => RequestAnswer::Approve { result: nothing, summary: format!("declined: {asked}") },
    }
}
