//! What is said with each agent, kept in a file for each run: bounded, without secrets, by a thread
//! that no session waits for (contract 13.1).

mod keeper;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use symphony_api::TranscriptFiles;
use symphony_core::redact::Redactor;
use symphony_core::run::RunId;
use symphony_core::time::Wall;
use symphony_core::transcript::{Direction, Transcript};
use symphony_core::{Identifier, WorkspaceKey};
use tokio::sync::oneshot;
use tracing::warn;

use crate::clock::wall_now;
use keeper::{Index, Keeper, KeeperMessage};

/// So much of a line is kept.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// So much more of it is looked through, so that no secret is cut in two before it is found.
const REDACTION_MARGIN_BYTES: usize = 16 * 1024;

/// How much of one run may wait to be written, and how much in all.
const MAX_QUEUED_BYTES_PER_RUN: usize = 1 << 20;
const MAX_QUEUED_BYTES: usize = 32 << 20;

/// What a waiting line costs besides its text.
const LINE_OVERHEAD_BYTES: usize = 128;

/// How long the last lines may take when the service ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How much of a transcript is read for people.
const MAX_TAIL_BYTES: u64 = 256 * 1024;

/// The end of what was said in a run: lines of JSON, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranscriptTail {
    /// The lines.
    pub lines: Vec<String>,
    /// Whether there are more before them.
    pub is_cut: bool,
    /// The whole file.
    pub path: PathBuf,
}

/// Keeps what is said, or nothing: cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcripts(Option<Arc<KeeperHandle>>);

#[derive(Debug)]
struct KeeperHandle {
    keeper: Sender<KeeperMessage>,
    index: Arc<Mutex<Index>>,
    waiting: Arc<AtomicUsize>,
}

impl Transcripts {
    /// Keeps them in this folder.
    pub(crate) fn start(folder: PathBuf) -> Self {
        let (keeper, messages) = mpsc::channel();
        let index = Arc::default();
        let thread = Keeper::new(folder, Arc::clone(&index));
        let thread = std::thread::Builder::new()
            .name("transcripts".to_owned())
            .spawn(move || thread.run(&messages));
        if let Err(error) = thread {
            warn!(%error, "what is said with agents is not kept");
            return Self::default();
        }
        Self(Some(Arc::new(KeeperHandle { keeper, index, waiting: Arc::default() })))
    }

    /// Begins the transcript of a run, of which no more than this is kept.
    pub(crate) fn begin(
        &self,
        run: RunId,
        identifier: &Identifier,
        max_bytes: u64,
        secrets: &Arc<Redactor>,
    ) -> Transcript {
        let key = WorkspaceKey::derive(identifier.as_str());
        let (Some(kept), Ok(key)) = (&self.0, key) else { return Transcript::none() };
        let gauge = Arc::new(Gauge {
            waiting: AtomicUsize::new(0),
            all_waiting: Arc::clone(&kept.waiting),
            lost: AtomicU64::new(0),
        });
        let (begun, secrets) = (Arc::clone(&gauge), Arc::clone(secrets));
        // The receiver is gone if the thread has panicked. Then nothing is kept, and all goes on.
        let _ =
            kept.keeper.send(KeeperMessage::Begin { run, key, max_bytes, secrets, gauge: begun });
        let session = Session { run, gauge, keeper: kept.keeper.clone() };
        Transcript::new(move |direction, line| session.line(direction, line))
    }

    /// The files with what was said about an issue, newest first.
    pub(crate) fn logs_of(&self, identifier: &Identifier) -> TranscriptFiles {
        let key = WorkspaceKey::derive(identifier.as_str());
        let (Some(kept), Ok(key)) = (&self.0, key) else { return TranscriptFiles::default() };
        let index = lock(&kept.index);
        let files = index.runs_of(&key).into_iter().rev();
        files.map(|(run, path)| (run, path.display().to_string())).collect()
    }

    /// The end of what was said in a run of an issue, by lines; `None` where nothing is kept. It
    /// reads a file, and may block.
    pub(crate) fn tail(&self, identifier: &Identifier, run: RunId) -> Option<TranscriptTail> {
        let key = WorkspaceKey::derive(identifier.as_str()).ok()?;
        let path = lock(&self.0.as_ref()?.index).file_of(&key, run)?;
        let (bytes, is_cut) = keeper::tail(&path, MAX_TAIL_BYTES).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line of a part has no beginning.
        let lines = text.lines().skip(usize::from(is_cut)).map(str::to_owned).collect();
        Some(TranscriptTail { lines, is_cut, path })
    }

    /// Waits until all is written, but not for ever.
    pub(crate) async fn finish(&self) {
        let Some(kept) = &self.0 else { return };
        let (written, done) = oneshot::channel();
        let _ = kept.keeper.send(KeeperMessage::Flush(written));
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, done).await;
    }
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much of a run waits to be written, and what was too much.
#[derive(Debug)]
struct Gauge {
    waiting: AtomicUsize,
    all_waiting: Arc<AtomicUsize>,
    lost: AtomicU64,
}

impl Gauge {
    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.load(Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES_PER_RUN
            && self.all_waiting.load(Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES
    }

    fn fill(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.all_waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    fn empty(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.all_waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn count_lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }
}

/// The session's end of a transcript. Dropped, it ends it.
struct Session {
    run: RunId,
    gauge: Arc<Gauge>,
    keeper: Sender<KeeperMessage>,
}

impl Session {
    fn line(&self, direction: Direction, line: &[u8]) {
        let text = &line[..line.len().min(MAX_LINE_BYTES + REDACTION_MARGIN_BYTES)];
        if !self.gauge.has_room(text.len() + LINE_OVERHEAD_BYTES) {
            self.gauge.count_lost(1);
            return;
        }
        self.gauge.fill(text.len() + LINE_OVERHEAD_BYTES);
        let (text, length) = (text.to_owned(), line.len());
        let lost = self.gauge.lost.swap(0, Ordering::Relaxed);
        let said = SaidLine { at: wall_now(), direction, text, length, lost };
        let _ = self.keeper.send(KeeperMessage::Line { run: self.run, said });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.keeper.send(KeeperMessage::End { run: self.run });
    }
}

/// One line, as it was said.
#[derive(Debug)]
struct SaidLine {
    at: Wall,
    direction: Direction,
    /// Its beginning, where it is long.
    text: Vec<u8>,
    length: usize,
    /// How many were lost before it.
    lost: u64,
}
