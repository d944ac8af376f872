//! Reading a file that another process writes and replaces, line by line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A longer line is not one of ours, and is left out.
const MAX_LINE_BYTES: usize = 1 << 20;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A file that grows.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    file: File,
    /// The beginning of a line that has no end yet.
    pending: Vec<u8>,
    is_too_long: bool,
}

impl Tail {
    /// Opens a plain file, and follows no link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        Ok(Self { path: path.to_owned(), file, pending: Vec::new(), is_too_long: false })
    }

    /// Reads a part of what there is now, and passes on each line that has an end. Returns whether
    /// there was anything.
    pub(super) fn read(
        &mut self,
        mut line: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let length = self.file.read(&mut chunk)?;
        let mut rest = &chunk[..length];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.push(&rest[..end]);
            rest = &rest[end + 1..];
            let whole = std::mem::take(&mut self.pending);
            if !std::mem::take(&mut self.is_too_long) && !whole.is_empty() {
                line(&String::from_utf8_lossy(&whole))?;
            }
        }
        self.push(rest);
        Ok(length > 0)
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.pending.len() + bytes.len() > MAX_LINE_BYTES {
            self.is_too_long = true;
        }
        if self.is_too_long {
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// What the file ends with, where that is not a whole line.
    pub(super) fn rest(&self) -> Option<String> {
        let is_line = !self.pending.is_empty() && !self.is_too_long;
        is_line.then(|| String::from_utf8_lossy(&self.pending).into_owned())
    }

    /// The file that has the name now, if it is another one: this one has come to its end.
    pub(super) fn successor(&self) -> Option<Self> {
        let next = Self::open(&self.path).ok()?;
        let of = |file: &File| file.metadata().map(|data| (data.dev(), data.ino())).ok();
        (of(&next.file) != of(&self.file)).then_some(next)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn all(tail: &mut Tail) -> Vec<String> {
        let mut lines = Vec::new();
        while tail
            .read(|line| {
                lines.push(line.to_owned());
                Ok(())
            })
            .unwrap()
        {}
        lines
    }

    #[test]
    fn rule_14_8_a_file_is_followed_over_its_replacement() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.1.jsonl");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        let mut tail = Tail::open(&path).unwrap();
        assert_eq!(all(&mut tail), ["one"]);
        assert_eq!(tail.rest().as_deref(), Some("tw"));
        file.write_all(b"o\n").unwrap();
        assert_eq!(all(&mut tail), ["two"]);
        assert!(tail.successor().is_none());
        std::fs::rename(&path, folder.path().join("1.1.earlier.jsonl")).unwrap();
        assert!(tail.successor().is_none(), "the next one is not there yet");
        std::fs::write(&path, "three\n").unwrap();
        file.write_all(b"late\n").unwrap();
        assert_eq!(all(&mut tail), ["late"]);
        assert_eq!(all(&mut tail.successor().unwrap()), ["three"]);
    }

    #[test]
    fn rule_14_8_a_line_without_end_takes_no_memory_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.1.jsonl");
        let long = "x".repeat(3 * MAX_LINE_BYTES);
        std::fs::write(&path, format!("{long}\nnext\n{long}")).unwrap();
        let mut tail = Tail::open(&path).unwrap();
        assert_eq!(all(&mut tail), ["next"]);
        assert_eq!(tail.rest(), None);
        assert!(tail.pending.is_empty());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Tail::open(&link).is_err());
    }
}
