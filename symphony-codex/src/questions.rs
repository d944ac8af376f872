//! What Codex asks a person, read from its requests (contract 10.6).
//!
//! All of it is the agent's text: each part is one plain line with a bound.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::agent::{Question, QuestionItem, QuestionKind, QuestionOption};

use crate::text::one_line;
use crate::wire::Payload;

/// The most characters of an item's text.
const MAX_TEXT_CHARS: usize = 2000;
/// The most characters of a label, a description or an id.
const MAX_SHORT_CHARS: usize = 200;
/// The most characters of a server's message.
const MAX_MESSAGE_CHARS: usize = 1000;
/// At most so many items of one question; Codex asks up to three.
const MAX_ITEMS: usize = 8;
/// At most so many options of one item.
const MAX_OPTIONS: usize = 16;

/// Names a question by its turn and item, or by the request where it has neither.
fn question_id(request: &RawValue, params: Payload<'_>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct QuestionIds {
        turn_id: Option<String>,
        item_id: Option<String>,
        /// Tells several approvals of one item apart.
        approval_id: Option<String>,
        /// The item, as older versions call it.
        call_id: Option<String>,
    }
    let ids: QuestionIds = params.read().unwrap_or_default();
    let turn = ids.turn_id.as_deref().unwrap_or("-");
    let item = ids.item_id.as_deref().or(ids.call_id.as_deref()).unwrap_or_else(|| request.get());
    let approval = ids.approval_id.map(|id| format!("/{id}")).unwrap_or_default();
    one_line(&format!("{turn}/{item}{approval}"), MAX_SHORT_CHARS)
}

fn single_item(
    request: &RawValue,
    params: Payload<'_>,
    kind: QuestionKind,
    text: &str,
) -> Question {
    let item = QuestionItem::new("answer", one_line(text, MAX_TEXT_CHARS));
    Question::new(question_id(request, params), kind, vec![item])
}

#[derive(Deserialize)]
struct UserInputRequest {
    questions: Vec<WireQuestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireQuestion {
    #[serde(default)]
    id: String,
    question: String,
    options: Option<Vec<WireOption>>,
    is_other: Option<bool>,
    is_secret: Option<bool>,
}

#[derive(Deserialize)]
struct WireOption {
    label: String,
    description: Option<String>,
}

impl WireQuestion {
    fn item(self) -> QuestionItem {
        let options = self.options.unwrap_or_default().into_iter().take(MAX_OPTIONS);
        let options = options.map(|option| {
            let description = option.description.map(|text| one_line(&text, MAX_SHORT_CHARS));
            QuestionOption::new(one_line(&option.label, MAX_SHORT_CHARS), description)
        });
        let id = one_line(&self.id, MAX_SHORT_CHARS);
        let item = QuestionItem::new(id, one_line(&self.question, MAX_TEXT_CHARS));
        let mut item = item.with_options(options);
        item.accepts_other = self.is_other.unwrap_or(false);
        item.is_secret = self.is_secret.unwrap_or(false);
        item
    }
}

/// `item/tool/requestUserInput`
pub(crate) fn user_input(request: &RawValue, params: Payload<'_>) -> Question {
    let asked = params.read::<UserInputRequest>().map(|asked| asked.questions).unwrap_or_default();
    let items: Vec<_> = asked.into_iter().take(MAX_ITEMS).map(WireQuestion::item).collect();
    if items.is_empty() {
        let text = "Codex asks for input, but not what.";
        return single_item(request, params, QuestionKind::Text, text);
    }
    let has_options = items.iter().any(|item| !item.options.is_empty());
    let kind = if has_options { QuestionKind::Choice } else { QuestionKind::Text };
    Question::new(question_id(request, params), kind, items)
}

/// `mcpServer/elicitation/request`
pub(crate) fn elicitation(request: &RawValue, params: Payload<'_>) -> Question {
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
    let message = one_line(&message, MAX_MESSAGE_CHARS); // the address must not be cut off by it
    let text = format!("The MCP server {server} asks: {message}{url}");
    single_item(request, params, QuestionKind::Form, &text)
}

/// An approval that is a person's to give.
pub(crate) fn approval(request: &RawValue, method: &str, params: Payload<'_>) -> Question {
    let text = format!("Codex asks to {}", describe_approval(method, params));
    single_item(request, params, QuestionKind::Approval, &text)
}

/// What an approval is for, in words.
pub(crate) fn describe_approval(method: &str, params: Payload<'_>) -> String {
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
            let quoted = words.iter().filter_map(Value::as_str).map(|word| {
                if word.contains(char::is_whitespace) {
                    format!("'{word}'")
                } else {
                    word.to_owned()
                }
            });
            Some(quoted.collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    let what = match (method, command, asked.grant_root) {
        ("item/permissions/requestApproval", ..) => "have more permissions".to_owned(),
        // A line break would read as a blank, and hide what follows a remark.
        (_, Some(command), _) => format!("run `{}`", command.trim_end().replace('\n', " \\n ")),
        (_, None, Some(root)) => format!("write below {root}"),
        ("item/fileChange/requestApproval" | "applyPatchApproval", ..) => "change files".to_owned(),
        _ => "run a command".to_owned(),
    };
    let reason = asked.reason.filter(|reason| !reason.trim().is_empty());
    one_line(&reason.map_or(what.clone(), |reason| format!("{what} ({reason})")), MAX_TEXT_CHARS)
}
