//! A log file that is put aside when it is long enough.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use symphony_core::settings::LoggingSettings;

/// A log holds what issues and agents say: as with transcripts, only its owner reads it.
const LOG_FILE_MODE: u32 = 0o600;

/// How much is kept; it may change at any time.
#[derive(Debug)]
pub(super) struct Limits {
    /// A file is put aside before it is longer than this.
    longest: AtomicU64,
    /// How many that were put aside are kept: `symphony.log.1` is the youngest.
    kept: AtomicU32,
}

impl Limits {
    pub(super) const fn new(settings: &LoggingSettings) -> Self {
        let (longest, kept) = (settings.max_bytes, settings.max_files);
        Self { longest: AtomicU64::new(longest), kept: AtomicU32::new(kept) }
    }

    pub(super) fn set(&self, settings: &LoggingSettings) {
        self.longest.store(settings.max_bytes, Ordering::Relaxed);
        self.kept.store(settings.max_files, Ordering::Relaxed);
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    length: u64,
    limits: Arc<Limits>,
}

impl RotatingFile {
    /// Goes on with the file at this path, or begins it.
    pub(super) fn open(path: &Path, limits: Arc<Limits>) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append(path)?;
        let metadata = file.metadata()?;
        // One of an earlier version; a device is left as it is, and so is another's file.
        if metadata.is_file() && metadata.mode() & 0o077 != 0 {
            let _ = file.set_permissions(Permissions::from_mode(LOG_FILE_MODE));
        }
        let length = metadata.len();
        Ok(Self { path: path.to_owned(), file, length, limits })
    }

    fn rotated(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Puts the file aside. Whatever of this fails, lines go on into the file that is open.
    fn rotate(&mut self) {
        let kept = self.limits.kept.load(Ordering::Relaxed);
        let there = (1..u32::MAX).take_while(|&number| self.rotated(number).exists());
        for number in there.collect::<Vec<_>>().into_iter().rev() {
            let _ = if number < kept {
                fs::rename(self.rotated(number), self.rotated(number + 1))
            } else {
                fs::remove_file(self.rotated(number))
            };
        }
        let is_aside = match kept {
            0 => fs::remove_file(&self.path),
            _ => fs::rename(&self.path, self.rotated(1)),
        };
        if is_aside.is_err() {
            let _ = self.file.set_len(0); // a bound is a bound, also where nothing can be put aside
        }
        self.length = 0;
        if let Ok(file) = append(&self.path) {
            self.file = file;
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(LOG_FILE_MODE).open(path)
}

impl Write for RotatingFile {
    /// Takes a whole line, also where it cannot be written: a full disk stops no service.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let more = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.length > 0
            && self.length.saturating_add(more) > self.limits.longest.load(Ordering::Relaxed)
        {
            self.rotate();
        }
        self.length = self.length.saturating_add(more);
        let _ = self.file.write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_bytes: u64, max_files: u32) -> LoggingSettings {
        let mut settings = LoggingSettings::default();
        settings.max_bytes = max_bytes;
        settings.max_files = max_files;
        settings
    }

    fn limits(max_bytes: u64, max_files: u32) -> Arc<Limits> {
        Arc::new(Limits::new(&settings(max_bytes, max_files)))
    }

    #[test]
    fn rule_13_1_files_rotate_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/symphony.log");
        let mut log = RotatingFile::open(&path, limits(10, 5)).unwrap();
        for number in 0..9 {
            writeln!(log, "line {number}").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 8\n");
        let aside = |number| fs::read_to_string(format!("{}.{number}", path.display())).unwrap();
        assert_eq!(aside(1), "line 7\n");
        assert_eq!(aside(5), "line 3\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 6);
    }

    #[test]
    fn rule_13_1_only_its_owner_reads_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.log");
        fs::write(&path, "older\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut log = RotatingFile::open(&path, limits(10, 5)).unwrap();
        (0..3).for_each(|number| writeln!(log, "line {number}").unwrap());
        for file in fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", file.path());
        }
    }

    #[test]
    fn rule_13_1_limits_that_change_count_from_the_next_file_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.log");
        let limits = limits(10, u32::MAX);
        let mut log = RotatingFile::open(&path, Arc::clone(&limits)).unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        (0..5).for_each(|number| writeln!(log, "line {number}").unwrap());
        assert_eq!(count(), 5);
        let now = |max_bytes, max_files| limits.set(&settings(max_bytes, max_files));
        now(20, 2);
        writeln!(log, "line 5").unwrap();
        assert_eq!(count(), 5, "there is room");
        writeln!(log, "line 6").unwrap();
        assert_eq!((count(), fs::read_to_string(&path).unwrap().as_str()), (3, "line 6\n"));
        now(1, 0);
        writeln!(log, "line 7").unwrap();
        assert_eq!((count(), fs::read_to_string(&path).unwrap().as_str()), (1, "line 7\n"));
    }

    #[test]
    fn rule_13_1_a_log_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.log");
        writeln!(RotatingFile::open(&path, limits(10, 5)).unwrap(), "one").unwrap();
        writeln!(RotatingFile::open(&path, limits(10, 5)).unwrap(), "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn rule_13_1_a_file_that_cannot_be_put_aside_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.log");
        fs::create_dir_all(folder.path().join("symphony.log.1/in-the-way")).unwrap();
        let mut log = RotatingFile::open(&path, limits(10, 1)).unwrap();
        for number in 0..9 {
            writeln!(log, "line {number}").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 8\n");
    }

    #[test]
    fn rule_13_1_a_file_that_cannot_be_written_blocks_no_caller() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/symphony.log");
        let mut log = RotatingFile::open(&path, limits(10, 5)).unwrap();
        writeln!(log, "line 1").unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        writeln!(log, "line 2").unwrap();
        writeln!(log, "line 3").unwrap();
    }
}
