//! A board file on disk: read when its content is another, replaced as a whole when written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use serde_yaml::Mapping;
use symphony_core::IssueId;
use symphony_core::tracker::{TrackerError, TrackerErrorKind};

use crate::board_lock::{BoardLock, lock_board};
use crate::document::{BadBoardText, Document};
use crate::seeds::Seeds;

/// No board that people edit is larger.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The file, and what it last said. Its methods block.
#[derive(Debug)]
pub(crate) struct BoardFile {
    path: PathBuf,
    last: Option<BoardRead>,
}

#[derive(Debug)]
struct BoardRead {
    bytes: Vec<u8>,
    document: Result<Document, BadBoardText>,
}

/// Why the board file could not be used.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum BoardError {
    #[error("cannot read the board {}", path.display())]
    Unreadable { path: PathBuf, source: Arc<io::Error> },
    #[error("{}{}: {}", path.display(), line(broken.line), broken.message)]
    Broken { path: PathBuf, broken: BadBoardText },
    #[error("cannot write the board {}", path.display())]
    Unwritable { path: PathBuf, source: Arc<io::Error> },
    #[error("the board {} cannot be written as YAML: {message}", path.display())]
    Unprintable { path: PathBuf, message: String },
    #[error("the work on the board file was broken off")]
    Interrupted,
}

fn line(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(":{line}"))
}

impl From<BoardError> for TrackerError {
    fn from(error: BoardError) -> Self {
        let kind = match error {
            BoardError::Broken { .. } => TrackerErrorKind::Response,
            _ => TrackerErrorKind::Request,
        };
        let message = error.to_string();
        match error {
            BoardError::Unreadable { source, .. } | BoardError::Unwritable { source, .. } => {
                Self::new(kind, message).with_source(source)
            }
            _ => Self::new(kind, message),
        }
    }
}

impl BoardFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, last: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps `symphony issue add` from changing the file.
    pub(crate) fn lock(&self) -> Result<BoardLock, BoardError> {
        lock_board(&self.path).map_err(|source| BoardError::Unwritable {
            path: self.path.clone(),
            source: Arc::new(source),
        })
    }

    /// What the file says, if that is something else than at the last read.
    ///
    /// The content is compared, not the time: an edit within the clock's grain is an edit too.
    pub(crate) fn read(&mut self) -> Result<Option<Seeds>, BoardError> {
        let bytes = self.bytes().map_err(|source| BoardError::Unreadable {
            path: self.path.clone(),
            source: Arc::new(source),
        })?;
        if let Some(last) = &self.last
            && last.bytes == bytes
        {
            return match &last.document {
                Ok(_) => Ok(None),
                Err(broken) => Err(self.broken(broken)),
            };
        }
        let parsed = decoded(&bytes).and_then(Document::parse);
        let (document, outcome) = match parsed {
            Ok((document, seeds)) => (Ok(document), Ok(Some(seeds))),
            Err(broken) => (Err(broken.clone()), Err(self.broken(&broken))),
        };
        self.last = Some(BoardRead { bytes, document });
        outcome
    }

    /// Changes one record and says how it reads now. `None` if the file has no such record.
    pub(crate) fn write(
        &mut self,
        id: &IssueId,
        change: impl FnOnce(&mut Mapping),
    ) -> Result<Option<Value>, BoardError> {
        let Some(BoardRead { document: Ok(document), .. }) = &self.last else { return Ok(None) };
        let unprintable = |message| BoardError::Unprintable { path: self.path.clone(), message };
        let Some((document, raw)) = document.with(id, change).map_err(unprintable)? else {
            return Ok(None);
        };
        let bytes = document.text().as_bytes().to_owned();
        self.replace(&bytes).map_err(|source| BoardError::Unwritable {
            path: self.path.clone(),
            source: Arc::new(source),
        })?;
        self.last = Some(BoardRead { bytes, document: Ok(document) });
        Ok(Some(raw))
    }

    /// Reads a plain file only: anything else may never end.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let metadata = fs::metadata(&self.path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "more than 64 MiB"));
        }
        fs::read(&self.path)
    }

    /// Writes beside the file and renames over it, so that a reader sees the old or the new.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        // A link stays a link: what it leads to is replaced.
        let target = self.path.canonicalize()?;
        // Not all of a long name: the other one must not be too long.
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(50).collect();
        let beside = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        let written = file
            .set_permissions(fs::metadata(&target)?.permissions())
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, &target));
        if written.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn broken(&self, broken: &BadBoardText) -> BoardError {
        BoardError::Broken { path: self.path.clone(), broken: broken.clone() }
    }
}

fn decoded(bytes: &[u8]) -> Result<&str, BadBoardText> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        BadBoardText { line: Some(line), message: "is not UTF-8".to_owned() }
    })
}
