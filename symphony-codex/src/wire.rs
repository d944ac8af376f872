//! The messages of the app-server that Symphony uses, as version 0.166 speaks them.
//!
//! There is no `jsonrpc` member. The envelope is read first and the payload only when its method
//! matters: most lines are deltas, whose payload is never parsed. Unknown members are ignored everywhere.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::agent::{
    ClientTurnId, LastTurn, LastTurnState, Opened, RateLimitWindow, RateLimits, ThreadId, Tokens,
};
use symphony_core::time::Wall;

use crate::failure::readable;
use crate::text::one_line;

/// A request that could not be read.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// A method of the server that Symphony does not implement.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// One line from the server, borrowed from it.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// A request, to be answered with this id.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Payload<'a> },
    /// A notification.
    Notification { method: Cow<'a, str>, params: Payload<'a> },
    /// A response to a request of ours.
    Response { id: &'a RawValue, result: Result<Payload<'a>, RpcError> },
}

/// What a message carries, unread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Payload<'a>(Option<&'a RawValue>);

impl<'a> Payload<'a> {
    /// Reads it as what its method says it is; `None` when it is something else.
    pub(crate) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.0?.get()).ok()
    }

    /// Returns an owned copy, to be read later.
    pub(crate) fn to_owned(self) -> Box<RawValue> {
        self.0.unwrap_or(RawValue::NULL).to_owned()
    }
}

/// Why a line is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MalformedLine(String);

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Text<'a>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A text that is copied only if it holds escapes: a `Cow` in an `Option` would always be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The answer to a request that could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

impl RpcError {
    /// Whether Codex does not have the thread. Its code is that of every bad request, so its words
    /// decide.
    pub(crate) fn is_unknown_thread(&self) -> bool {
        const WORDS: [&str; 2] = ["no rollout found for ", "thread not found"];
        self.code == INVALID_REQUEST && WORDS.iter().any(|words| self.message.starts_with(words))
    }

    /// An error of another shape is one all the same: its text is what it says.
    fn read(error: &RawValue) -> Self {
        serde_json::from_str(error.get())
            .unwrap_or_else(|_| Self { code: 0, message: error.get().to_owned() })
    }
}

impl<'a> Incoming<'a> {
    /// Reads a line.
    pub(crate) fn parse(text: &'a str) -> Result<Self, MalformedLine> {
        // The derived reader takes an array for a struct; a message is an object.
        if !text.trim_ascii_start().starts_with('{') {
            return Err(MalformedLine("not a JSON object".to_owned()));
        }
        let envelope: RpcEnvelope<'a> =
            serde_json::from_str(text).map_err(|error| MalformedLine(error.to_string()))?;
        let params = Payload(envelope.params);
        match (envelope.id, envelope.method) {
            (Some(id), Some(Text(method))) => Ok(Self::Request { id, method, params }),
            (None, Some(Text(method))) => Ok(Self::Notification { method, params }),
            (Some(id), None) => {
                let error = envelope.error.map(RpcError::read);
                Ok(Self::Response { id, result: error.map_or(Ok(Payload(envelope.result)), Err) })
            }
            (None, None) => Err(MalformedLine("neither a method nor an id".to_owned())),
        }
    }
}

/// What the beginning of a line that was too long tells.
#[derive(Debug, Default)]
pub(crate) struct OverlongHead {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) method: Option<String>,
    pub(crate) thread: Option<Id>,
    pub(crate) turn: Option<Id>,
}

impl OverlongHead {
    /// Reads members until the text ends in the middle of one.
    pub(crate) fn read(head: &[u8]) -> Self {
        let mut found = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(head);
        let _ = (Members { found: &mut found, of: "message" }).deserialize(&mut reader);
        found
    }
}

/// Keeps the members it has seen, also when the next one cannot be read.
struct Members<'a> {
    found: &'a mut OverlongHead,
    of: &'static str,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let found = self.found;
        // A number may go on where the text ends: an id is one when something follows it.
        let mut id = None;
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            if id.is_some() {
                found.id = id.take();
            }
            match (self.of, &*name) {
                ("message", "id") => id = Some(map.next_value()?),
                ("message", "method") => found.method = Some(map.next_value()?),
                ("message", "params") => {
                    map.next_value_seed(Members { found: &mut *found, of: "params" })?;
                }
                ("params", "threadId") => found.thread = Some(map.next_value()?),
                ("params", "turn") => {
                    map.next_value_seed(Members { found: &mut *found, of: "turn" })?;
                }
                ("turn", "id") => found.turn = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// One line to the server.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outgoing<'a> {
    Request { id: u64, method: &'a str, params: &'a Value },
    Notification { method: &'a str },
    Answer { id: &'a RawValue, result: &'a Value },
    Refusal { id: &'a RawValue, error: RpcError },
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
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadOpened {
    pub(crate) thread: HasId,
    model: Option<Value>,
    reasoning_effort: Option<Value>,
    /// Unread: an unknown shape must not end the conversation.
    initial_turns_page: Option<Box<RawValue>>,
}

/// The newest turn, where it was asked for.
#[derive(Debug, Deserialize)]
struct TurnsPage {
    #[serde(default)]
    data: Vec<StoredTurn>,
}

/// A turn as Codex keeps it.
#[derive(Debug, Deserialize)]
struct StoredTurn {
    status: Option<String>,
    #[serde(default)]
    items: Vec<StoredItem>,
}

/// Only a user's message has a client id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredItem {
    client_id: Option<String>,
}

impl ThreadOpened {
    /// What the session says of itself, and of the conversation that it goes on with.
    pub(crate) fn opened(self, is_resumed: bool) -> Opened {
        let word = |value: Option<Value>| Some(one_line(value?.as_str()?, MAX_ID_BYTES));
        let mut opened = Opened::new(ThreadId::from(self.thread.id.as_str()));
        opened.model = word(self.model);
        opened.effort = word(self.reasoning_effort);
        if is_resumed {
            let page = self.initial_turns_page;
            let page = page.and_then(|page| serde_json::from_str::<TurnsPage>(page.get()).ok());
            // Without a page there may have been turns all the same.
            let unknown = || Some(LastTurn::new(None, LastTurnState::Unknown));
            opened.last_turn = page.map_or_else(unknown, |page| {
                page.data.into_iter().next().map(StoredTurn::last_turn)
            });
        }
        opened
    }
}

impl StoredTurn {
    fn last_turn(self) -> LastTurn {
        let state = match self.status.as_deref() {
            Some("completed") => LastTurnState::Completed,
            Some("failed") => LastTurnState::Failed,
            // Where another process works on it, the conversation cannot be resumed at all.
            Some("interrupted" | "inProgress") => LastTurnState::Interrupted,
            _ => LastTurnState::Unknown,
        };
        // A turn that was steered has more of them: the first is the one that began it.
        let client_id = self.items.into_iter().find_map(|item| item.client_id);
        LastTurn::new(client_id.map(ClientTurnId::from), state)
    }
}

/// The answer to `turn/start`, and `turn/started`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnStarted {
    pub(crate) thread_id: Option<Id>,
    pub(crate) turn: HasId,
}

/// Whose a request or a notification is, where it says so.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HasThread {
    pub(crate) thread_id: Option<Id>,
    pub(crate) turn_id: Option<Id>,
}

/// Something with an id.
#[derive(Debug, Deserialize)]
pub(crate) struct HasId {
    pub(crate) id: Id,
}

/// The id of a conversation or a turn. It is kept and shown, so it is short and plain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id(String);

/// The longest id.
const MAX_ID_BYTES: usize = 200;

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = (1..=MAX_ID_BYTES).contains(&text.len());
        if is_plain && fits { Ok(Self(text)) } else { Err("an id that is too long, or no word") }
    }
}

impl Id {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// `turn/completed`, and the older `turn/failed` and `turn/cancelled`, which say less.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnOver {
    pub(crate) thread_id: Option<Id>,
    pub(crate) turn_id: Option<Id>,
    pub(crate) turn: Option<TurnState>,
    pub(crate) error: Option<Value>,
    pub(crate) message: Option<String>,
}

/// A turn at its end.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TurnState {
    pub(crate) id: Option<Id>,
    pub(crate) status: Option<String>,
    pub(crate) error: Option<Value>,
}

/// The length of Codex's own words in an error.
const MAX_ERROR_BYTES: usize = 1000;

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
        let error: Self = match value {
            Value::String(message) => Self { message, ..Self::default() },
            value => serde_json::from_value(value).ok()?,
        };
        // It may be kept until the end of the turn, so no more of it than is shown.
        let words = |text: String| one_line(&readable(&text), MAX_ERROR_BYTES);
        Some(Self {
            message: words(error.message),
            codex_error_info: error
                .codex_error_info
                .filter(|it| it.to_string().len() <= MAX_ERROR_BYTES),
            additional_details: error.additional_details.map(words),
        })
    }
}

/// `error`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorTold {
    pub(crate) thread_id: Option<Id>,
    pub(crate) error: Value,
    #[serde(default)]
    pub(crate) will_retry: bool,
}

/// `thread/tokenUsage/updated`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageTold {
    pub(crate) thread_id: Id,
    pub(crate) token_usage: Usage,
}

/// Only the total counts: the last turn's is in it.
#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    pub(crate) total: TokenCounts,
}

/// Token counts. A count that is missing or negative is none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct TokenCounts {
    total_tokens: i64,
    input_tokens: i64,
    cached_input_tokens: i64,
    output_tokens: i64,
    reasoning_output_tokens: i64,
}

impl From<&TokenCounts> for Tokens {
    fn from(counts: &TokenCounts) -> Self {
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
    pub(crate) rate_limits: RateLimitsPayload,
}

/// What is absent is unchanged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RateLimitsPayload {
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

impl RateLimitsPayload {
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
    /// Not parsed yet: arguments may be long.
    pub(crate) arguments: Option<Box<RawValue>>,
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
        let parse = Incoming::parse;
        assert!(matches!(
            parse(r#"{"id":"a","method":"m","params":{},"emittedAtMs":5}"#),
            Ok(Incoming::Request { id, method, .. }) if id.get() == "\"a\"" && method == "m"
        ));
        assert!(matches!(
            parse(r#"{"method":"m"}"#),
            Ok(Incoming::Notification { method, .. }) if method == "m"
        ));
        assert!(matches!(
            parse(r#"{"id":1,"result":null}"#),
            Ok(Incoming::Response { id, result: Ok(Payload(None)) }) if id.get() == "1"
        ));
        assert!(matches!(
            parse(r#"{"id":1,"error":{"code":-1,"message":"no","data":1}}"#),
            Ok(Incoming::Response { result: Err(RpcError { code: -1, .. }), .. })
        ));
        assert!(matches!(
            parse(r#"{"id":1,"error":"no"}"#),
            Ok(Incoming::Response { result: Err(RpcError { code: 0, message }), .. })
                if message == "\"no\""
        ));
        let deep = "[".repeat(100_000);
        for text in ["", "1", "null", "\"x\"", "[]", "{}", "{", "{\"id\":null}", &deep] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("{{\"method\":\"m\",\"params\":{deep}")).is_err());
    }

    #[test]
    fn a_notification_is_read_without_a_copy() {
        let line = r#"{"method":"a/b","params":{"x":1},"emittedAtMs":5}"#;
        let Ok(Incoming::Notification { method, params }) = Incoming::parse(line) else {
            panic!("no notification");
        };
        assert!(matches!(method, Cow::Borrowed("a/b")));
        assert_eq!(params.read::<Value>(), Some(json!({"x": 1})));
    }

    #[test]
    fn the_beginning_of_a_line_tells_what_it_was() {
        let line = r#"{"emittedAtMs":5,"id":7,"method":"m","params":{"threadId":"T","turn":{"id":"U","x":"yy"}}}"#;
        for end in 0..line.len() {
            let head = OverlongHead::read(&line.as_bytes()[..end]);
            assert_eq!(head.id.is_some(), end > line.find(":\"m").unwrap() - 1);
            assert_eq!(head.method.is_some(), end > line.find(",\"params").unwrap() - 1);
            assert_eq!(head.thread.is_some(), end > line.find(",\"turn").unwrap() - 1);
            assert_eq!(head.turn.is_some(), end > line.find(",\"x").unwrap() - 1);
        }
        assert!(OverlongHead::read(b"[{\"id\":1}").id.is_none());
    }

    #[test]
    fn an_id_is_short_and_plain() {
        let read = |id: Value| serde_json::from_value::<Id>(id).is_ok();
        assert!(read(json!("0199-ab")) && read(json!("x".repeat(200))));
        for id in ["", "a b", "a\n", "\u{1b}[2J", "\u{202e}x", &"x".repeat(201)] {
            assert!(!read(json!(id)), "{id:?}");
        }
        assert!(!read(json!(7)) && !read(json!(null)));
    }

    #[test]
    fn of_an_error_no_more_is_kept_than_is_shown() {
        let long = "x y\n".repeat(10_000);
        let info = json!({"long": long.clone()});
        let value = json!({"message": long, "additionalDetails": long, "codexErrorInfo": info});
        let error = TurnError::read(value).unwrap();
        assert!(error.message.len() < 1100 && error.additional_details.unwrap().len() < 1100);
        assert_eq!(error.codex_error_info, None);
    }

    #[test]
    fn rule_10_8_a_sparse_update_of_limits_keeps_what_was_known() {
        let told = |value: Value| serde_json::from_value::<RateLimitsPayload>(value).unwrap();
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
