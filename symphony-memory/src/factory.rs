//! How a workflow file's `tracker` section becomes a board.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use symphony_core::settings::env_reference;
use symphony_core::tracker::{
    BuiltTracker, TrackerContext, TrackerError, TrackerErrorKind, TrackerFactory, TrackerProfile,
};
use symphony_core::{Scope, StateSet};

use crate::clock::BoardClock;
use crate::record::shown;
use crate::seeds::Seeds;
use crate::tracker::MemoryTracker;

/// What `tracker.kind` calls this tracker.
pub const MEMORY: &str = "memory";

/// Active and terminal states where the file names none.
pub(crate) fn default_states() -> (StateSet, StateSet) {
    (
        StateSet::new(["Todo", "In Progress"]),
        StateSet::new(["Closed", "Cancelled", "Canceled", "Duplicate", "Done"]),
    )
}

/// Builds memory trackers: `tracker.kind: memory`.
///
/// It keeps its boards, so that a reload of the workflow file does not undo what agents have done.
///
/// ```
/// use std::collections::BTreeMap;
/// use serde_json::json;
/// use symphony_core::Settings;
/// use symphony_core::settings::Provider;
/// use symphony_core::tracker::{TrackerContext, TrackerFactory};
/// use symphony_memory::MemoryFactory;
///
/// let factory = MemoryFactory::new();
/// let profile = factory.profile();
/// let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
/// let mut settings = Settings::new("memory", active, terminal, "/tmp/work".into());
/// let issues = json!([{ "identifier": "MT-1", "title": "Fix the door", "state": "Todo" }]);
/// settings.tracker.provider = Provider::new([("issues".to_owned(), issues)].into_iter().collect());
/// let env = BTreeMap::new();
/// let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
/// assert!(factory.build(&cx).is_ok());
/// ```
#[derive(Debug)]
pub struct MemoryFactory {
    profile: TrackerProfile,
    clock: BoardClock,
    /// The board of every build without a file.
    inline: MemoryTracker,
    files: Mutex<BTreeMap<PathBuf, MemoryTracker>>,
}

impl MemoryFactory {
    /// A factory with a board of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::serving(MemoryTracker::new())
    }

    /// A factory that hands out this board, unless the workflow file names a board file. Inline
    /// issues are put on it.
    #[must_use]
    pub fn serving(tracker: MemoryTracker) -> Self {
        let (active_states, terminal_states) = default_states();
        let mut profile = TrackerProfile::new(active_states, terminal_states);
        profile.provider_keys = vec!["board", "issues", "states", "write_back"];
        let clock = tracker.clock();
        Self { profile, clock, inline: tracker, files: Mutex::default() }
    }

    /// The board of this file: the one of an earlier build, if there was one.
    fn on_file(&self, path: &Path) -> Result<MemoryTracker, TrackerError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tracker) = files.get(path) {
            return Ok(tracker.clone());
        }
        let tracker = MemoryTracker::open(path, self.clock.clone()).map_err(|mut error| {
            error.kind = TrackerErrorKind::InvalidConfig;
            error.message = format!("tracker.provider.board: {}", error.message);
            error
        })?;
        files.insert(path.to_owned(), tracker.clone());
        Ok(tracker)
    }
}

impl TrackerFactory for MemoryFactory {
    fn kind(&self) -> &str {
        MEMORY
    }

    fn profile(&self) -> &TrackerProfile {
        &self.profile
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let raw = cx.tracker.provider.raw();
        let (tracker, scope) = match board_path(cx)? {
            Some(path) => {
                if let Some(key) = ["issues", "states"].iter().find(|key| given(raw, key).is_some())
                {
                    let message = format!("tracker.provider.{key}: belongs into the board file");
                    return Err(refused(message));
                }
                let write_back = write_back(raw)?;
                let tracker = self.on_file(&path)?;
                tracker.set_write_back(write_back);
                (tracker, Scope::from(format!("{MEMORY}:{}", path.display())))
            }
            None => {
                self.inline.seed(inline_seeds(raw)?);
                (self.inline.clone(), Scope::from(MEMORY))
            }
        };
        let active = cx.tracker.active_states.names().iter();
        let states = active.chain(cx.tracker.terminal_states.names());
        tracker.configure(states.cloned().collect());
        Ok(BuiltTracker::new(Arc::new(tracker), scope))
    }
}

impl Default for MemoryFactory {
    fn default() -> Self {
        Self::new()
    }
}

/// In a workflow file a record that cannot be read is a problem of the file.
fn inline_seeds(raw: &Map<String, Value>) -> Result<Seeds, TrackerError> {
    let prefixed = |problem: String| format!("tracker.provider.{problem}");
    let seeds = Seeds::read(raw.get("states"), raw.get("issues").cloned())
        .map_err(|flaw| refused(prefixed(flaw.message)))?;
    let problems: Vec<String> = seeds.unreadable().map(prefixed).collect();
    if problems.is_empty() { Ok(seeds) } else { Err(refused(problems.join("\n"))) }
}

fn write_back(raw: &Map<String, Value>) -> Result<bool, TrackerError> {
    let Some(value) = given(raw, "write_back") else { return Ok(true) };
    value.as_bool().ok_or_else(|| {
        let message = "tracker.provider.write_back: must be true or false, got";
        refused(format!("{message} {}", shown(value)))
    })
}

/// The board's path: absolute, from the home folder, or from the workflow file's folder.
/// Returns where the board file is that `tracker.provider.board` names, if it names one.
///
/// # Errors
/// When what stands there is not a path, or a variable that it names is not set.
pub fn board_path(cx: &TrackerContext<'_>) -> Result<Option<PathBuf>, TrackerError> {
    given(cx.tracker.provider.raw(), "board").map(|board| resolved(board, cx)).transpose()
}

fn resolved(board: &Value, cx: &TrackerContext<'_>) -> Result<PathBuf, TrackerError> {
    let problem = |message: &str| refused(format!("tracker.provider.board: {message}"));
    let Some(text) = board.as_str().map(str::trim) else {
        return Err(problem(&format!("must be a path, got {}", shown(board))));
    };
    let text = match env_reference(text) {
        Some(name) => cx
            .env
            .var(name)
            .filter(|value| !value.trim().is_empty())
            .ok_or_else(|| problem(&format!("the environment variable {name} is not set")))?,
        None => text.to_owned(),
    };
    if text.is_empty() {
        return Err(problem("must be a path, got an empty text"));
    }
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = cx.env.var("HOME").filter(|home| !home.is_empty());
            let home = home.ok_or_else(|| problem("begins with ~, but HOME is not set"))?;
            Ok(Path::new(&home).join(rest.trim_start_matches('/')))
        }
        // Without a workflow file, the process's own folder is all there is.
        _ => Ok(cx.folder.unwrap_or(Path::new("")).join(text)),
    }
}

/// A key's value; null means absent.
fn given<'a>(raw: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    raw.get(key).filter(|value| !value.is_null())
}

fn refused(message: String) -> TrackerError {
    TrackerError::new(TrackerErrorKind::InvalidConfig, message)
}
