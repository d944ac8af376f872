//! The messages of the app-server that Symphony uses, as version 0.166 speaks them.
//!
//! There is no `jsonrpc` member. The envelope is read first and the payload only when its method
//! matters: most lines are deltas that nobody looks at. Unknown members are ignored everywhere.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::agent::{RateLimitWindow, RateLimits, Tokens};
use symphony_core::time::Wall;

/// A method that the server asked for and nobody here has.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// One line from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// It wants an answer with this id.
    Request { id: Value, method: String, params: Payload },
    /// It tells something.
    Notification { method: String, params: Payload },
    /// It answers what we asked.
    Response { id: Value, result: Result<Value, RpcError> },
}

/// What a message carries, unread.
#[derive(Debug, Default)]
pub(crate) struct Payload(Option<Box<RawValue>>);

impl Payload {
    /// Reads it as what its method says it is; `None` when it is something else.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.0.as_ref()?.get()).ok()
    }
}

/// Why a line is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(String);

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<Box<RawValue>>,
    result: Option<Value>,
    error: Option<RpcError>,
}

/// The answer to a request that could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

impl Incoming {
    /// Reads a line. Bytes that are no UTF-8 are replaced, so that what they are in still counts.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let text = String::from_utf8_lossy(line);
        // The derived reader takes an array for a struct; a message is an object.
        if !text.trim_start().starts_with('{') {
            return Err(Malformed("not a JSON object".to_owned()));
        }
        let envelope: Envelope<'_> =
            serde_json::from_str(&text).map_err(|error| Malformed(error.to_string()))?;
        let params = Payload(envelope.params);
        match (envelope.id, envelope.method) {
            (Some(id), Some(method)) => {
                Ok(Self::Request { id, method: method.into_owned(), params })
            }
            (None, Some(method)) => Ok(Self::Notification { method: method.into_owned(), params }),
            (Some(id), None) => {
                let result = envelope.error.map_or(Ok(envelope.result.unwrap_or_default()), Err);
                Ok(Self::Response { id, result })
            }
            (None, None) => Err(Malformed("neither a method nor an id".to_owned())),
        }
    }
}

/// One line to the server.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outgoing<'a> {
    Request { id: u64, method: &'a str, params: &'a Value },
    Notification { method: &'a str },
    Answer { id: &'a Value, result: &'a Value },
    Refusal { id: &'a Value, error: RpcError },
}

impl Outgoing<'_> {
    pub(crate) fn line(&self) -> Vec<u8> {
        // Values and texts always have a JSON form.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// `thread/start`, `thread/resume`
#[derive(Debug, Deserialize)]
pub(crate) struct ThreadOpened {
    pub(crate) thread: Named,
}

/// `turn/start`
#[derive(Debug, Deserialize)]
pub(crate) struct TurnStarted {
    pub(crate) turn: Named,
}

/// Something with an id.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) id: String,
}

/// `turn/completed`, and the older `turn/failed` and `turn/cancelled`, which say less.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnOver {
    pub(crate) thread_id: Option<String>,
    pub(crate) turn_id: Option<String>,
    pub(crate) turn: Option<TurnState>,
    pub(crate) error: Option<Value>,
    pub(crate) message: Option<String>,
}

/// A turn at its end.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TurnState {
    pub(crate) id: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) error: Option<Value>,
}

/// What Codex says about a failure.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnError {
    #[serde(default)]
    pub(crate) message: String,
    pub(crate) codex_error_info: Option<Value>,
    pub(crate) additional_details: Option<String>,
}

impl TurnError {
    /// Reads it from an object, or from the text that older versions send.
    pub(crate) fn read(value: Value) -> Option<Self> {
        match value {
            Value::String(message) => Some(Self { message, ..Self::default() }),
            value => serde_json::from_value(value).ok(),
        }
    }
}

/// `error`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorTold {
    pub(crate) thread_id: Option<String>,
    pub(crate) error: Value,
    #[serde(default)]
    pub(crate) will_retry: bool,
}

/// `thread/tokenUsage/updated`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageTold {
    pub(crate) thread_id: String,
    pub(crate) token_usage: Usage,
}

/// Only the total counts: the last turn's is in it.
#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    pub(crate) total: Counts,
}

/// Token counts. A count that is missing or negative is none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct Counts {
    total_tokens: i64,
    input_tokens: i64,
    cached_input_tokens: i64,
    output_tokens: i64,
    reasoning_output_tokens: i64,
}

impl From<&Counts> for Tokens {
    fn from(counts: &Counts) -> Self {
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Self {
            input: count(counts.input_tokens),
            cached_input: count(counts.cached_input_tokens),
            output: count(counts.output_tokens),
            reasoning_output: count(counts.reasoning_output_tokens),
            total: count(counts.total_tokens),
        }
    }
}

/// `account/rateLimits/updated`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitsTold {
    pub(crate) rate_limits: Limits,
}

/// What is absent is unchanged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    limit_id: Option<String>,
    plan_type: Option<Value>,
    primary: Option<Window>,
    secondary: Option<Window>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Window {
    used_percent: f64,
    window_duration_mins: Option<i64>,
    resets_at: Option<i64>,
}

impl Limits {
    /// What is known after it, given what was known before.
    pub(crate) fn after(self, before: Option<&RateLimits>) -> RateLimits {
        let before = before.filter(|old| self.limit_id.is_none() || old.limit_id == self.limit_id);
        let kept = |name: &str| {
            let mut windows = before.into_iter().flat_map(|old| &old.windows);
            windows.find(|window| window.name == name).cloned()
        };
        let window = |name: &str, new: Option<Window>| match new {
            Some(new) => Some(RateLimitWindow {
                name: name.to_owned(),
                used_percent: new.used_percent,
                window_minutes: new.window_duration_mins.and_then(|mins| mins.try_into().ok()),
                resets_at: new.resets_at.map(|at| Wall::from_unix_millis(at.saturating_mul(1000))),
            }),
            None => kept(name),
        };
        let plan = self.plan_type.as_ref().and_then(Value::as_str).map(str::to_owned);
        let mut windows: Vec<_> =
            [window("primary", self.primary), window("secondary", self.secondary)]
                .into_iter()
                .flatten()
                .collect();
        windows.sort_by_key(|window| window.window_minutes.unwrap_or(u64::MAX));
        RateLimits {
            limit_id: self.limit_id.or_else(|| before?.limit_id.clone()),
            plan: plan.or_else(|| before?.plan.clone()),
            windows,
        }
    }
}

/// `item/tool/call`
#[derive(Debug, Deserialize)]
pub(crate) struct ToolCalled {
    pub(crate) tool: String,
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) arguments: Value,
}

/// `item/started`, `item/completed`
#[derive(Debug, Deserialize)]
pub(crate) struct ItemTold {
    pub(crate) item: Item,
}

/// The parts of an item that make a line for people.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) text: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) tool: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) changes: Option<Vec<Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rule_10_4_a_line_is_a_request_a_notification_a_response_or_malformed() {
        let parse = |text: &str| Incoming::parse(text.as_bytes());
        assert!(matches!(
            parse(r#"{"id":"a","method":"m","params":{},"emittedAtMs":5}"#),
            Ok(Incoming::Request { id, method, .. }) if id == "a" && method == "m"
        ));
        assert!(matches!(
            parse(r#"{"method":"m"}"#),
            Ok(Incoming::Notification { method, .. }) if method == "m"
        ));
        assert!(matches!(
            parse(r#"{"id":1,"result":null}"#),
            Ok(Incoming::Response { id, result: Ok(Value::Null) }) if id == 1
        ));
        assert!(matches!(
            parse(r#"{"id":1,"error":{"code":-1,"message":"no","data":1}}"#),
            Ok(Incoming::Response { result: Err(RpcError { code: -1, .. }), .. })
        ));
        let deep = "[".repeat(100_000);
        for text in ["", "1", "null", "\"x\"", "[]", "{}", "{", "{\"id\":null}", &deep] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("{{\"method\":\"m\",\"params\":{deep}")).is_err());
    }

    #[test]
    fn rule_10_4_bytes_that_are_no_utf_8_do_not_hide_a_message() {
        let line = b"{\"method\":\"turn/completed\",\"params\":{\"message\":\"\xff\xfe\"}}";
        let Ok(Incoming::Notification { params, .. }) = Incoming::parse(line) else {
            panic!("no notification");
        };
        assert_eq!(params.read::<TurnOver>().unwrap().message.unwrap(), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn rule_10_8_a_sparse_update_of_limits_keeps_what_was_known() {
        let told = |value: Value| serde_json::from_value::<Limits>(value).unwrap();
        let first = told(json!({
            "limitId": "codex", "planType": "pro",
            "primary": {"usedPercent": 50, "windowDurationMins": 300, "resetsAt": 100},
            "secondary": {"usedPercent": 5, "windowDurationMins": 10080, "resetsAt": null},
        }))
        .after(None);
        let next = told(json!({"limitId": null, "primary": {"usedPercent": 60}}));
        let next = next.after(Some(&first));
        assert_eq!((next.limit_id, next.plan), (first.limit_id, first.plan));
        let percents: Vec<_> = next.windows.iter().map(|window| window.used_percent).collect();
        assert_eq!(percents, [5.0, 60.0]);
        assert_eq!(first.windows[0].resets_at, Some(Wall::from_unix_millis(100_000)));
    }
}
