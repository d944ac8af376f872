//! What the driver's tasks share.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use symphony_core::Failure;
use symphony_core::hooks::WorkspaceHooks;
use tokio::sync::Notify;

use crate::disk::Disk;
use crate::state::Saver;

/// An embedder's own job.
pub(crate) type JobTask =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> + Send + Sync>;

/// The parts of a service that outlive every reload.
pub(crate) struct Parts {
    pub(crate) disk: Arc<Disk>,
    pub(crate) hooks: Arc<dyn WorkspaceHooks>,
    pub(crate) recheck: Arc<Notify>,
    pub(crate) saver: Saver,
    pub(crate) jobs: BTreeMap<Arc<str>, JobTask>,
}
