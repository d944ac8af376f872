//! The root that a service began with: it names the service's processes and keeps their records, for
//! the next life to end them (contract 14.3).

use std::sync::Arc;

use symphony_core::run::RunId;
use symphony_host::{EarlierLife, Host, ProcessId, SweepError};
use tracing::warn;

use crate::disk::{DiskError, ID_FILE, OWN_FOLDER, Root, blocking};
use crate::plain::safe;
use crate::state_file::STATE_FILE;

/// The root that this life began with, whatever root is in force by now.
#[derive(Clone, Debug)]
pub(crate) struct HomeRoot {
    root: Arc<Root>,
    service: Arc<str>,
}

/// Why what an earlier life left could not be ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeftoverError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Sweep(SweepError),
}

impl HomeRoot {
    /// Makes a root the home of this life, once what an earlier one left is ended.
    pub(crate) async fn begin(host: &dyn Host, root: &Arc<Root>) -> Result<Self, LeftoverError> {
        end_leftovers(host, root).await?;
        Ok(Self { root: Arc::clone(root), service: root.service().into() })
    }

    /// Takes another root besides: what an earlier life left there is ended, and a service that starts
    /// there next finds the way to this one.
    pub(crate) async fn adopt(
        &self,
        host: &dyn Host,
        root: &Arc<Root>,
    ) -> Result<(), LeftoverError> {
        end_leftovers(host, root).await?;
        let (root, home) = (Arc::clone(root), self.root.path().to_owned());
        Ok(blocking(move || root.write_home(&home)).await?)
    }

    /// What tells this service's processes from another's, in every life of it.
    pub(crate) fn service(&self) -> &Arc<str> {
        &self.service
    }

    /// Notes the processes of a run.
    pub(crate) fn write_run(&self, run: RunId, of: &[ProcessId]) -> Result<(), DiskError> {
        self.root.write_run(run, of)
    }

    /// A run is over, and nothing of it is left.
    pub(crate) fn forget_run(&self, run: RunId) -> Result<(), DiskError> {
        self.root.forget_run(run)
    }
}

/// Ends what the earlier life at a root left running, also if that life began elsewhere.
async fn end_leftovers(host: &dyn Host, root: &Arc<Root>) -> Result<(), LeftoverError> {
    sweep(host, root).await?;
    let elsewhere = blocking({
        let root = Arc::clone(root);
        move || root.read_home()
    });
    let Some(home) = elsewhere.await? else { return Ok(()) };
    // The file is untrusted: a folder that no service began in is neither opened nor changed.
    let was_home = |home: &std::path::Path| {
        let own = [ID_FILE, STATE_FILE].map(|name| home.join(OWN_FOLDER).join(name));
        own.iter().any(|file| std::fs::symlink_metadata(file).is_ok_and(|file| file.is_file()))
    };
    match blocking(move || was_home(&home).then(|| Root::open(home)).transpose()).await {
        Ok(None) => warn!("no service began where this root says that the last one did"),
        Ok(Some(home)) => sweep(host, &Arc::new(home)).await?,
        // Its holder, perhaps this service, has ended what was left there.
        Err(DiskError::Locked { .. }) => {}
        Err(error) => warn!(%error, "what an earlier life left elsewhere cannot be looked for"),
    }
    let root = Arc::clone(root);
    Ok(blocking(move || root.forget_home()).await?)
}

/// Ends what carries the mark of a service that began at a root: by its name, and once by the one
/// that a version before this one gave it.
async fn sweep(host: &dyn Host, root: &Arc<Root>) -> Result<(), LeftoverError> {
    let records = blocking({
        let root = Arc::clone(root);
        move || root.recorded_processes()
    });
    let records = records.await?;
    for service in [root.service()].into_iter().chain(root.former_service()) {
        let earlier = EarlierLife { service: service.to_owned(), records: records.clone() };
        match host.end_leftovers(&earlier).await {
            Ok(ended) => {
                for process in ended {
                    let (pid, name) = (process.pid, safe(process.name));
                    warn!(pid, name, "ended what an earlier life had left");
                }
            }
            Err(error @ SweepError::Survivors(_)) => return Err(LeftoverError::Sweep(error)),
            Err(error) => {
                warn!(%error, "what an earlier life may have left could not be looked for");
            }
        }
    }
    let root = Arc::clone(root);
    // From now on the older name means nothing: it is forgotten when the new one is written.
    Ok(blocking(move || root.forget_runs().and_then(|()| root.keep_service())).await?)
}
