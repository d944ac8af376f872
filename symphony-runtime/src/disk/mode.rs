//! Modes of what is ours: an agent runs as our user and can take rights away from us. They are given
//! back by handle, so that nothing else is ever changed.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat};
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
pub(super) fn make_ours<N: Arg>(parent: impl AsFd, name: N) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let stat = fstat(&handle)?;
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Mode::RWXU,
        FileType::RegularFile if stat.st_nlink == 1 => Mode::RUSR | Mode::WUSR,
        _ => return Err(Errno::PERM),
    };
    if Mode::from_raw_mode(stat.st_mode).contains(wanted) {
        return Ok(());
    }
    // A handle that only names something takes no `fchmod`.
    #[cfg(target_os = "linux")]
    return rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), wanted);
    #[cfg(not(target_os = "linux"))]
    rustix::fs::fchmod(&handle, wanted)
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

fn set(folder: &OwnedFd, mode: Mode, wanted: Mode) -> Result<bool, Errno> {
    if mode == wanted {
        return Ok(false);
    }
    rustix::fs::fchmod(folder, wanted)?;
    Ok(true)
}
