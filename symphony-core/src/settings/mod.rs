//! What a WORKFLOW.md decides, typed (contract section 3).
//!
//! Settings are parsed once per change and shared; reading one costs nothing (2.8). They hold no
//! secret: `tracker.provider` stays raw until an adapter's factory resolves it (2.9).

mod agent;
mod log_filter;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::env::Env;
use crate::issue::{Label, StateName};
use crate::workspace::HostId;

pub use agent::{
    AgentCommon, AgentProfile, AgentSection, AgentSettingProblem, AgentSettings, Approvals,
};
pub use log_filter::LogFilter;
pub use table::{SettingKey, SettingShape};

/// Everything that a workflow file can set, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// `tracker.*`
    pub tracker: TrackerSettings,
    /// `polling.*`
    pub polling: PollingSettings,
    /// `workspace.*`
    pub workspace: WorkspaceSettings,
    /// `storage.*`
    pub storage: StorageSettings,
    /// `hooks.*`
    pub hooks: HookSettings,
    /// `agent.*`
    pub agent: AgentSettings,
    /// `prompt.*`
    pub prompt: PromptSettings,
    /// `server.*`
    pub server: ServerSettings,
    /// `observability.*`
    pub observability: ObservabilitySettings,
    /// `logging.*`
    pub logging: LoggingSettings,
    /// Machines that agents run on, with their limits. Empty means this machine, without a limit
    /// of its own. Set in code only: a file that sets `worker.*` is refused.
    pub hosts: Vec<HostLimit>,
}

impl Settings {
    /// Settings with every default, for a tracker of this kind with these states.
    #[must_use]
    pub fn new(kind: &str, active: StateSet, terminal: StateSet, root: PathBuf) -> Self {
        Self {
            tracker: TrackerSettings {
                kind: kind.to_owned(),
                active_states: active,
                terminal_states: terminal,
                ..TrackerSettings::default()
            },
            polling: PollingSettings::default(),
            workspace: WorkspaceSettings { root },
            storage: StorageSettings::default(),
            hooks: HookSettings::default(),
            agent: AgentSettings::default(),
            prompt: PromptSettings::default(),
            server: ServerSettings::default(),
            observability: ObservabilitySettings::default(),
            logging: LoggingSettings::default(),
            hosts: Vec::new(),
        }
    }
}

/// `tracker.*`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrackerSettings {
    /// Which registered adapter reads the tracker.
    pub kind: String,
    /// The adapter's own settings, unresolved.
    pub provider: Provider,
    /// Labels that an issue must all have; a blank one matches nothing.
    pub required_labels: Vec<Label>,
    /// States in which an issue is to be worked on.
    pub active_states: StateSet,
    /// States in which an issue is over and its workspace is removed.
    pub terminal_states: StateSet,
    /// The bound of one read.
    pub timeout: Duration,
}

impl Default for TrackerSettings {
    /// No tracker: its kind and its states have no default of their own.
    fn default() -> Self {
        Self {
            kind: String::new(),
            provider: Provider::default(),
            required_labels: Vec::new(),
            active_states: StateSet::default(),
            terminal_states: StateSet::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

/// A tracker adapter's own settings, as they stand in the file.
///
/// A value may be a secret, so neither `Debug` nor serialisation shows more than the keys and
/// which environment variables are named.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Provider(Map<String, Value>);

impl Provider {
    /// Wraps the raw map.
    #[must_use]
    pub const fn new(raw: Map<String, Value>) -> Self {
        Self(raw)
    }

    /// The raw map: handle with care.
    #[must_use]
    pub const fn raw(&self) -> &Map<String, Value> {
        &self.0
    }

    fn masked(&self) -> BTreeMap<&str, &str> {
        let mask = |value: &'_ Value| match value {
            Value::Null => "null",
            Value::String(text) if env_reference(text).is_some() => "$VARIABLE",
            _ => "***",
        };
        self.0.iter().map(|(key, value)| (key.as_str(), mask(value))).collect()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.masked().fmt(f)
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.masked().serialize(serializer)
    }
}

/// The variable that a whole value `$NAME` or `${NAME}` refers to (contract 2.4).
///
/// ```
/// use symphony_core::settings::env_reference;
/// assert_eq!(env_reference("$LINEAR_API_KEY"), Some("LINEAR_API_KEY"));
/// assert_eq!(env_reference("${HOME}"), Some("HOME"));
/// assert_eq!(env_reference("$HOME/work"), None);
/// ```
#[must_use]
pub fn env_reference(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix('$')?;
    let name = rest.strip_prefix('{').and_then(|r| r.strip_suffix('}')).unwrap_or(rest);
    let mut chars = name.chars();
    let first = chars.next()?;
    let valid = (first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    valid.then_some(name)
}

/// What a text stands for: a whole value `$NAME` or `${NAME}` is looked up, anything else is
/// itself. Blank, unset and empty all mean missing.
///
/// Adapters resolve their own keys with this when they are built; until then
/// [`Provider`] holds what the file says.
///
/// ```
/// use std::collections::BTreeMap;
/// use symphony_core::settings::resolve;
/// let env = BTreeMap::from([("KEY".to_owned(), "secret".to_owned())]);
/// assert_eq!(resolve("$KEY", &env).as_deref(), Some("secret"));
/// assert_eq!(resolve("plain", &env).as_deref(), Some("plain"));
/// assert_eq!(resolve("${OTHER}", &env), None);
/// assert_eq!(resolve(" ", &env), None);
/// ```
#[must_use]
pub fn resolve(text: &str, env: &dyn Env) -> Option<String> {
    let value = match env_reference(text) {
        Some(name) => env.var(name)?,
        None => text.to_owned(),
    };
    (!value.trim().is_empty()).then_some(value)
}

/// A few state names; membership ignores case and surrounding space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateSet(Vec<StateName>);

impl StateSet {
    /// The set of these names, in this order, without blanks and duplicates.
    #[must_use]
    pub fn new<I: IntoIterator>(names: I) -> Self
    where
        I::Item: Into<StateName>,
    {
        let mut set = Vec::new();
        for name in names.into_iter().map(Into::into) {
            if !name.is_blank() && !set.contains(&name) {
                set.push(name);
            }
        }
        Self(set)
    }

    /// Whether the state is one of these.
    #[must_use]
    pub fn contains(&self, state: &StateName) -> bool {
        self.0.contains(state)
    }

    /// The names, as they were given.
    #[must_use]
    pub fn names(&self) -> &[StateName] {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `polling.*` (contract section 12)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PollingSettings {
    /// The interval of every job that has none of its own.
    pub interval: Duration,
    /// Intervals of single jobs.
    pub jobs: JobIntervals,
    /// Slower polling when nothing happens; off unless the section is present.
    pub activity: Option<ActivitySettings>,
    /// Hours in which candidates are asked for as if dormant.
    pub quiet_hours: Option<QuietHours>,
    /// Limits of the tracker's requests.
    pub budget: BudgetSettings,
    /// A file whose touch counts as activity.
    pub activity_file: Option<PathBuf>,
}

impl Default for PollingSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            jobs: JobIntervals::default(),
            activity: None,
            quiet_hours: None,
            budget: BudgetSettings::default(),
            activity_file: None,
        }
    }
}

/// `polling.jobs.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobIntervals {
    /// How often candidates are asked for; `polling.interval_ms` when absent.
    pub candidates: Option<Duration>,
    /// How often claimed issues are read again; `polling.interval_ms` when absent.
    pub refresh: Option<Duration>,
    /// How often workspaces of finished issues are looked for.
    pub sweep: Duration,
}

impl Default for JobIntervals {
    fn default() -> Self {
        Self { candidates: None, refresh: None, sweep: Duration::from_secs(3600) }
    }
}

/// `polling.activity.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActivitySettings {
    /// Without activity for this long, the mode is idle.
    pub idle_after: Duration,
    /// The interval while idle.
    pub idle: Duration,
    /// Without activity for this long, the mode is dormant.
    pub dormant_after: Duration,
    /// The interval while dormant.
    pub dormant: Duration,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self {
            idle_after: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            dormant_after: Duration::from_secs(3600),
            dormant: Duration::from_secs(300),
        }
    }
}

/// `polling.quiet_hours.*`: the boundaries are computed outside the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietHours {
    /// Minutes after midnight at which they begin.
    pub from: u16,
    /// Minutes after midnight at which they end; before `from` means the next day.
    pub to: u16,
    /// An IANA zone name; the machine's own when absent.
    pub timezone: Option<String>,
}

/// `polling.budget.*`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSettings {
    /// Requests an hour; learned from the tracker when absent.
    pub per_hour: Option<u32>,
    /// Requests a day.
    pub per_day: Option<u32>,
    /// The share kept for refresh and tools, from 0 to 1.
    pub reserve: f64,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { per_hour: None, per_day: None, reserve: 0.2 }
    }
}

/// `workspace.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkspaceSettings {
    /// The folder that holds every workspace: absolute.
    pub root: PathBuf,
}

/// `hooks.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HookSettings {
    /// Runs once in a new workspace.
    pub after_create: Option<String>,
    /// Runs before each attempt.
    pub before_run: Option<String>,
    /// Runs after each attempt that had a workspace.
    pub after_run: Option<String>,
    /// Runs before a workspace is removed.
    pub before_remove: Option<String>,
    /// The bound of one hook.
    pub timeout: Duration,
    /// Names of removed variables that hooks may see all the same.
    pub env: Vec<String>,
}

impl Default for HookSettings {
    fn default() -> Self {
        Self {
            after_create: None,
            before_run: None,
            after_run: None,
            before_remove: None,
            timeout: Duration::from_secs(60),
            env: Vec::new(),
        }
    }
}

/// `prompt.*`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptSettings {
    /// Pins the template language.
    pub engine: Option<PromptEngine>,
}

/// A template language (contract 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptEngine {
    /// The prompt language.
    Tera,
    /// For bodies that only Liquid renders.
    Liquid,
}

/// `server.*`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerSettings {
    /// The port; 0 takes any free one, `None` starts no server.
    pub port: Option<u16>,
    /// The address.
    pub host: String,
    /// Where the access token stands: `$NAME`, or the token itself.
    #[serde(skip)]
    pub token: Option<String>,
    /// Host names that are answered besides the address itself.
    pub allowed_hosts: Vec<String>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self { port: None, host: "127.0.0.1".to_owned(), token: None, allowed_hosts: Vec::new() }
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("port", &self.port)
            .field("host", &self.host)
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("allowed_hosts", &self.allowed_hosts)
            .finish()
    }
}

/// `observability.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ObservabilitySettings {
    /// Whether a terminal shows the dashboard.
    pub dashboard_enabled: bool,
    /// How often it reads the snapshot.
    pub refresh: Duration,
    /// How often it may draw.
    pub render_interval: Duration,
}

impl Default for ObservabilitySettings {
    fn default() -> Self {
        Self {
            dashboard_enabled: true,
            refresh: Duration::from_secs(1),
            render_interval: Duration::from_millis(100),
        }
    }
}

/// `storage.*`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StorageSettings {
    /// The file that keeps what must survive a restart; `None` leaves the place to the program.
    pub path: Option<PathBuf>,
}

/// `logging.*`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggingSettings {
    /// Text or JSON.
    pub format: LogFormat,
    /// What is written.
    pub level: LogFilter,
    /// The size at which a log file is rotated.
    pub max_bytes: u64,
    /// How many rotated files are kept.
    pub max_files: u32,
}

impl Default for LoggingSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: LogFilter::default(),
            max_bytes: 10 * 1024 * 1024,
            max_files: 5,
        }
    }
}

/// `logging.format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A machine that agents run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLimit {
    /// Its name.
    pub id: HostId,
    /// How many agents may live on it at once.
    pub max_agents: u32,
}
