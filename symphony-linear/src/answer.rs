//! What an answer of Linear says: its data, or what is wrong with it, and its limits.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use symphony_core::budget::{Quota, Reported};
use symphony_core::plain;
use symphony_core::time::Wall;

use crate::error::LinearError;
use crate::transport::Reply;

/// How much of Linear's own words goes into an error.
const MAX_MESSAGE_BYTES: usize = 500;

/// No query costs as much, whatever a header says.
const MAX_QUERY_POINTS: u64 = 100_000;

/// A refusal is short: a longer answer of status 200 is not searched for one.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// The envelope of every answer.
#[derive(Deserialize)]
struct Envelope<T> {
    #[serde(default = "Option::default")]
    data: Option<T>,
    #[serde(default)]
    errors: Option<Vec<Complaint>>,
}

/// One entry of `errors`, as far as it can be made out.
#[derive(Debug, Deserialize)]
pub(crate) struct Complaint {
    #[serde(default)]
    message: String,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Extensions {
    code: Option<String>,
    user_presentable_message: Option<String>,
}

impl Complaint {
    fn has_code(&self, code: &str) -> bool {
        self.extensions.code.as_deref() == Some(code)
    }

    /// Linear's own words, and those for people where they say something else.
    fn words(&self) -> String {
        let more = self.extensions.user_presentable_message.as_deref().unwrap_or_default();
        match (self.message.as_str(), more) {
            (message, "") => message.to_owned(),
            (message, more) if message.contains(more) => message.to_owned(),
            (message, more) => format!("{message} ({more})"),
        }
    }
}

/// Everything that Linear complains of, in one plain line.
fn join_messages(complaints: &[Complaint]) -> String {
    let words: Vec<String> = complaints.iter().map(Complaint::words).collect();
    plain(&words.join("; "), MAX_MESSAGE_BYTES)
}

/// The complaints in a body, if there are any, whatever its data are.
fn complaints(body: &[u8]) -> Option<Vec<Complaint>> {
    let envelope: Envelope<IgnoredAny> = serde_json::from_slice(body).ok()?;
    envelope.errors.filter(|errors| !errors.is_empty())
}

/// That Linear refuses for now.
pub(crate) struct Limited {
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

/// Whether this answer is a refusal for now: a bare 429, or a code beside any other status.
pub(crate) fn rate_limited(reply: &Reply) -> Option<Limited> {
    if reply.status == 200 && reply.body.len() > MAX_REFUSAL_BYTES {
        return None;
    }
    let complaints = complaints(&reply.body).unwrap_or_default();
    let is_code = complaints.iter().any(|complaint| complaint.has_code("RATELIMITED"));
    (reply.status == 429 || is_code).then(|| {
        // To wait for nothing would be to ask again and again.
        let seconds = number(&reply.headers, RETRY_AFTER.as_str()).filter(|wait| *wait > 0);
        Limited {
            message: join_messages(&complaints),
            retry_after: seconds.map(Duration::from_secs),
        }
    })
}

/// The data, if they are whole.
pub(crate) fn data<T: DeserializeOwned>(reply: &Reply) -> Result<T, LinearError> {
    if !(200..300).contains(&reply.status) {
        return Err(status(reply));
    }
    match serde_json::from_slice::<Envelope<T>>(&reply.body) {
        Ok(Envelope { data, errors: Some(errors) }) if !errors.is_empty() => {
            Err(graphql_error(reply, &errors, data.is_some()))
        }
        Ok(Envelope { data: Some(data), .. }) => Ok(data),
        Ok(Envelope { data: None, .. }) => {
            Err(LinearError::Unexpected("it has neither data nor errors".to_owned()))
        }
        // With complaints beside them, data are often not what was asked for.
        Err(error) => Err(match complaints(&reply.body) {
            Some(errors) => graphql_error(reply, &errors, true),
            None => match not_json(reply) {
                Some(found) => LinearError::NotJson { found },
                None => LinearError::Unexpected(plain(&error.to_string(), MAX_MESSAGE_BYTES)),
            },
        }),
    }
}

fn graphql_error(reply: &Reply, errors: &[Complaint], has_data: bool) -> LinearError {
    let message = join_messages(errors);
    if errors.iter().any(|error| error.has_code("AUTHENTICATION_ERROR")) {
        LinearError::Unauthorized { status: reply.status, message }
    } else if has_data {
        LinearError::Partial { message }
    } else {
        LinearError::Errors { message }
    }
}

fn status(reply: &Reply) -> LinearError {
    let status = reply.status;
    let complaints = complaints(&reply.body);
    let message = match (&complaints, not_json(reply)) {
        (Some(complaints), _) => join_messages(complaints),
        (None, Some(found)) => format!("its body is {found}, not JSON"),
        (None, None) => String::new(),
    };
    let is_refused = complaints.iter().flatten().any(|one| one.has_code("AUTHENTICATION_ERROR"));
    match status {
        _ if is_refused => LinearError::Unauthorized { status, message },
        401 | 403 => LinearError::Unauthorized { status, message },
        300..=399 => {
            let message = "a redirect, which is not followed: check tracker.provider.endpoint";
            LinearError::Status { status, message: message.to_owned() }
        }
        _ => LinearError::Status { status, message },
    }
}

/// What stands in the place of JSON, if that is clear.
fn not_json(reply: &Reply) -> Option<&'static str> {
    let kind = reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let body = reply.body.trim_ascii_start();
    match body.first() {
        None => Some("empty"),
        Some(b'<') => Some("HTML"),
        Some(b'{') => None,
        Some(_) if kind.is_some_and(|kind| kind.contains("html")) => Some("HTML"),
        Some(_) => Some("text"),
    }
}

/// What the headers say about limits. A value that is not a number is ignored.
pub(crate) fn reported(headers: &HeaderMap) -> Reported {
    let quota = |what: &str| {
        let read = |part: &str| number(headers, &format!("x-ratelimit-{what}-{part}"));
        let resets = read("reset").and_then(|millis| i64::try_from(millis).ok());
        Quota {
            limit: read("limit"),
            left: read("remaining"),
            resets: resets.map(Wall::from_unix_millis),
            ..Quota::default()
        }
    };
    Reported {
        requests: quota("requests"),
        points: quota("complexity"),
        charged: number(headers, "x-complexity").filter(|points| *points <= MAX_QUERY_POINTS),
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}
