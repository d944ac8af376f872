//! How a workflow file's `tracker` section becomes a tracker.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use symphony_core::tracker::{
    BuiltTracker, TrackerContext, TrackerError, TrackerFactory, TrackerProfile,
};
use symphony_core::{Scope, StateSet};

use crate::client::Client;
use crate::config::{ENDPOINT, KEYS, LinearConfig};
use crate::key::ApiKey;
use crate::tracker::LinearTracker;
use crate::transport::{Http, Transport};

/// What `tracker.kind` calls this tracker.
pub const LINEAR: &str = "linear";

/// Freed slots are refilled by reads that are at least this far apart (contract 4.6).
const MIN_READ_GAP: Duration = Duration::from_secs(2);

/// Active and terminal states where the file names none.
pub(crate) fn default_states() -> (StateSet, StateSet) {
    (
        StateSet::new(["Todo", "In Progress"]),
        StateSet::new(["Closed", "Cancelled", "Canceled", "Duplicate", "Done"]),
    )
}

/// Makes the way to Linear for an endpoint and a key.
type Connect = dyn Fn(&Url, &ApiKey) -> Result<Arc<dyn Transport>, TrackerError> + Send + Sync;

/// Builds trackers for Linear: `tracker.kind: linear`.
///
/// It keeps what it has learned of a key's limits, so that a reload of the workflow file neither
/// forgets them nor begins a second budget beside the one that running agents use.
///
/// ```
/// use std::collections::BTreeMap;
/// use symphony_core::Settings;
/// use symphony_core::settings::Provider;
/// use symphony_core::tracker::{TrackerContext, TrackerFactory};
/// use symphony_linear::LinearFactory;
///
/// let factory = LinearFactory::new();
/// let profile = factory.profile();
/// let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
/// let mut settings = Settings::new("linear", active, terminal, "/tmp/work".into());
/// let slug = ("project_slug".to_owned(), "symphony-0c79b11b75ea".into());
/// settings.tracker.provider = Provider::new([slug].into_iter().collect());
///
/// let mut env = BTreeMap::new();
/// let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
/// let error = factory.build(&cx).unwrap_err();
/// assert!(error.message.contains("LINEAR_API_KEY is not set"));
/// ```
pub struct LinearFactory {
    profile: TrackerProfile,
    connect: Box<Connect>,
    clients: Mutex<Vec<KnownClient>>,
}

/// A connection that is there already.
struct KnownClient {
    endpoint: Url,
    key: ApiKey,
    client: Arc<Client>,
}

impl LinearFactory {
    /// A factory whose trackers speak HTTP.
    #[must_use]
    pub fn new() -> Self {
        Self::connecting(|endpoint, key| Ok(Arc::new(Http::new(endpoint.clone(), key)?)))
    }

    /// A factory whose trackers reach Linear over what this makes.
    #[must_use]
    pub fn connecting(
        connect: impl Fn(&Url, &ApiKey) -> Result<Arc<dyn Transport>, TrackerError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let (active_states, terminal_states) = default_states();
        let mut profile = TrackerProfile::new(active_states, terminal_states);
        profile.min_read_gap = MIN_READ_GAP;
        profile.provider_keys = KEYS.to_vec();
        profile.secret_keys = vec!["api_key", "webhook_secret"];
        Self { profile, connect: Box::new(connect), clients: Mutex::default() }
    }

    /// The connection of this key: the one of an earlier build, if there was one.
    fn client(&self, config: &LinearConfig) -> Result<Arc<Client>, TrackerError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients
            .iter()
            .find(|known| known.endpoint == config.endpoint && known.key.is_same(&config.key));
        if let Some(known) = known {
            known.client.reconfigure(config.budget.clone());
            return Ok(Arc::clone(&known.client));
        }
        let transport = (self.connect)(&config.endpoint, &config.key)?;
        let client = Arc::new(Client::new(transport, config.key.redactor(), config.budget.clone()));
        clients.push(KnownClient {
            endpoint: config.endpoint.clone(),
            key: config.key.clone(),
            client: Arc::clone(&client),
        });
        Ok(client)
    }
}

impl TrackerFactory for LinearFactory {
    fn kind(&self) -> &str {
        LINEAR
    }

    fn profile(&self) -> &TrackerProfile {
        &self.profile
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let config = LinearConfig::read(cx)?;
        let client = self.client(&config)?;
        let place = match config.endpoint.as_str() {
            ENDPOINT => String::new(),
            other => format!(" at {other}"),
        };
        let scope = Scope::from(format!("{LINEAR} {}{place}", config.board.name()));
        let secret_names = config.secret_names.clone();
        let tracker = LinearTracker::new(client, Arc::new(config));
        Ok(BuiltTracker::new(Arc::new(tracker), scope).with_secret_names(secret_names))
    }
}

impl Default for LinearFactory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LinearFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinearFactory").finish_non_exhaustive()
    }
}
