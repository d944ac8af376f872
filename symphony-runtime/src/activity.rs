//! The activity file: touching it says that people are at work (contract 12.2).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use symphony_core::Settings;
use symphony_core::orchestrator::Event;
use tokio::sync::watch;

use crate::driver::Inbox;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Tells when the file was touched.
pub(crate) async fn watch(mut settings: watch::Receiver<Arc<Settings>>, inbox: Inbox) {
    let mut seen: Option<(PathBuf, Option<SystemTime>)> = None;
    loop {
        let file = settings.borrow_and_update().polling.activity_file.clone();
        let changed = match file {
            None => {
                seen = None;
                settings.changed().await
            }
            Some(file) => {
                let touched = modified_at(file.clone()).await;
                // The first look at a file only tells what to compare with.
                let is_new =
                    seen.as_ref().is_some_and(|(path, at)| *path == file && *at != touched);
                if is_new && touched.is_some() {
                    inbox.send(Event::Activity);
                }
                seen = Some((file, touched));
                tokio::time::timeout(POLL_INTERVAL, settings.changed()).await.unwrap_or(Ok(()))
            }
        };
        if changed.is_err() {
            return;
        }
    }
}

async fn modified_at(file: PathBuf) -> Option<SystemTime> {
    let look = move || std::fs::metadata(file).and_then(|file| file.modified()).ok();
    tokio::task::spawn_blocking(look).await.ok().flatten()
}
