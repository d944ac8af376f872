//! What trackers deliver by themselves: checked by the tracker in force, and taken once
//! (contract 12.8).

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use symphony_core::IssueId;
use symphony_core::webhook::{Delivery, DeliveryRefused, Webhook};
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::clock::wall_now;
use crate::loader::Loaded;

/// So many deliveries are remembered. Only those of the tracker count, so that no other sender can
/// evict one.
const MAX_REMEMBERED_IDS: usize = 4096;

/// Any client can send anything: refusals are logged this rarely, and counted.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// A delivery was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Whether it has been here before: then nothing came of it.
    pub is_duplicate: bool,
}

/// Why a delivery was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReceived {
    /// No tracker of this kind runs, or it takes no deliveries.
    #[error("no tracker of this kind takes deliveries")]
    NoWebhook,
    /// The tracker's adapter refused it.
    #[error(transparent)]
    Refused(#[from] DeliveryRefused),
    /// The service has ended.
    #[error(transparent)]
    ServiceStopped(#[from] crate::handle::ServiceStopped),
}

/// The tracker in force, and what reads its deliveries if anything does.
#[derive(Clone, Debug)]
pub(crate) struct WebhookReceiver {
    kind: String,
    webhook: Option<Arc<dyn Webhook>>,
}

impl WebhookReceiver {
    pub(crate) fn from_loaded(loaded: &Loaded) -> Self {
        let kind = loaded.settings().tracker.kind.clone();
        Self { kind, webhook: loaded.tracker.webhook() }
    }
}

/// Checks deliveries and remembers them.
#[derive(Debug)]
pub(crate) struct Deliveries {
    receiver: watch::Receiver<WebhookReceiver>,
    seen: Mutex<SeenDeliveries>,
    refused: AtomicU64,
    told: Mutex<Option<(Instant, u64)>>,
}

impl Deliveries {
    pub(crate) fn new(receiver: watch::Receiver<WebhookReceiver>) -> Self {
        Self {
            receiver,
            seen: Mutex::default(),
            refused: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// How many were refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The issues that a delivery is about; `None` if it has been here before.
    pub(crate) fn check(
        &self,
        kind: &str,
        delivery: &Delivery<'_>,
    ) -> Result<Option<Vec<IssueId>>, NotReceived> {
        let receiver = self.receiver.borrow().clone();
        let webhook = receiver.webhook.filter(|_| receiver.kind == kind);
        let webhook = webhook.ok_or(NotReceived::NoWebhook)?;
        // An adapter's panic is a refusal: what it could not take is not to end anything.
        let read = || webhook.receive(delivery, wall_now());
        let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or(Err(DeliveryRefused::Content));
        let issues = read.inspect_err(|refused| self.log_refusal(*refused))?;
        // Of the body and not of a header: only the body is signed.
        let is_new = self.seen.lock().unwrap_or_else(PoisonError::into_inner).add(delivery.body());
        Ok(is_new.then_some(issues))
    }

    fn log_refusal(&self, refused: DeliveryRefused) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match *told {
            Some((at, _)) if now.duration_since(at) < LOG_INTERVAL => {
                debug!(%refused, "a webhook delivery was refused");
            }
            before => {
                let since = count - before.map_or(0, |(_, count)| count);
                *told = Some((now, count));
                warn!(%refused, refusals = since, "webhook deliveries were refused");
            }
        }
    }
}

/// The last deliveries, by their digest.
#[derive(Debug, Default)]
struct SeenDeliveries {
    known: BTreeSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl SeenDeliveries {
    /// Whether this one is new.
    fn add(&mut self, body: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(body).into();
        if !self.known.insert(digest) {
            return false;
        }
        self.order.push_back(digest);
        if self.order.len() > MAX_REMEMBERED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_12_8_what_is_remembered_of_deliveries_is_bounded() {
        let mut seen = SeenDeliveries::default();
        for number in 0..10_000_u32 {
            assert!(seen.add(&number.to_be_bytes()));
            assert!(!seen.add(&number.to_be_bytes()));
        }
        assert_eq!((seen.known.len(), seen.order.len()), (MAX_REMEMBERED_IDS, MAX_REMEMBERED_IDS));
        assert!(!seen.add(&(10_000 - 4_096_u32).to_be_bytes()), "the last 4096 are known");
        assert!(seen.add(&0_u32.to_be_bytes()));
    }
}
