//! Keeps programs from changing one file at a time: a service its board, `symphony issue add` the
//! same.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long another program may change the file.
const MAX_WAIT: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(5);

/// A file that programs of this project do not change as long as this lives.
#[derive(Debug)]
pub struct BoardLock {
    _locked: File,
}

/// Waits until no other program of this project changes a file, which is replaced as a whole then.
/// An editor does not ask. This blocks.
///
/// # Errors
/// When the file cannot be opened, or is locked for longer than five seconds.
pub fn lock_board(path: &Path) -> io::Result<BoardLock> {
    let end = Instant::now() + MAX_WAIT;
    loop {
        let there = fs::metadata(path)?;
        if !there.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
        }
        let file = File::open(path)?;
        match file.try_lock() {
            Ok(()) => {
                let (locked, now) = (file.metadata()?, fs::metadata(path)?);
                // What was waited for has put another file in its place.
                if (locked.dev(), locked.ino()) == (now.dev(), now.ino()) {
                    return Ok(BoardLock { _locked: file });
                }
            }
            Err(TryLockError::WouldBlock) => {}
            // A file system without locks: then people take care.
            Err(TryLockError::Error(_)) => return Ok(BoardLock { _locked: file }),
        }
        if Instant::now() >= end {
            let message = "another program has kept it locked for 5 s";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_10_one_program_at_a_time_changes_a_board() {
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("board.yaml"), folder.path().join("beside"));
        fs::write(&path, "0").unwrap();
        let add = || {
            for _ in 0..20 {
                let _locked = lock_board(&path).unwrap();
                let number: u32 = fs::read_to_string(&path).unwrap().parse().unwrap();
                fs::write(&beside, (number + 1).to_string()).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
        };
        std::thread::scope(|threads| (0..4).for_each(|_| drop(threads.spawn(add))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "80");
    }
}
