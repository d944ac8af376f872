//! What Linear tells by itself: deliveries, signed with a secret that it shares with us
//! (contract 12.8).

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use sha2::Sha256;
use symphony_core::IssueId;
use symphony_core::time::Wall;
use symphony_core::webhook::{Delivery, DeliveryRefused, Webhook};

/// The header that holds the signature of the body.
const SIGNATURE_HEADER: &str = "linear-signature";

/// A delivery is signed with its time. One that differs more from ours may be a replay.
const MAX_CLOCK_SKEW_MS: u64 = 60_000;

/// No secret that Linear makes is nearly as short, and a shorter one could be guessed.
const MIN_SECRET_BYTES: usize = 16;

/// No id is longer.
const MAX_ID_BYTES: usize = 64;

/// What Linear signs with. It does not print.
#[derive(Clone)]
pub(crate) struct SigningSecret(SecretString);

impl SigningSecret {
    /// Takes a secret over, without the space around it; `None` if it is too short to be one.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= MIN_SECRET_BYTES).then(|| Self(SecretString::from(text)))
    }

    /// Whether this is the signature of these bytes. Takes the same time wherever it differs.
    fn has_signed(&self, bytes: &[u8], signature: &[u8; 32]) -> bool {
        let key = self.0.expose_secret().as_bytes();
        Hmac::<Sha256>::new_from_slice(key)
            .is_ok_and(|mac| mac.chain_update(bytes).verify_slice(signature).is_ok())
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(***)")
    }
}

/// Reads Linear's deliveries.
#[derive(Debug)]
pub(crate) struct LinearWebhook {
    secret: SigningSecret,
}

impl LinearWebhook {
    pub(crate) const fn new(secret: SigningSecret) -> Self {
        Self { secret }
    }
}

impl Webhook for LinearWebhook {
    fn receive(&self, delivery: &Delivery<'_>, now: Wall) -> Result<Vec<IssueId>, DeliveryRefused> {
        let signature =
            delivery.header(SIGNATURE_HEADER).and_then(digest).ok_or(DeliveryRefused::Signature)?;
        // Nothing is parsed before the signature is verified.
        if !self.secret.has_signed(delivery.body(), &signature) {
            return Err(DeliveryRefused::Signature);
        }
        let payload: Map<String, Value> =
            serde_json::from_slice(delivery.body()).map_err(|_| DeliveryRefused::Content)?;
        let sent = payload.get("webhookTimestamp").and_then(Value::as_i64);
        let sent = sent.ok_or(DeliveryRefused::Content)?;
        if sent.abs_diff(now.as_unix_millis()) > MAX_CLOCK_SKEW_MS {
            return Err(DeliveryRefused::Time);
        }
        issues(&payload)
    }
}

/// The issues that a payload is about. Of an issue nothing that is delivered apart from it, such as
/// comments, is of interest here, so that reading it would tell nothing.
fn issues(payload: &Map<String, Value>) -> Result<Vec<IssueId>, DeliveryRefused> {
    let kind = payload.get("type").and_then(Value::as_str).ok_or(DeliveryRefused::Content)?;
    let names = match kind {
        "Issue" => ["id"].as_slice(),
        "IssueRelation" => &["issueId", "relatedIssueId"],
        _ => return Ok(Vec::new()),
    };
    let data = payload.get("data").and_then(Value::as_object).ok_or(DeliveryRefused::Content)?;
    let id = |name: &&str| data.get(*name).and_then(id).ok_or(DeliveryRefused::Content);
    names.iter().map(id).collect()
}

/// An id, if it looks like one.
fn id(value: &Value) -> Option<IssueId> {
    let text = value.as_str()?;
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_one = !text.is_empty() && text.len() <= MAX_ID_BYTES && text.bytes().all(is_id);
    is_one.then(|| IssueId::from(text))
}

/// The bytes that 64 hexadecimal digits stand for.
fn digest(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = [0; 32];
    if text.len() != bytes.len() * 2 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}
