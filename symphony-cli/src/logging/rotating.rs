//! A log file that is put aside when it is long enough.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file is put aside before it is longer than this.
const LONGEST: u64 = 10 << 20;

/// How many that were put aside are kept: `symphony.log.1` is the youngest.
const KEPT: u32 = 5;

/// The file.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    length: u64,
    longest: u64,
}

impl RotatingFile {
    /// Goes on with the file at this path, or begins it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, LONGEST)
    }

    fn with_limit(path: &Path, longest: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, longest })
    }

    fn aside(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Puts the file aside. Whatever of this fails, lines go on into the file that is open.
    fn rotate(&mut self) {
        for number in (1..KEPT).rev() {
            let _ = fs::rename(self.aside(number), self.aside(number + 1));
        }
        let _ = fs::rename(&self.path, self.aside(1));
        self.length = 0;
        if let Ok(file) = append(&self.path) {
            self.file = file;
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl Write for RotatingFile {
    /// Takes a whole line, also where it cannot be written: a full disk stops no service.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let more = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.length > 0 && self.length.saturating_add(more) > self.longest {
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

    #[test]
    fn rule_13_1_files_rotate_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/symphony.log");
        let mut log = RotatingFile::with_limit(&path, 10).unwrap();
        for number in 0..9 {
            writeln!(log, "line {number}").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 8\n");
        let aside = |number| fs::read_to_string(format!("{}.{number}", path.display())).unwrap();
        assert_eq!(aside(1), "line 7\n");
        assert_eq!(aside(KEPT), "line 3\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 6);
    }

    #[test]
    fn rule_13_1_a_log_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.log");
        writeln!(RotatingFile::open(&path).unwrap(), "one").unwrap();
        writeln!(RotatingFile::open(&path).unwrap(), "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn rule_13_1_a_file_that_cannot_be_written_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/symphony.log");
        let mut log = RotatingFile::with_limit(&path, 10).unwrap();
        writeln!(log, "line 1").unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        writeln!(log, "line 2").unwrap();
        writeln!(log, "line 3").unwrap();
    }
}
