//! A rate limit on wrong access tokens: a token bucket for each peer.
//!
//! While a peer's bucket is empty its tokens are refused without a comparison, the right one
//! included: if that were answered, guessing would go on at full speed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::peers::Peer;

/// How many wrong tokens a full bucket allows, and how long it takes to regain one. A forgotten tab
/// with an outdated token stays below that.
const BUCKET_SIZE: u32 = 30;
const REFILL_INTERVAL: Duration = Duration::from_secs(1);

/// The least interval between two log lines about one peer. The metrics count every wrong token.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// How many peers are tracked.
const MAX_PEERS: usize = 1024;

/// A token bucket for each peer that has shown a wrong token.
#[derive(Debug, Default)]
pub(crate) struct TokenRateLimit {
    buckets: Mutex<BTreeMap<Peer, PeerBucket>>,
    wrong: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct PeerBucket {
    /// When the bucket is full again: each wrong token adds [`REFILL_INTERVAL`].
    full_at: Instant,
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl TokenRateLimit {
    /// Returns how many wrong tokens were shown, and how many requests were refused without a
    /// comparison.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.wrong.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Returns for how long this peer is refused, if its bucket is empty, and counts the refusal.
    pub(crate) fn refuse(&self, peer: Peer) -> Option<Duration> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = buckets.get(&peer)?.full_at;
        let wait =
            full_at.saturating_duration_since(Instant::now() + REFILL_INTERVAL * (BUCKET_SIZE - 1));
        drop(buckets);
        (!wait.is_zero()).then(|| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            wait
        })
    }

    /// Counts a wrong token of this peer.
    pub(crate) fn count_wrong(&self, peer: Peer) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_PEERS && !buckets.contains_key(&peer) {
            evict(&mut buckets, now);
        }
        let bucket = buckets.entry(peer).or_insert(PeerBucket {
            full_at: now,
            logged_at: None,
            unlogged: 0,
        });
        bucket.full_at = bucket.full_at.max(now) + REFILL_INTERVAL;
        bucket.unlogged += 1;
        let is_due = bucket.logged_at.is_none_or(|at| now - at >= LOG_INTERVAL);
        if is_due {
            let guesses = std::mem::take(&mut bucket.unlogged);
            bucket.logged_at = Some(now);
            drop(buckets);
            warn!(%peer, guesses, "requests showed a wrong access token");
        }
    }
}

/// Evicts the full buckets, else the one that is full first.
fn evict(buckets: &mut BTreeMap<Peer, PeerBucket>, now: Instant) {
    buckets.retain(|_, bucket| bucket.full_at > now);
    if buckets.len() >= MAX_PEERS
        && let Some((&least, _)) = buckets.iter().min_by_key(|(_, bucket)| bucket.full_at)
    {
        buckets.remove(&least);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::from(SocketAddr::new(std::net::Ipv4Addr::from_bits(number).into(), 1))
    }

    #[tokio::test(start_paused = true)]
    async fn rule_13_3_wrong_tokens_are_limited_by_a_token_bucket() {
        let limit = TokenRateLimit::default();
        let guess = |peer| limit.refuse(peer).is_none().then(|| limit.count_wrong(peer)).is_some();
        assert_eq!((0..1000).filter(|_| guess(peer(1))).count(), 30);
        assert!(limit.refuse(peer(1)).is_some_and(|wait| wait <= REFILL_INTERVAL));
        assert!(guess(peer(2)), "others may try");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!((0..1000).filter(|_| guess(peer(1))).count(), 5);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!((0..1000).filter(|_| guess(peer(1))).count(), 30);
        assert_eq!(limit.counts().0, 66);
        assert!(limit.counts().1 > 2000);
    }

    #[tokio::test(start_paused = true)]
    async fn rule_13_3_what_is_remembered_of_peers_is_bounded() {
        let limit = TokenRateLimit::default();
        (0..50).for_each(|_| limit.count_wrong(peer(0)));
        for number in 1..10_000 {
            limit.count_wrong(peer(number));
        }
        assert!(limit.buckets.lock().unwrap().len() <= MAX_PEERS);
        assert!(limit.refuse(peer(0)).is_some(), "the emptiest bucket is kept");
    }
}
