//! Modes of what is ours: an agent runs as our user and can take rights away from us. They are given
//! back by handle, so that nothing else is ever changed.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;
use rustix::path::Arg;

pub(super) const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// Opens a folder without following a link; one of ours that is closed to us is opened to us first.
pub(super) fn open_folder<N: Arg + Copy>(parent: impl AsFd, name: N) -> Result<OwnedFd, Errno> {
    open(parent, name, FOLDER)
}

/// The same for whatever the flags ask for. Another user's stays closed.
pub(super) fn open<N: Arg + Copy>(
    parent: impl AsFd,
    name: N,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR);
    match open() {
        Err(Errno::ACCESS) => {
            make_ours(&parent, name).map_err(|_| Errno::ACCESS)?;
            open()
        }
        other => other,
    }
}

/// Gives the owner, if that is us, every right to a folder, or lets us read and write a file. A link
/// is not followed, and a file with a second name is left alone: that may be outside. Gone already
/// is fine.
pub(super) fn make_ours<N: Arg + Copy>(parent: impl AsFd, name: N) -> Result<(), Errno> {
    match give_rights(parent.as_fd(), name) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// A handle that only names something takes no `fchmod`, but has a name of its own.
#[cfg(target_os = "linux")]
fn give_rights<N: Arg + Copy>(parent: BorrowedFd<'_>, name: N) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    match missing_rights(fstat(&handle)?)? {
        Some(mode) => rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn give_rights<N: Arg + Copy>(parent: BorrowedFd<'_>, name: N) -> Result<(), Errno> {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    match missing_rights(rustix::fs::statat(parent, name, flags)?)? {
        Some(mode) => rustix::fs::chmodat(parent, name, mode, flags),
        None => Ok(()),
    }
}

/// The mode that something should have, if it has less.
fn missing_rights(stat: Stat) -> Result<Option<Mode>, Errno> {
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Mode::RWXU,
        FileType::RegularFile if stat.st_nlink == 1 => Mode::RUSR | Mode::WUSR,
        _ => return Err(Errno::PERM),
    };
    Ok((!Mode::from_raw_mode(stat.st_mode).contains(wanted)).then_some(wanted))
}

/// Lets us do everything in an open folder, and leaves to others what they may. Says whether that
/// was not so.
pub(super) fn open_to_us(folder: &OwnedFd) -> Result<bool, Errno> {
    let mode = Mode::from_raw_mode(fstat(folder)?.st_mode);
    set(folder, mode, mode | Mode::RWXU)
}

/// Opens a folder of Symphony's own to us, and closes it to others. Says whether that was not so.
pub(super) fn make_private(folder: &OwnedFd) -> Result<bool, Errno> {
    let mode = Mode::from_raw_mode(fstat(folder)?.st_mode);
    set(folder, mode, (mode | Mode::RWXU) - (Mode::RWXG | Mode::RWXO))
}

/// A file system that keeps no modes has changed nothing, and is not told of again and again.
fn set(folder: &OwnedFd, mode: Mode, wanted: Mode) -> Result<bool, Errno> {
    if mode == wanted {
        return Ok(false);
    }
    rustix::fs::fchmod(folder, wanted)?;
    Ok(Mode::from_raw_mode(fstat(folder)?.st_mode) != mode)
}
