//! What the tests share: trackers over the fake, in the process or over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use symphony_core::Settings;
use symphony_core::settings::Provider;
use symphony_core::tracker::{BuiltTracker, Tracker, TrackerContext, TrackerError, TrackerFactory};
use symphony_linear::{Bounds, Bytes, HeaderMap, LinearFactory, NoReply, Reply, Transport};
use symphony_linear_fake::{Answered, Fake, KEY};

/// The fake, reached without a socket: with paused time a day passes in seconds.
#[derive(Debug)]
pub(crate) struct InProcess(pub(crate) Fake);

#[async_trait]
impl Transport for InProcess {
    async fn post(&self, body: Bytes, bounds: Bounds) -> Result<Reply, NoReply> {
        match self.0.answer(Some(KEY), &body) {
            Answered::Closed => Err(NoReply::Unreachable("connection closed".to_owned())),
            Answered::Never => {
                tokio::time::sleep(bounds.time).await;
                Err(NoReply::TimedOut(bounds.time))
            }
            Answered::Reply { missing: 1.., .. } => Err(NoReply::BrokeOff("cut".to_owned())),
            Answered::Reply { body, .. } if body.len() > bounds.bytes => Err(NoReply::TooLarge),
            Answered::Reply { status, headers, body, .. } => {
                let mut map = HeaderMap::new();
                for (name, value) in headers {
                    let name: reqwest::header::HeaderName = name.parse().unwrap();
                    map.insert(name, value.parse().unwrap());
                }
                Ok(Reply { status, headers: map, body: body.into() })
            }
        }
    }
}

/// A factory whose trackers reach this fake.
pub(crate) fn factory(fake: &Fake) -> LinearFactory {
    let fake = fake.clone();
    LinearFactory::connecting(move |_, _| Ok(Arc::new(InProcess(fake.clone()))))
}

/// Settings for the fake's project, with these keys besides.
pub(crate) fn settings(provider: &Value) -> Settings {
    let profile = LinearFactory::new();
    let profile = profile.profile();
    let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
    let mut settings = Settings::new("linear", active, terminal, "/nowhere".into());
    let mut keys = Map::from_iter([
        ("api_key".to_owned(), json!(KEY)),
        ("project_slug".to_owned(), json!("abc123")),
    ]);
    for (key, value) in provider.as_object().unwrap() {
        keys.insert(key.clone(), value.clone());
    }
    keys.retain(|_, value| !value.is_null());
    settings.tracker.provider = Provider::new(keys);
    settings
}

pub(crate) fn try_build(
    factory: &LinearFactory,
    settings: &Settings,
    env: &[(&str, &str)],
) -> Result<BuiltTracker, TrackerError> {
    let env: BTreeMap<String, String> =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    factory.build(&TrackerContext::new(&settings.tracker, &settings.polling.budget, &env))
}

/// A tracker of the fake's project, in the process.
pub(crate) fn tracker(fake: &Fake) -> Arc<dyn Tracker> {
    tracker_with(fake, &json!({}))
}

pub(crate) fn tracker_with(fake: &Fake, provider: &Value) -> Arc<dyn Tracker> {
    try_build(&factory(fake), &settings(provider), &[]).unwrap().tracker
}
