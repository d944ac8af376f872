//! The thread that writes transcripts, and what it keeps of them.
//!
//! A run has two files, each at most half as long as allowed: the one that is written, and the one
//! before it. Of all runs the last are kept.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use serde::de::IgnoredAny;
use serde_json::Value;
use symphony_core::redact::Redactor;
use symphony_core::run::RunId;
use symphony_core::time::Wall;
use symphony_core::{WorkspaceKey, plain_json};
use tokio::sync::oneshot;
use tracing::warn;

use super::{Gauge, LINE_OVERHEAD_BYTES, MAX_LINE_BYTES, SaidLine, lock};
use crate::clock::wall_now;

/// The files of so many runs are kept.
const MAX_RUNS: usize = 200;

/// Those of runs that have ended may have so many times the bytes that one run may have.
const MAX_TOTAL_FACTOR: u64 = 20;

/// Lines are written together once there are so many bytes of them.
const WRITE_BATCH_BYTES: usize = 64 * 1024;

const EXTENSION: &str = ".jsonl";
const EARLIER_EXTENSION: &str = ".earlier.jsonl";

/// What reaches the thread.
#[derive(Debug)]
pub(super) enum KeeperMessage {
    Begin {
        run: RunId,
        key: WorkspaceKey,
        max_bytes: u64,
        secrets: Arc<Redactor>,
        gauge: Arc<Gauge>,
    },
    Line {
        run: RunId,
        said: SaidLine,
    },
    End {
        run: RunId,
    },
    Flush(oneshot::Sender<()>),
}

/// The files there are.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<RunId, KeptFile>);

#[derive(Debug)]
struct KeptFile {
    key: WorkspaceKey,
    path: PathBuf,
    /// Of both files; unknown while they are written.
    bytes: Option<u64>,
}

impl Index {
    /// The runs of an issue, oldest first.
    pub(super) fn runs_of(&self, key: &WorkspaceKey) -> Vec<(RunId, PathBuf)> {
        let runs = self.0.iter().filter(|(_, entry)| entry.key == *key);
        runs.map(|(run, entry)| (*run, entry.path.clone())).collect()
    }

    /// The file of this run, if it is one of this issue.
    pub(super) fn file_of(&self, key: &WorkspaceKey, run: RunId) -> Option<PathBuf> {
        self.0.get(&run).filter(|entry| entry.key == *key).map(|entry| entry.path.clone())
    }

    /// What an earlier life has left.
    fn read(folder: &Path) -> io::Result<Self> {
        let mut index = Self::default();
        for issue in fs::read_dir(folder)?.flatten() {
            let name = issue.file_name();
            let key = name.to_str().and_then(|name| WorkspaceKey::parse(name).ok());
            let is_folder = issue.file_type().is_ok_and(|kind| kind.is_dir());
            let (Some(key), true) = (key, is_folder) else { continue };
            // What cannot be read is left alone, and spoils no other.
            for file in fs::read_dir(issue.path()).into_iter().flatten().flatten() {
                let name = file.file_name();
                if let Some(run) = name.to_str().and_then(run_of) {
                    let (key, path) = (key.clone(), file.path());
                    let bytes = Some(length(&path) + length(&earlier(&path)));
                    index.0.insert(run, KeptFile { key, path, bytes });
                }
            }
        }
        Ok(index)
    }

    /// The oldest run that has ended, if there is too much.
    fn oldest_over_limit(&self, most_bytes: u64) -> Option<RunId> {
        let ended = || self.0.iter().filter_map(|(run, entry)| Some((*run, entry.bytes?)));
        let bytes: u64 = ended().map(|(_, bytes)| bytes).sum();
        let is_too_much = self.0.len() > MAX_RUNS || bytes > most_bytes;
        ended().next().filter(|_| is_too_much).map(|(run, _)| run)
    }
}

fn run_of(file: &str) -> Option<RunId> {
    RunId::parse(file.strip_suffix(EXTENSION)?)
}

fn earlier(path: &Path) -> PathBuf {
    let mut name = path.with_extension("").into_os_string();
    name.push(EARLIER_EXTENSION);
    name.into()
}

fn length(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |metadata| metadata.len())
}

/// The thread.
pub(super) struct Keeper {
    folder: PathBuf,
    index: Arc<Mutex<Index>>,
    runs: BTreeMap<RunId, RunFiles>,
    /// Those that have no file: what is said in them waits for nothing.
    unkept: BTreeMap<RunId, Arc<Gauge>>,
}

impl Keeper {
    pub(super) const fn new(folder: PathBuf, index: Arc<Mutex<Index>>) -> Self {
        Self { folder, index, runs: BTreeMap::new(), unkept: BTreeMap::new() }
    }

    /// Writes until every sender is gone.
    pub(super) fn run(mut self, messages: &Receiver<KeeperMessage>) {
        // A folder that is not there yet holds nothing.
        if let Ok(index) = Index::read(&self.folder) {
            *lock(&self.index) = index;
        }
        loop {
            let message = messages.try_recv().or_else(|error| match error {
                TryRecvError::Empty => {
                    self.flush();
                    messages.recv().map_err(|_| TryRecvError::Disconnected)
                }
                TryRecvError::Disconnected => Err(error),
            });
            match message {
                Ok(message) => self.on_message(message),
                Err(_) => break,
            }
        }
        self.flush();
    }

    fn on_message(&mut self, message: KeeperMessage) {
        match message {
            KeeperMessage::Begin { run, key, max_bytes, secrets, gauge } => {
                self.make_room(max_bytes);
                let path = self.folder.join(key.as_str()).join(format!("{run}{EXTENSION}"));
                match RunFiles::begin(path.clone(), max_bytes, secrets, Arc::clone(&gauge)) {
                    Ok(begun) => {
                        lock(&self.index).0.insert(run, KeptFile { key, path, bytes: None });
                        self.runs.insert(run, begun);
                    }
                    Err(error) => {
                        self.unkept.insert(run, gauge);
                        let (run, path) = (run.to_string(), path.display());
                        warn!(run, %path, %error, "what is said in a run cannot be kept");
                    }
                }
            }
            KeeperMessage::Line { run, said } => {
                if let Some(run) = self.runs.get_mut(&run) {
                    run.line(&said);
                } else if let Some(gauge) = self.unkept.get(&run) {
                    gauge.empty(said.text.len() + LINE_OVERHEAD_BYTES);
                }
            }
            KeeperMessage::End { run: id } => {
                self.unkept.remove(&id);
                if let Some(mut run) = self.runs.remove(&id) {
                    run.write_lost(run.gauge.lost.swap(0, Ordering::Relaxed));
                    run.write();
                    if let Some(entry) = lock(&self.index).0.get_mut(&id) {
                        entry.bytes = Some(length(&run.path) + length(&earlier(&run.path)));
                    }
                }
            }
            KeeperMessage::Flush(written) => {
                self.flush();
                let _ = written.send(());
            }
        }
    }

    fn flush(&mut self) {
        for run in self.runs.values_mut() {
            run.write();
        }
    }

    /// Removes the oldest transcripts of ended runs until there is room for another.
    fn make_room(&self, max_bytes: u64) {
        // Not while the index is locked: a disk may hang, and others read it.
        let next = || {
            let mut index = lock(&self.index);
            let run = index.oldest_over_limit(max_bytes.saturating_mul(MAX_TOTAL_FACTOR))?;
            index.0.remove(&run)
        };
        while let Some(entry) = next() {
            let _ = fs::remove_file(&entry.path);
            let _ = fs::remove_file(earlier(&entry.path));
            if let Some(folder) = entry.path.parent() {
                let _ = fs::remove_dir(folder); // fails while the issue has other transcripts
            }
        }
    }
}

/// The transcript files of a live run.
struct RunFiles {
    path: PathBuf,
    file: File,
    length: u64,
    max_bytes: u64,
    secrets: Arc<Redactor>,
    gauge: Arc<Gauge>,
    /// Lines that are about to be written.
    pending: Vec<u8>,
    lines: u64,
    /// Whether the last line in the file has no end: the disk was full in the middle of it.
    is_torn: bool,
    has_failed: bool,
}

impl RunFiles {
    fn begin(
        path: PathBuf,
        max_bytes: u64,
        secrets: Arc<Redactor>,
        gauge: Arc<Gauge>,
    ) -> io::Result<Self> {
        let file = open(&path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            length,
            max_bytes,
            secrets,
            gauge,
            pending: Vec::new(),
            lines: 0,
            is_torn: false,
            has_failed: false,
        })
    }

    fn line(&mut self, said: &SaidLine) {
        self.gauge.empty(said.text.len() + LINE_OVERHEAD_BYTES);
        self.write_lost(said.lost);
        let line = written(said, &self.secrets);
        if self.push(&line) {
            self.lines += 1;
        } else {
            self.gauge.count_lost(1);
        }
    }

    /// Says how many lines are missing here.
    fn write_lost(&mut self, lost: u64) {
        if lost > 0 && !self.push(&note(wall_now(), &format!("{lost} lines were lost here"))) {
            self.gauge.count_lost(lost);
        }
    }

    /// Adds a line, in the next file if it does not fit into this one. `false` if it fits nowhere.
    fn push(&mut self, line: &str) -> bool {
        let (half, more) = (self.max_bytes / 2, bytes(line.len() + 1));
        let pending = bytes(self.pending.len());
        if self.length + pending + more > half {
            let earlier = earlier(&self.path);
            let told = earlier.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let told = note(wall_now(), &format!("what was said before is in {told}, or gone"));
            if more + bytes(told.len() + 1) > half || !self.write() {
                return false;
            }
            let moved = match fs::rename(&self.path, &earlier) {
                // Removed by a person, or moved before and not opened: a new one is due either way.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                moved => moved,
            };
            let opened = moved.and_then(|()| open(&self.path));
            let Ok(file) = opened.map_err(|error| self.fail(&error)) else { return false };
            (self.file, self.length, self.is_torn) = (file, 0, false);
            self.pending.extend_from_slice(told.as_bytes());
            self.pending.push(b'\n');
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
        if self.pending.len() >= WRITE_BATCH_BYTES {
            self.write();
        }
        true
    }

    /// Writes what is pending, or loses it: whatever the disk does, the next lines have their turn.
    fn write(&mut self) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let pending = std::mem::take(&mut self.pending);
        let lines = std::mem::take(&mut self.lines);
        let mend: &[u8] = if self.is_torn { b"\n" } else { b"" };
        match self.file.write_all(mend).and_then(|()| self.file.write_all(&pending)) {
            Ok(()) => {
                self.length += bytes(mend.len() + pending.len());
                (self.is_torn, self.has_failed) = (false, false);
                true
            }
            Err(error) => {
                self.length = self.file.metadata().map_or(self.length, |data| data.len());
                self.is_torn = self.length > 0;
                self.gauge.count_lost(lines);
                self.fail(&error);
                false
            }
        }
    }

    /// Tells it once, until something could be written again.
    fn fail(&mut self, error: &io::Error) {
        if !self.has_failed {
            let path = self.path.display();
            warn!(%path, %error, "what is said in a run cannot be kept; the run goes on");
        }
        self.has_failed = true;
    }
}

/// Reads the end of a file, no more than this of it, and says whether there is more before.
pub(super) fn tail(path: &Path, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(no_link).open(path)?;
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok((bytes, start > 0))
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Opens a file that only its owner reads, in folders that are only its owner's.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_link).open(path)
}

/// A line of the file: the line that was said, as JSON where it is JSON.
fn written(said: &SaidLine, secrets: &Redactor) -> String {
    let text = secrets.redact(&String::from_utf8_lossy(&said.text));
    let is_cut = said.length > MAX_LINE_BYTES;
    let is_json = !is_cut && serde_json::from_str::<IgnoredAny>(&text).is_ok();
    let (at, direction) = (said.at, said.direction.as_str());
    let line = if is_json {
        format!(r#"{{"at":"{at}","dir":"{direction}","line":{text}}}"#)
    } else {
        let cut = (0..=MAX_LINE_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let text = Value::from(&text[..cut.unwrap_or_default()]);
        let cut = if is_cut { format!(r#","bytes":{}"#, said.length) } else { String::new() };
        format!(r#"{{"at":"{at}","dir":"{direction}","text":{text}{cut}}}"#)
    };
    plain_json(&line)
}

fn note(at: Wall, text: &str) -> String {
    format!(r#"{{"at":"{at}","note":{}}}"#, Value::from(text))
}
