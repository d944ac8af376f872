//! Small files of Symphony's own: read with a limit, replaced as a whole.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::mode;

/// More than any file of ours holds.
const MAX_FILE_BYTES: u64 = 4 << 20;

pub(super) fn read(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = mode::open(folder, name, flags)?;
    let mut text = Vec::new();
    File::from(handle)
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| errno(&error))?;
    Ok(text)
}

/// A reader, or a crash of the machine, sees the old file or the new one.
pub(super) fn replace(folder: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    put(folder, name, text, |file| file.sync_data())
}

/// For what means nothing after a crash of the machine: it does not wait for the disk.
pub(super) fn replace_quickly(folder: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    put(folder, name, text, |_| Ok(()))
}

fn put(
    folder: &OwnedFd,
    name: &str,
    text: &[u8],
    settle: impl FnOnce(&File) -> std::io::Result<()>,
) -> Result<(), Errno> {
    let new = format!("{name}~");
    // Whatever stands there is a leftover, and must not be written through.
    remove(folder, &new)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, &new, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(handle);
    file.write_all(text).and_then(|()| settle(&file)).map_err(|error| errno(&error))?;
    rustix::fs::renameat(folder, &new, folder, name)
}

/// Gone already is fine.
pub(super) fn remove(folder: &OwnedFd, name: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
