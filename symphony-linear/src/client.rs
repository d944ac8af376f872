//! The one way to Linear: every request is admitted by the budget, and what comes back is either
//! what was asked for or an error with a category (contract 11.2, 12.6).

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use symphony_core::budget::{Budget, BudgetView, Spender, Spent};
use symphony_core::redact::Redactor;
use symphony_core::settings::BudgetSettings;
use symphony_core::time::{Mono, Now, Wall};
use tokio::time::Instant;

use crate::answer;
use crate::error::LinearError;
use crate::transport::{Bounds, NoReply, Reply, Transport};

/// A hundred issues with long descriptions fit; a flood does not.
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A connection with its budget. Trackers and tools with the same credential share one.
#[derive(Debug)]
pub(crate) struct Client {
    transport: Arc<dyn Transport>,
    /// Takes our key out of answers, before any of their words can be cut short or logged: half a
    /// key in an error would not be recognised later.
    redactor: Redactor,
    budget: Mutex<Budget>,
    seed: u64,
    origin: Instant,
}

impl Client {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        redactor: Redactor,
        settings: BudgetSettings,
    ) -> Self {
        let (origin, seed) = (Instant::now(), RandomState::new().hash_one("jitter"));
        let now = Now { mono: Mono::default(), wall: wall() };
        let budget = Mutex::new(Budget::new(settings, Spent::default(), seed, now));
        Self { transport, redactor, budget, seed, origin }
    }

    /// Other settings are in force.
    pub(crate) fn reconfigure(&self, settings: BudgetSettings) {
        let now = self.now();
        self.budget().reconfigure(settings, now);
    }

    /// Goes on with what an earlier life spent, unless this one has begun to spend.
    pub(crate) fn resume(&self, settings: BudgetSettings, spent: &Spent) {
        let now = self.now();
        let mut budget = self.budget();
        if budget.spent().requests.is_empty() {
            *budget = Budget::new(settings, spent.clone(), self.seed, now);
        }
    }

    pub(crate) fn view(&self) -> BudgetView {
        let now = self.now();
        self.budget().view(now)
    }

    pub(crate) fn now(&self) -> Now {
        let mono = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { mono: Mono::from_millis(mono), wall: wall() }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one request that may cost this many points, if the budget lets it. What Linear says of
    /// its limits is taken in, whatever else it says.
    pub(crate) async fn post(
        &self,
        spender: &Spender,
        points: u64,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Reply, LinearError> {
        let now = self.now();
        let permit = self.budget().admit(now, spender, points).map_err(|refused| {
            LinearError::NotMade { refused, retry_at: now.wall + refused.retry_after }
        })?;
        let reply = self.transport.post(body, bounds).await;
        let mut reply = reply.map_err(|no| no_reply(no, bounds))?;
        self.redact(&mut reply.body);
        let now = self.now();
        self.budget().learn(now, permit, &answer::reported(&reply.headers));
        match answer::rate_limited(&reply) {
            Some(limited) => {
                let retry_at = self.refused(limited.retry_after);
                Err(LinearError::RateLimited { message: limited.message, retry_at })
            }
            None => Ok(reply),
        }
    }

    /// Redacts the key in a body. A body that is not text is not JSON either, and is not shown.
    fn redact(&self, body: &mut Bytes) {
        let clean = std::str::from_utf8(body).map(|text| self.redactor.clean(text));
        if let Ok(Cow::Owned(clean)) = clean {
            *body = Bytes::from(clean);
        }
    }

    /// Makes one request and reads what it was to bring.
    pub(crate) async fn run<T: DeserializeOwned>(
        &self,
        spender: &Spender,
        points: u64,
        time: Duration,
        operation: &(impl Serialize + Sync),
    ) -> Result<T, LinearError> {
        let body = serde_json::to_vec(operation)
            .map_err(|error| LinearError::Unexpected(error.to_string()))?;
        let reply = self
            .post(spender, points, body.into(), Bounds { time, bytes: MAX_RESPONSE_BYTES })
            .await?;
        answer::data(&reply)
    }

    /// Linear refused: no request is made for a while. Returns until when.
    fn refused(&self, retry_after: Option<Duration>) -> Wall {
        let now = self.now();
        let mut budget = self.budget();
        budget.refused(now, retry_after);
        now.wall + budget.view(now).held_for.unwrap_or_default()
    }
}

fn no_reply(no: NoReply, bounds: Bounds) -> LinearError {
    match no {
        NoReply::Unreachable(why) => LinearError::Unreachable(why),
        NoReply::TimedOut(after) => LinearError::TimedOut(after),
        NoReply::BrokeOff(why) => LinearError::BrokeOff(why),
        NoReply::TooLarge => LinearError::TooLarge { limit: bounds.bytes },
    }
}

/// The wall clock. A clock before 1970 reads as 1970.
pub(crate) fn wall() -> Wall {
    SystemTime::now().into()
}
