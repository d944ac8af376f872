//! From what Codex says to the kinds the scheduler knows (contract 10.10, 7.6).

use std::borrow::Cow;

use serde_json::Value;
use symphony_core::agent::{AgentError, AgentErrorKind};

use crate::text::one_line;
use crate::wire::TurnError;

/// A turn that failed.
pub(crate) fn turn_failed(error: Option<TurnError>) -> AgentError {
    let error = error.unwrap_or_default();
    let kind = kind_of(error.codex_error_info.as_ref());
    let texts = [error.message, error.additional_details.unwrap_or_default()];
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    // Short: the kind says what failed, and a list has little room.
    let mut message = match texts.as_slice() {
        [] => "Codex says the turn failed".to_owned(),
        texts => format!("Codex: {}", texts.join(": ")),
    };
    if let Some(info) = error.codex_error_info.as_ref().and_then(name_of) {
        message.push_str(&format!(" ({})", one_line(info, 100)));
    }
    AgentError::new(kind, message)
}

/// A turn that was interrupted, by Symphony or from elsewhere.
pub(crate) fn turn_cancelled(error: Option<TurnError>) -> AgentError {
    let mut message = "Codex says the turn was interrupted".to_owned();
    if let Some(error) = error.filter(|error| !error.message.is_empty()) {
        message.push_str(": ");
        message.push_str(&error.message);
    }
    AgentError::new(AgentErrorKind::TurnCancelled, message)
}

/// A text in which an error that is written as JSON is replaced by that error's message.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    let Some(begin) = text.find('{') else { return text.into() };
    let mut values = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Value>();
    let value = values.next().and_then(Result::ok);
    let end = begin + values.byte_offset();
    match value.as_ref().and_then(message_of) {
        Some(message) => format!("{}{message}{}", &text[..begin], &text[end..]).into(),
        None => text.into(),
    }
}

/// `{"error": {"message": ..}}` and its relatives.
fn message_of(error: &Value) -> Option<&str> {
    ["error", "message", "detail"].iter().find_map(|name| match error.get(name)? {
        Value::String(message) => Some(message.as_str()).filter(|it| !it.trim().is_empty()),
        inner => message_of(inner),
    })
}

fn kind_of(info: Option<&Value>) -> AgentErrorKind {
    let status = info.and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    let status = status.filter_map(|inner| inner.get("httpStatusCode")?.as_u64()).next();
    match (info.and_then(name_of), status) {
        (Some("usageLimitExceeded"), _) => AgentErrorKind::UsageLimit,
        (Some("rateLimitExceeded"), _) | (_, Some(429)) => AgentErrorKind::RateLimited,
        (Some("unauthorized"), _) | (_, Some(401)) => AgentErrorKind::Unauthorized,
        _ => AgentErrorKind::TurnFailed,
    }
}

/// `"usageLimitExceeded"` or `{"responseStreamDisconnected": {..}}`
fn name_of(info: &Value) -> Option<&str> {
    info.as_str().or_else(|| info.as_object()?.keys().next().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rule_7_6_limits_and_a_refused_credential_are_kinds_of_their_own() {
        let kind = |info: Value| {
            let error = TurnError { codex_error_info: Some(info), ..TurnError::default() };
            turn_failed(Some(error)).kind
        };
        assert_eq!(kind(json!("usageLimitExceeded")), AgentErrorKind::UsageLimit);
        assert_eq!(kind(json!("rateLimitExceeded")), AgentErrorKind::RateLimited);
        assert_eq!(kind(json!("unauthorized")), AgentErrorKind::Unauthorized);
        let http = |code: u16| json!({"responseTooManyFailedAttempts": {"httpStatusCode": code}});
        assert_eq!(kind(http(429)), AgentErrorKind::RateLimited);
        assert_eq!(kind(http(401)), AgentErrorKind::Unauthorized);
        assert_eq!(kind(http(500)), AgentErrorKind::TurnFailed);
        assert_eq!(kind(json!("sandboxError")), AgentErrorKind::TurnFailed);
        assert_eq!(kind(json!(7)), AgentErrorKind::TurnFailed);
        assert_eq!(turn_failed(None).kind, AgentErrorKind::TurnFailed);
    }

    #[test]
    fn rule_10_10_of_an_error_in_json_the_message_is_shown() {
        let told = |message: &str| {
            let error = TurnError::read(json!({ "message": message }));
            let told = turn_failed(error).message;
            told.strip_prefix("Codex").unwrap().to_owned()
        };
        let unwell = r#"{"error": {"message": "the model is unwell", "type": "x", "code": 7}}"#;
        assert_eq!(told(unwell), ": the model is unwell");
        let status = format!("unexpected status 400 Bad Request: {unwell}, url: http://x/");
        let plain = ": unexpected status 400 Bad Request: the model is unwell, url: http://x/";
        assert_eq!(told(&status), plain);
        assert_eq!(told(r#"{"message": "no"}"#), ": no");
        assert_eq!(told(r#"{"error": "no"}"#), ": no");
        assert_eq!(told(r#"{"detail": "no"}"#), ": no");
        // What says nothing, or is none, stays as it came.
        for text in [r#"{"error": {"code": 7}}"#, "{", "{x} and {y}", "a } b {", r#"{"a": 1}"#] {
            assert_eq!(told(text), format!(": {text}"));
        }
        let deep = "{\"error\":".repeat(100_000);
        assert!(told(&deep).starts_with(": {\"error\":{"));
    }

    #[test]
    fn rule_10_10_a_failed_turn_has_codexs_own_words() {
        let error = TurnError::read(json!({
            "message": "no\nmore",
            "codexErrorInfo": "usageLimitExceeded",
            "additionalDetails": "try tomorrow",
        }));
        assert_eq!(turn_failed(error).message, "Codex: no more: try tomorrow (usageLimitExceeded)");
    }
}
