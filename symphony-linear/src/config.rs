//! `tracker.provider` of a workflow file, resolved and checked.

use std::sync::Arc;

use reqwest::Url;
use serde_json::{Map, Value};
use symphony_core::env::Env;
use symphony_core::settings::{BudgetSettings, Provider, TrackerSettings, env_reference};
use symphony_core::tracker::{TrackerContext, TrackerError, TrackerErrorKind};

use crate::board::Board;
use crate::key::ApiKey;
use crate::normal::WantedAssignee;
use crate::webhook::{LinearWebhook, SigningSecret};

/// The variable that holds the key where the file does not say.
pub(crate) const KEY_VARIABLE: &str = "LINEAR_API_KEY";

/// Where Linear answers.
pub(crate) const ENDPOINT: &str = "https://api.linear.app/graphql";

/// The keys that are read.
pub(crate) const KEYS: [&str; 7] =
    ["api_key", "assignee", "endpoint", "project_slug", "team_key", "tool", "webhook_secret"];

/// The project of a file that `symphony init` wrote.
const PLACEHOLDER_PROJECT: &str = "your-project-0123456789ab";

/// What agents may do with the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolMode {
    ReadWrite,
    ReadOnly,
    Off,
}

/// Everything that a tracker is built from.
#[derive(Clone, Debug)]
pub(crate) struct LinearConfig {
    pub(crate) endpoint: Url,
    pub(crate) key: ApiKey,
    /// Variables that hold secrets.
    pub(crate) secret_names: Vec<String>,
    pub(crate) board: Board,
    pub(crate) assignee: Option<WantedAssignee>,
    pub(crate) tool: ToolMode,
    /// What reads deliveries, where the secret that signs them is known.
    pub(crate) webhook: Option<Arc<LinearWebhook>>,
    /// `tracker.*`, without the adapter's own keys.
    pub(crate) tracker: TrackerSettings,
    pub(crate) budget: BudgetSettings,
}

impl LinearConfig {
    pub(crate) fn read(cx: &TrackerContext<'_>) -> Result<Self, TrackerError> {
        let keys = ProviderKeys { raw: cx.tracker.provider.raw(), env: cx.env };
        let board = Board { project: keys.text("project_slug")?, team: keys.text("team_key")? };
        if board.project.is_none() && board.team.is_none() {
            return Err(refused(
                "project_slug",
                "is missing: name a project by the end of its address, or a team by team_key",
            ));
        }
        let (key, variable) = keys.api_key()?;
        key.header()?; // what cannot be sent is told now
        if board.project.as_deref() == Some(PLACEHOLDER_PROJECT) {
            return Err(refused(
                "project_slug",
                "is the placeholder that `symphony init` wrote: put the end of your project's \
                 address there",
            ));
        }
        let mut secret_names = vec![KEY_VARIABLE.to_owned()];
        secret_names.extend(variable.filter(|name| name != KEY_VARIABLE));
        let signing = keys.webhook_secret()?;
        let (secret, variable) = signing.unzip();
        secret_names.extend(variable.flatten().filter(|name| !secret_names.contains(name)));
        let mut tracker = cx.tracker.clone();
        tracker.provider = Provider::default();
        Ok(Self {
            endpoint: keys.endpoint()?,
            key,
            secret_names,
            board,
            assignee: keys.text("assignee")?.map(|text| match text.as_str() {
                "me" | "@me" => WantedAssignee::Me,
                text if text.contains('@') => WantedAssignee::Email(text.to_owned()),
                text => WantedAssignee::Id(text.to_owned()),
            }),
            tool: keys.tool()?,
            webhook: secret.map(|secret| Arc::new(LinearWebhook::new(secret))),
            tracker,
            budget: cx.budget.clone(),
        })
    }
}

struct ProviderKeys<'a> {
    raw: &'a Map<String, Value>,
    env: &'a dyn Env,
}

impl ProviderKeys<'_> {
    /// A text, from the environment where it is a whole `$NAME` (contract 2.4). Blank is absent.
    fn text(&self, key: &str) -> Result<Option<String>, TrackerError> {
        let text = match self.raw.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(refused(key, "must be a text")),
        };
        let Some(name) = env_reference(&text) else {
            return Ok(Some(text).filter(|text| !text.is_empty()));
        };
        let value = self.env.var(name).map(|value| value.trim().to_owned());
        match value.filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(value)),
            None => Err(refused(key, &format!("the environment variable {name} is not set"))),
        }
    }

    /// A secret as the file has it. Its text is in no message.
    fn secret(&self, key: &str) -> Result<Option<&str>, TrackerError> {
        match self.raw.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(_) => Err(refused(key, "must be a text")),
        }
    }

    /// The value of a variable that holds a secret.
    fn secret_in(&self, key: &str, name: &str, help: &str) -> Result<String, TrackerError> {
        let value = self.env.var(name).filter(|value| !value.trim().is_empty());
        value.ok_or_else(|| {
            let message = format!(
                "tracker.provider.{key}: the environment variable {name} is not set; {help}"
            );
            TrackerError::new(TrackerErrorKind::MissingSecret, message)
        })
    }

    /// What signs deliveries, and the variable it came from.
    fn webhook_secret(&self) -> Result<Option<(SigningSecret, Option<String>)>, TrackerError> {
        const KEY: &str = "webhook_secret";
        let Some(text) = self.secret(KEY)? else {
            return Ok(None);
        };
        let (secret, name) = match env_reference(text) {
            None => (text.to_owned(), None),
            Some(name) => {
                let help = "Linear shows it on the page of the webhook";
                (self.secret_in(KEY, name, help)?, Some(name.to_owned()))
            }
        };
        let secret = SigningSecret::new(&secret)
            .ok_or_else(|| refused(KEY, "is too short to be what Linear signs with"))?;
        Ok(Some((secret, name)))
    }

    /// The key, and the variable it came from.
    fn api_key(&self) -> Result<(ApiKey, Option<String>), TrackerError> {
        let name = match self.secret("api_key")? {
            None => KEY_VARIABLE,
            Some(text) => match env_reference(text) {
                None => return Ok((ApiKey::new(text), None)),
                Some(name) => name,
            },
        };
        let help = "make a key in Linear under Settings, Security & access";
        let value = self.secret_in("api_key", name, help)?;
        Ok((ApiKey::new(&value), Some(name.to_owned())))
    }

    /// The address of the API. A key travels in the open only within this machine.
    fn endpoint(&self) -> Result<Url, TrackerError> {
        let text = self.text("endpoint")?.unwrap_or_else(|| ENDPOINT.to_owned());
        let url = Url::parse(&text).map_err(|error| {
            refused("endpoint", &format!("must be the address of a GraphQL API: {error}"))
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("endpoint", "must have no user or password in it"));
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_here => Ok(url),
            _ => Err(refused(
                "endpoint",
                "must begin with https://, because the key is sent there (http:// is for this \
                 machine only)",
            )),
        }
    }

    fn tool(&self) -> Result<ToolMode, TrackerError> {
        let word = match self.raw.get("tool") {
            // `off` is a word to YAML 1.1 and false to some writers.
            Some(Value::Bool(false)) => "off".to_owned(),
            _ => self.text("tool")?.unwrap_or_else(|| "read_write".to_owned()),
        };
        match word.as_str() {
            "read_write" => Ok(ToolMode::ReadWrite),
            "read_only" => Ok(ToolMode::ReadOnly),
            "off" => Ok(ToolMode::Off),
            _ => Err(refused("tool", "must be read_write, read_only or off")),
        }
    }
}

fn refused(key: &str, message: &str) -> TrackerError {
    let message = format!("tracker.provider.{key}: {message}");
    TrackerError::new(TrackerErrorKind::InvalidConfig, message)
}
