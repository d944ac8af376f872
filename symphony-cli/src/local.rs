//! The service in this process, for its dashboard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use symphony_api::{IssueStatus, Status};
use symphony_core::snapshot::Snapshot;
use symphony_core::time::Wall;
use symphony_core::{Identifier, IssueId};
use symphony_runtime::{CommandError, Handle, ServiceStopped};
use symphony_tui::{Link, SourceCommand, SourceRefusal, SourceView, StatusSource};
use tokio::sync::{Mutex as AsyncMutex, watch};

/// What time it is.
pub(crate) fn wall_now() -> Wall {
    SystemTime::now().into()
}

/// A service, by its handle.
#[derive(Debug)]
pub(crate) struct Local {
    handle: Handle,
    changes: AsyncMutex<watch::Receiver<Arc<Snapshot>>>,
    has_told_end: AtomicBool,
    /// The last snapshot that was looked at, and what people see of it.
    last: Mutex<Option<(Arc<Snapshot>, Arc<Status>)>>,
}

impl Local {
    pub(crate) fn new(handle: Handle) -> Self {
        let changes = AsyncMutex::new(handle.snapshots());
        let (has_told_end, last) = (AtomicBool::new(false), Mutex::new(None));
        Self { handle, changes, has_told_end, last }
    }

    fn status(&self, snapshot: &Arc<Snapshot>) -> Arc<Status> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, status)) if Arc::ptr_eq(known, snapshot) => Arc::clone(status),
            _ => {
                let status = Arc::new(Status::from(&**snapshot));
                *last = Some((Arc::clone(snapshot), Arc::clone(&status)));
                status
            }
        }
    }

    fn find(&self, identifier: &str) -> Result<IssueId, SourceRefusal> {
        let found = self.handle.find(&Identifier::from(identifier));
        found.ok_or_else(|| unknown(identifier))
    }
}

fn unknown(identifier: &str) -> SourceRefusal {
    SourceRefusal::new(&format!("no issue {identifier} is known"))
}

fn ended(why: ServiceStopped) -> SourceRefusal {
    SourceRefusal::new(&why.to_string())
}

#[async_trait]
impl StatusSource for Local {
    fn latest(&self) -> SourceView {
        let (snapshot, link) = match self.handle.snapshot() {
            Ok(snapshot) => (snapshot, Link::Live),
            Err(ServiceStopped) => (self.handle.last_snapshot(), Link::Ended),
        };
        SourceView { status: Some(self.status(&snapshot)), link, clock: wall_now() }
    }

    async fn changed(&self) {
        let ended = self.changes.lock().await.changed().await.is_err();
        // Its end is told once, and then there is nothing to tell.
        if ended && self.has_told_end.swap(true, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn issue(&self, identifier: &str) -> Result<IssueStatus, SourceRefusal> {
        let name = Identifier::from(identifier);
        if let Some(status) = self.handle.issue(&name) {
            return Ok(status);
        }
        let explanation = self.handle.explain().await.map_err(ended)?;
        let row = explanation.unstarted.iter().find(|row| row.identifier == name);
        row.map(|row| self.handle.candidate(row)).ok_or_else(|| unknown(identifier))
    }

    async fn command(&self, command: &SourceCommand) -> Result<(), SourceRefusal> {
        let done = match command {
            SourceCommand::PollNow => self.handle.poll_now().map_err(CommandError::from),
            SourceCommand::Pause => self.handle.pause().await,
            SourceCommand::Resume => self.handle.resume().await,
            SourceCommand::Stop(identifier) => self.handle.stop(self.find(identifier)?).await,
            SourceCommand::Retry(identifier) => self.handle.retry(self.find(identifier)?).await,
        };
        done.map_err(|error| SourceRefusal::new(&error.to_string()))
    }
}
