//! A tracker whose board is a text, one issue a line: `id | identifier | state | title | labels`.

use std::sync::{Arc, Mutex, PoisonError};

use symphony_core::async_trait;
use symphony_core::settings::env_reference;
use symphony_core::tracker::{
    BuiltTracker, IssuesById, ReadIssues, TrackerContext, TrackerError, TrackerErrorKind,
    TrackerFactory, TrackerProfile, TwoReads, Unreadable,
};
use symphony_core::{Issue, IssueId, Label, Scope, StateSet};

use crate::pause;

/// The text, shared with its writer.
#[derive(Clone, Debug, Default)]
pub struct Paper(Arc<Mutex<Sheet>>);

#[derive(Debug, Default)]
struct Sheet {
    text: Option<String>,
    reads: u64,
}

impl Paper {
    /// A paper with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let paper = Self::default();
        paper.write(Some(text.to_owned()));
        paper
    }

    /// Replaces the text; `None` loses the paper.
    pub fn write(&self, text: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).text = text;
    }

    /// The text, without counting as a read.
    #[must_use]
    pub fn text(&self) -> String {
        let sheet = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sheet.text.clone().unwrap_or_default()
    }

    /// How often the tracker read it.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reads
    }

    async fn read(&self) -> Result<String, TrackerError> {
        pause().await;
        let mut sheet = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sheet.reads += 1;
        let lost = || TrackerError::new(TrackerErrorKind::Request, "the paper is lost");
        sheet.text.clone().ok_or_else(lost)
    }
}

/// Reads a paper.
#[derive(Debug)]
pub struct PaperTracker {
    paper: Paper,
}

impl PaperTracker {
    /// A tracker of this paper.
    #[must_use]
    pub fn new(paper: Paper) -> Self {
        Self { paper }
    }
}

/// The issue of a line, or its id and why not.
fn issue(line: &str) -> Result<Issue, Unreadable> {
    let mut fields = line.split('|').map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (id, identifier, state, title) = (next(), next(), next(), next());
    let labels = next();
    let mut issue = Issue::new(id, identifier, title, state)
        .map_err(|error| Unreadable { id: id.into(), message: error.to_string() })?;
    issue.labels = Label::list(labels.split(','));
    Ok(issue)
}

#[async_trait]
impl ReadIssues for PaperTracker {
    async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        let text = self.paper.read().await?;
        let issues = text.lines().filter_map(|line| issue(line).ok());
        Ok(issues.filter(|issue| states.contains(&issue.state)).collect())
    }

    async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        let mut answer = IssuesById::default();
        for line in self.paper.read().await?.lines() {
            match issue(line) {
                Ok(issue) if ids.contains(&issue.id) => answer.found.push(issue),
                Err(unreadable) if ids.contains(&unreadable.id) => {
                    answer.unreadable.push(unreadable);
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(answer)
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        let text = self.paper.read().await?;
        let mut issues = text.lines().filter_map(|line| issue(line).ok());
        let id = issues.find(|issue| issue.identifier.as_str() == name).map(|issue| issue.id);
        self.by_ids(&[id.unwrap_or_else(|| name.into())]).await?.into_one()
    }
}

/// Makes paper trackers from `tracker.provider.board`, a text or `$NAME`.
#[derive(Debug)]
pub struct PaperFactory {
    profile: TrackerProfile,
}

impl Default for PaperFactory {
    fn default() -> Self {
        let (active, terminal) = (StateSet::new(["Todo", "Doing"]), StateSet::new(["Done"]));
        let mut profile = TrackerProfile::new(active, terminal);
        profile.provider_keys = vec!["board"];
        Self { profile }
    }
}

impl TrackerFactory for PaperFactory {
    fn kind(&self) -> &str {
        "paper"
    }

    fn profile(&self) -> &TrackerProfile {
        &self.profile
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let config = |message: &str| TrackerError::new(TrackerErrorKind::InvalidConfig, message);
        let board = cx.tracker.provider.raw().get("board");
        let board = board.and_then(|value| value.as_str());
        let board = board.ok_or_else(|| config("tracker.provider.board: must be a text"))?;
        let text = match env_reference(board) {
            None => board.to_owned(),
            Some(name) => cx
                .env
                .var(name)
                .ok_or_else(|| config(&format!("tracker.provider.board: {name} is not set")))?,
        };
        let tracker = TwoReads(PaperTracker::new(Paper::new(&text)));
        Ok(BuiltTracker::new(Arc::new(tracker), Scope::from("paper")))
    }
}
