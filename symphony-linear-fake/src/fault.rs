//! Ways in which answers go wrong.

/// What happens instead of an answer, or to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeFault {
    /// The connection is closed without an answer.
    Close,
    /// There is never an answer.
    Hang,
    /// This is the answer.
    Answer {
        /// The status.
        status: u16,
        /// Headers besides the usual ones.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// The answer is right, and says that something went wrong beside it.
    Partial,
    /// The answer is cut in the middle, and says so: its length was another.
    BreakOff,
    /// The answer is cut in the middle, and looks whole.
    Truncate,
    /// The answer lacks this field of `data`.
    Without(String),
    /// Answers to requests for a later page of candidates are closed connections.
    LaterPage,
    /// Linear refuses for now, as it does: status 400 and a code.
    RateLimited {
        /// Seconds in `Retry-After`, where it is sent.
        retry_after: Option<u64>,
    },
}

impl FakeFault {
    /// An answer with this status and body.
    #[must_use]
    pub fn answer(status: u16, body: &str) -> Self {
        Self::Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
    }

    /// An answer that is an error of GraphQL with this code.
    #[must_use]
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let error = serde_json::json!({ "message": message, "extensions": { "code": code } });
        Self::answer(status, &serde_json::json!({ "errors": [error] }).to_string())
    }

    /// What a proxy says.
    #[must_use]
    pub fn html(status: u16) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type".to_owned(), "text/html".to_owned())],
            body: b"<html><body><h1>Please log in</h1></body></html>".to_vec(),
        }
    }
}
