//! The seam between what is run and where.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::io::Errno;

use crate::command::{Folder, HostCommand};
use crate::guarantees::Guarantees;
use crate::mark::Mark;
use crate::process::ProcessId;
use crate::running::{RunningCommand, Survivor, Survivors};

/// A place where commands run.
#[async_trait]
pub trait Host: fmt::Debug + Send + Sync {
    /// What holds here.
    fn guarantees(&self) -> Guarantees;

    /// Starts a command. Returns at once: [`RunningCommand::started`] tells whether it runs.
    ///
    /// The tree is supervised from the moment this returns, whatever happens to the value.
    ///
    /// # Errors
    /// What can be told at once.
    fn start(&self, command: &HostCommand, mark: &Mark) -> Result<RunningCommand, SpawnError>;

    /// Ends what an earlier life of the service left running: what carries the service's tag, and what
    /// was recorded, if the number still means the same process and that carries the tag or the mark.
    /// Never by folder, and never by a record alone, which any process of the same user can write.
    /// To be called before the first start.
    ///
    /// # Errors
    /// Something cannot be ended.
    async fn end_leftovers(&self, earlier: &EarlierLife) -> Result<Vec<Survivor>, SweepError>;
}

/// What is known of an earlier life of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierLife {
    /// The service's name, as in its [`Mark`].
    pub service: String,
    /// The processes of its run records.
    pub records: Vec<ProcessId>,
}

/// Why a command could not be started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The working folder cannot be entered.
    #[error("cannot enter {}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The program cannot be run.
    #[error("cannot run {program}")]
    Program {
        /// Which.
        program: String,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The helper cannot be run.
    #[error("cannot start a helper process")]
    Helper(#[source] Arc<io::Error>),
    /// The helper ended before it had started the command.
    #[error("the helper process was lost")]
    HelperLost,
    /// The scope is closed.
    #[error("the run is over")]
    Closed,
}

impl SpawnError {
    pub(crate) fn folder(folder: &Folder, source: io::Error) -> Self {
        Self::Folder { folder: folder.path(), source: Arc::new(source) }
    }

    pub(crate) fn program(argv: &[OsString], source: io::Error) -> Self {
        let program =
            argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self::Program { program, source: Arc::new(source) }
    }

    /// Whether the machine has no room for another process now: files, processes or memory ran out.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::Folder { source, .. } | Self::Program { source, .. } | Self::Helper(source) => {
                source.raw_os_error().is_some_and(is_exhaustion)
            }
            Self::HelperLost | Self::Closed => false,
        }
    }

    /// Whether there is no such program.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Why leftovers could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Some are still there.
    #[error("processes of an earlier life are left")]
    Survivors(#[source] Survivors),
    /// The process table cannot be read.
    #[error("cannot read the process table")]
    Table(#[source] io::Error),
}

/// Whether an error number means that something of the machine ran out that other processes give back.
#[must_use]
pub fn is_exhaustion(errno: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS, Errno::TOOMANYREFS]
        .map(Errno::raw_os_error)
        .contains(&errno)
}
