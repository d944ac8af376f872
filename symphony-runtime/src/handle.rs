//! What others hold of a running service.

use std::sync::Arc;
use std::time::Duration;

use symphony_api::IssueStatus;
use symphony_core::agent::AgentEvent;
use symphony_core::orchestrator::{Command, Event, IssueName, Notice};
use symphony_core::run::RunId;
use symphony_core::snapshot::{Explanation, Snapshot, Unstarted};
use symphony_core::webhook::Delivery;
use symphony_core::{Identifier, IssueId, Settings};
use tokio::sync::{broadcast, oneshot, watch};

use crate::deliveries::{Deliveries, NotReceived, Received};
use crate::driver::{DriverMessage, Inbox};
use crate::notices::NoticeStream;
use crate::recent::RecentIssues;
use crate::transcript::{TranscriptTail, Transcripts};

/// A running service, from outside: cheap to clone, never waits for the scheduler to read.
#[derive(Clone, Debug)]
pub struct Handle {
    inbox: Inbox,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    notices: broadcast::WeakSender<Arc<Notice>>,
    settings: watch::Receiver<Arc<Settings>>,
    recent: Arc<RecentIssues>,
    transcripts: Transcripts,
    deliveries: Arc<Deliveries>,
}

/// How long a command may take to be kept (contract 16.1).
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// The service has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service is not running any more")]
pub struct ServiceStopped;

/// Why a command was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The service has ended.
    #[error(transparent)]
    Stopped(#[from] ServiceStopped),
    /// The command is in force, but could not be kept in time: a restart may forget it.
    #[error(
        "the command is in force, but could not be written down yet: a restart may forget it; look \
         at the service's storage, and give the command again"
    )]
    Storage,
}

impl Handle {
    pub(crate) const fn new(
        inbox: Inbox,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        notices: broadcast::WeakSender<Arc<Notice>>,
        settings: watch::Receiver<Arc<Settings>>,
        recent: Arc<RecentIssues>,
        transcripts: Transcripts,
        deliveries: Arc<Deliveries>,
    ) -> Self {
        Self { inbox, snapshots, notices, settings, recent, transcripts, deliveries }
    }

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
    /// When the service has ended, or cannot keep the command for its next start; so with every
    /// command that follows.
    pub async fn pause(&self) -> Result<(), CommandError> {
        self.command(Command::Pause).await
    }

    /// Starts again.
    ///
    /// # Errors
    /// As of [`pause`](Self::pause).
    pub async fn resume(&self) -> Result<(), CommandError> {
        self.command(Command::Resume).await
    }

    /// Ends an issue's run and keeps it blocked until [`retry`](Self::retry).
    ///
    /// # Errors
    /// As of [`pause`](Self::pause).
    pub async fn stop(&self, issue: IssueId) -> Result<(), CommandError> {
        self.command(Command::Stop(issue)).await
    }

    /// Tries a waiting or blocked issue now.
    ///
    /// # Errors
    /// As of [`pause`](Self::pause).
    pub async fn retry(&self, issue: IssueId) -> Result<(), CommandError> {
        self.command(Command::Retry(issue)).await
    }

    /// Lifts every hold.
    ///
    /// # Errors
    /// As of [`pause`](Self::pause).
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
    /// callers that have asked by then.
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

    /// Gives a command, and waits until it is kept.
    async fn command(&self, command: Command) -> Result<(), CommandError> {
        let (reply, kept) = oneshot::channel();
        self.post(DriverMessage::Command(command, reply))?;
        match tokio::time::timeout(COMMAND_TIMEOUT, kept).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CommandError::Stopped(ServiceStopped)),
            Err(_) => Err(CommandError::Storage),
        }
    }

    fn post(&self, message: DriverMessage) -> Result<(), ServiceStopped> {
        if self.inbox.post(message) { Ok(()) } else { Err(ServiceStopped) }
    }
}
