//! What others hold of a running service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use symphony_api::IssueStatus;
use symphony_core::agent::AgentEvent;
use symphony_core::orchestrator::{Command, Event, IssueName, Notice};
use symphony_core::problem::Problem;
use symphony_core::run::RunId;
use symphony_core::snapshot::{Explanation, Snapshot, Unstarted};
use symphony_core::webhook::Delivery;
use symphony_core::{Identifier, IssueId, Settings};
use tokio::sync::{broadcast, oneshot, watch};

use crate::changes::{Change, ChangeError, ChangeSender};
use crate::deliveries::{Deliveries, NotReceived, Received};
use crate::driver::{DriverMessage, Inbox};
use crate::notices::NoticeStream;
use crate::plain::plain;
use crate::recent::RecentIssues;
use crate::transcript::{TranscriptTail, Transcripts};

/// A running service, from outside: cheap to clone, never waits for the scheduler to read.
///
/// What watches it returns at once. A command returns when the scheduler has taken it; the next
/// snapshot shows what came of it. Before [`Service::run`](crate::Service::run) begins, commands are
/// kept, and are what it begins with.
///
/// ```no_run
/// # async fn steer(handle: symphony_runtime::Handle) -> Result<(), Box<dyn std::error::Error>> {
/// use symphony_runtime::CommandError;
///
/// handle.pause().await?;
/// match handle.stop("MT-1").await {
///     Err(CommandError::UnknownIssue(name)) => println!("there is no {name}"),
///     stopped => stopped?,
/// }
/// let mut settings = handle.settings().as_ref().clone();
/// settings.agent.max_concurrent_agents = 3;
/// for warning in handle.set_settings(settings).await?.iter() {
///     println!("{warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) inbox: Inbox,
    pub(crate) has_begun: Arc<AtomicBool>,
    pub(crate) snapshots: watch::Receiver<Arc<Snapshot>>,
    pub(crate) notices: broadcast::WeakSender<Arc<Notice>>,
    pub(crate) settings: watch::Receiver<Arc<Settings>>,
    pub(crate) warnings: watch::Receiver<Arc<[Problem]>>,
    pub(crate) changes: ChangeSender,
    pub(crate) recent: Arc<RecentIssues>,
    pub(crate) transcripts: Transcripts,
    pub(crate) deliveries: Arc<Deliveries>,
}

/// The service has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service is not running any more")]
pub struct ServiceStopped;

/// Why nothing came of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The service has ended.
    #[error(transparent)]
    Stopped(#[from] ServiceStopped),
    /// No issue of this name is claimed, a candidate, or was claimed a while ago.
    #[error("no issue {0} is known: it is neither a candidate nor claimed")]
    UnknownIssue(String),
    /// There is nothing to stop, or to try again.
    #[error("nothing was done: {why}")]
    Ignored {
        /// Why not.
        why: String,
    },
}

/// How much of a name an error repeats.
const MAX_NAME_BYTES: usize = 100;

/// Names an issue: by its human key, which a text is taken for, or by the tracker's id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IssueRef {
    /// The human key, such as `MT-1`.
    Identifier(Identifier),
    /// The tracker's id.
    Id(IssueId),
}

impl From<&str> for IssueRef {
    fn from(identifier: &str) -> Self {
        Self::Identifier(identifier.into())
    }
}

impl From<Identifier> for IssueRef {
    fn from(identifier: Identifier) -> Self {
        Self::Identifier(identifier)
    }
}

impl From<&Identifier> for IssueRef {
    fn from(identifier: &Identifier) -> Self {
        Self::Identifier(identifier.clone())
    }
}

impl From<IssueId> for IssueRef {
    fn from(id: IssueId) -> Self {
        Self::Id(id)
    }
}

impl From<&IssueId> for IssueRef {
    fn from(id: &IssueId) -> Self {
        Self::Id(id.clone())
    }
}

impl Handle {
    /// The last published snapshot.
    ///
    /// # Errors
    /// When the service has ended.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, ServiceStopped> {
        self.snapshots.has_changed().map_err(|_| ServiceStopped)?;
        Ok(Arc::clone(&self.snapshots.borrow()))
    }

    /// The last published snapshot, also after the service has ended.
    #[must_use]
    pub fn last_snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    /// Snapshots as they are published.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// The settings in force, also after the service has ended.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// The settings in force, and each that follows them.
    #[must_use]
    pub fn settings_changes(&self) -> watch::Receiver<Arc<Settings>> {
        self.settings.clone()
    }

    /// What is doubtful in the version of the workflow that is in force. When it changes, so do
    /// [`settings_changes`](Self::settings_changes).
    #[must_use]
    pub fn warnings(&self) -> Arc<[Problem]> {
        Arc::clone(&self.warnings.borrow())
    }

    /// Changes the settings of a service whose settings are made in code. They are in force when
    /// this returns, as those of an edited file would be: runs that are under way keep their agent,
    /// prompt, hooks and limits of turns; all else is live (contract 2.7). Returns the warnings in
    /// force, such as a setting that takes effect after a restart.
    ///
    /// # Errors
    /// When they cannot be used: everything that is wrong with them is told at once, and what was
    /// in force stays so. When the settings are those of a file. When the service does not run.
    pub async fn set_settings(&self, settings: Settings) -> Result<Arc<[Problem]>, ChangeError> {
        self.change(Change::Settings(Box::new(settings))).await
    }

    /// Changes the prompt template of a service whose settings are made in code, for the runs that
    /// start from now on. Returns the warnings in force.
    ///
    /// # Errors
    /// As of [`set_settings`](Self::set_settings).
    pub async fn set_prompt(
        &self,
        template: impl Into<String>,
    ) -> Result<Arc<[Problem]>, ChangeError> {
        self.change(Change::Template(template.into())).await
    }

    /// What happens, as it happens, until the service ends.
    ///
    /// # Errors
    /// When the service has ended.
    pub fn subscribe(&self) -> Result<NoticeStream, ServiceStopped> {
        let notices = self.notices.upgrade().ok_or(ServiceStopped)?;
        Ok(NoticeStream::new(notices.subscribe()))
    }

    /// The last things an agent did in a run, oldest first; also for a while after its end.
    #[must_use]
    pub fn events(&self, run: RunId) -> Vec<Arc<AgentEvent>> {
        self.recent.events_of(run)
    }

    /// Polls now; several at once are one.
    ///
    /// # Errors
    /// When the service has ended.
    pub fn poll_now(&self) -> Result<(), ServiceStopped> {
        self.post(DriverMessage::Event(Event::Command(Command::PollNow)))
    }

    /// Starts nothing until [`resume`](Self::resume); all else goes on.
    ///
    /// # Errors
    /// When the service has ended; so with every command.
    pub async fn pause(&self) -> Result<(), CommandError> {
        self.command(Command::Pause).await
    }

    /// Starts again.
    ///
    /// # Errors
    /// When the service has ended.
    pub async fn resume(&self) -> Result<(), CommandError> {
        self.command(Command::Resume).await
    }

    /// Ends an issue's run and keeps it blocked until [`retry`](Self::retry).
    ///
    /// # Errors
    /// When the issue is unknown, or nothing of it runs or waits.
    pub async fn stop(&self, issue: impl Into<IssueRef> + Send) -> Result<(), CommandError> {
        self.command_for(issue.into(), Command::Stop).await
    }

    /// Tries a waiting or blocked issue now.
    ///
    /// # Errors
    /// When the issue is unknown, or neither waits nor is blocked.
    pub async fn retry(&self, issue: impl Into<IssueRef> + Send) -> Result<(), CommandError> {
        self.command_for(issue.into(), Command::Retry).await
    }

    /// Lifts every hold.
    ///
    /// # Errors
    /// When the service has ended.
    pub async fn clear_holds(&self) -> Result<(), CommandError> {
        self.command(Command::ClearHolds).await
    }

    /// Something outside shows that people are at work (contract 12.2).
    ///
    /// # Errors
    /// When the service has ended.
    pub fn activity(&self) -> Result<(), ServiceStopped> {
        self.post(DriverMessage::Event(Event::Activity))
    }

    /// Takes what says that it comes from a tracker of this kind. If it does, and has not been here
    /// before, the issues that it is about are read (contract 12.8).
    ///
    /// # Errors
    /// When there is no receiver for such deliveries, it is not the tracker's, or the service has ended.
    pub fn deliver(&self, kind: &str, delivery: &Delivery<'_>) -> Result<Received, NotReceived> {
        let issues = self.deliveries.check(kind, delivery)?;
        let is_duplicate = issues.is_none();
        if let Some(issues) = issues {
            self.post(DriverMessage::Event(Event::Delivered { issues }))?;
        }
        Ok(Received { is_duplicate })
    }

    /// How many deliveries were refused since the service began.
    #[must_use]
    pub fn refused_deliveries(&self) -> u64 {
        self.deliveries.refused()
    }

    /// Stops everything and ends the service. Returns at once; `Service::run` returns when all is
    /// gone.
    ///
    /// # Errors
    /// When the service has ended.
    pub fn shut_down(&self) -> Result<(), ServiceStopped> {
        self.post(DriverMessage::Event(Event::Command(Command::ShutDown)))
    }

    /// Explains why each candidate is not running. It is computed ten times a second at most, for all
    /// callers that have asked by then, once the service runs.
    ///
    /// # Errors
    /// When the service has ended.
    pub async fn explain(&self) -> Result<Arc<Explanation>, ServiceStopped> {
        let (reply, answer) = oneshot::channel();
        self.post(DriverMessage::Explain(reply))?;
        answer.await.map_err(|_| ServiceStopped)
    }

    /// The id of an issue by its human key: one that is claimed, a candidate, or one that was
    /// claimed a while ago.
    #[must_use]
    pub fn find(&self, identifier: &Identifier) -> Option<IssueId> {
        let snapshot = self.last_snapshot();
        let claimed = snapshot.claimed().map(|issue| (&issue.identifier, &issue.id));
        let unstarted = snapshot.candidates.first.iter().map(|row| (&row.identifier, &row.id));
        let known = claimed.chain(unstarted).find(|(name, _)| *name == identifier);
        known.map(|(_, id)| id.clone()).or_else(|| self.recent.find(identifier))
    }

    /// Everything that is known of an issue.
    #[must_use]
    pub fn issue(&self, identifier: &Identifier) -> Option<IssueStatus> {
        let id = self.find(identifier)?;
        Some(self.issue_status(&IssueName { id, identifier: identifier.clone() }))
    }

    /// Everything that is known of a candidate, also of one that a snapshot does not name.
    #[must_use]
    pub fn candidate(&self, row: &Unstarted) -> IssueStatus {
        let name = IssueName { id: row.id.clone(), identifier: row.identifier.clone() };
        self.issue_status(&name).or_candidate(row, self.last_snapshot().now)
    }

    /// The end of what was said with the agent in a run of an issue, where it is kept.
    pub async fn transcript(&self, identifier: &Identifier, run: RunId) -> Option<TranscriptTail> {
        let (transcripts, identifier) = (self.transcripts.clone(), identifier.clone());
        let read = tokio::task::spawn_blocking(move || transcripts.tail(&identifier, run));
        read.await.ok().flatten()
    }

    fn issue_status(&self, name: &IssueName) -> IssueStatus {
        let (snapshot, settings) = (self.last_snapshot(), self.settings());
        let past = self.recent.history(&name.id);
        let mut status = IssueStatus::new(&snapshot, name, past, &settings.workspace.root);
        status.logs = self.transcripts.logs_of(&name.identifier);
        status
    }

    /// Gives a command, and waits until the scheduler has taken it.
    async fn command(&self, command: Command) -> Result<(), CommandError> {
        let (reply, answer) = oneshot::channel();
        self.post(DriverMessage::Command(command, reply))?;
        if !self.has_begun() {
            return Ok(());
        }
        match answer.await.map_err(|_| ServiceStopped)? {
            None => Ok(()),
            Some(why) => Err(CommandError::Ignored { why }),
        }
    }

    /// Gives a command for an issue. One that is ignored may be so because there is no such issue.
    async fn command_for(
        &self,
        issue: IssueRef,
        command: impl FnOnce(IssueId) -> Command + Send,
    ) -> Result<(), CommandError> {
        let unknown = |name: &str| CommandError::UnknownIssue(plain(name, MAX_NAME_BYTES));
        let id = match issue {
            IssueRef::Id(id) => id,
            IssueRef::Identifier(name) => match self.find(&name) {
                Some(id) => id,
                None => {
                    let is_it = |row: &Unstarted| row.identifier == name;
                    self.find_candidate(is_it).await?.ok_or_else(|| unknown(name.as_str()))?
                }
            },
        };
        match self.command(command(id.clone())).await {
            Err(CommandError::Ignored { .. }) if !self.is_known(&id).await? => {
                Err(unknown(id.as_str()))
            }
            done => done,
        }
    }

    async fn is_known(&self, id: &IssueId) -> Result<bool, ServiceStopped> {
        let is_claimed = self.last_snapshot().claimed().any(|issue| issue.id == *id);
        let is_known = is_claimed || self.recent.has_issue(id);
        Ok(is_known || self.find_candidate(|row| row.id == *id).await?.is_some())
    }

    /// Looks for a candidate anywhere in the list.
    async fn find_candidate(
        &self,
        is_it: impl Fn(&Unstarted) -> bool + Send,
    ) -> Result<Option<IssueId>, ServiceStopped> {
        if !self.has_begun() {
            return Ok(None);
        }
        let explanation = self.explain().await?;
        Ok(explanation.unstarted.iter().find(|row| is_it(row)).map(|row| row.id.clone()))
    }

    async fn change(&self, change: Change) -> Result<Arc<[Problem]>, ChangeError> {
        if !self.has_begun() {
            return Err(ChangeError::NotRunning);
        }
        self.changes.change(change).await
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    fn post(&self, message: DriverMessage) -> Result<(), ServiceStopped> {
        if self.inbox.post(message) { Ok(()) } else { Err(ServiceStopped) }
    }
}
