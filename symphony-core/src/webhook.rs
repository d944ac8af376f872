//! What a tracker tells by itself (contract 12.8): a signed hint about which issues to read, never
//! the truth.

use std::fmt;

use crate::issue::IssueId;
use crate::time::Wall;

/// Reads the deliveries of one tracker.
///
/// The HTTP server knows no tracker: it passes on what came in, and this says whether the
/// tracker sent it and which issues it is about.
pub trait Webhook: fmt::Debug + Send + Sync {
    /// Checks a delivery and names the issues that it is about: none where it is about something
    /// else. Repeated deliveries are not detected here; the caller remembers their ids.
    ///
    /// It must be cheap, because any client can send anything. Nothing of the body is believed beyond
    /// the ids: the issues are read.
    ///
    /// # Errors
    /// What did not come from the tracker, came too late or cannot be understood.
    fn receive(&self, delivery: &Delivery<'_>, now: Wall) -> Result<Vec<IssueId>, DeliveryRefused>;
}

/// One request that says it is from a tracker.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    headers: &'a [(&'a str, &'a [u8])],
    body: &'a [u8],
}

impl<'a> Delivery<'a> {
    /// The request's headers, and its body as it was sent: signatures are made of bytes.
    #[must_use]
    pub const fn new(headers: &'a [(&'a str, &'a [u8])], body: &'a [u8]) -> Self {
        Self { headers, body }
    }

    /// The one header of this name, in any case. One that is there twice says nothing.
    ///
    /// ```
    /// use symphony_core::webhook::Delivery;
    ///
    /// let headers: [(&str, &[u8]); 3] = [("A", b"1"), ("b", b"2"), ("B", b"3")];
    /// let delivery = Delivery::new(&headers, b"{}");
    /// assert_eq!(delivery.header("a"), Some(&b"1"[..]));
    /// assert_eq!(delivery.header("b"), None);
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let (first, second) = (named.next(), named.next());
        first.filter(|_| second.is_none()).map(|(_, value)| *value)
    }

    /// The body.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

impl fmt::Debug for Delivery<'_> {
    /// Shows its size only: signatures and issues are not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// Why a delivery is not taken. No part of it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryRefused {
    /// The tracker did not send it, or it was changed on the way.
    #[error("the signature is missing or wrong")]
    Signature,
    /// It is too old, or from the future: it may be a replay.
    #[error("the delivery is not from now; are both clocks right?")]
    Time,
    /// It is the tracker's, and says something that has no meaning here.
    #[error("the delivery cannot be understood")]
    Content,
}
