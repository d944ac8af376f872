//! A control group (cgroup v2) for each command, where the service may make one: an extra.
//!
//! The kernel ends a whole group in one step, however fast it forks. So where a helper is lost,
//! no process can escape the kill. Most places do not let a service make groups, and nothing
//! depends on it. On systems without control groups there is never a place for one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::mark::Tag;

/// One command's group. Its helper removes it; if that is lost, we do when this is dropped; if we are
/// lost too, the next life of the service does.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// A new group below the service's own.
    pub(crate) fn new(tag: Tag) -> Option<Self> {
        let name = format!("{}{}.{}", prefix(tag), std::process::id(), tag.number_of_command());
        Self::make(place()?.join(name))
    }

    fn make(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).ok()?;
        Some(Self { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills every process in it. A process that left it is known by its tag.
    pub(crate) fn kill(&self) {
        let _ = write(&self.folder.join("cgroup.kill"), "1");
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Puts this process into a group, with all that it will start.
pub(crate) fn join(folder: &Path) -> io::Result<()> {
    write(&folder.join("cgroup.procs"), "0")
}

/// Takes this process, the last one in its group, out of it, and removes the group.
pub(crate) fn leave(folder: &Path) -> io::Result<()> {
    join(folder.parent().unwrap_or(folder))?;
    fs::remove_dir(folder)
}

/// Whether the service may make groups here.
pub(crate) fn is_possible() -> bool {
    place().is_some()
}

/// Ends the processes left in the groups of an earlier life, and removes groups that are empty.
pub(crate) fn end_leftovers(service: Tag) {
    let entries = place().and_then(|place| fs::read_dir(place).ok()).into_iter().flatten();
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix(service)) {
            ControlGroup { folder: entry.path() }.kill();
        }
    }
}

fn prefix(tag: Tag) -> String {
    format!("symphony.{:09x}.", tag.number_of_service())
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// The service's own group, if it may make others below it. Tried once.
fn place() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE
        .get_or_init(|| {
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
            let place = own_group(&mounts, &groups)?;
            let trial = ControlGroup::make(place.join(format!("symphony.{}", std::process::id())))?;
            trial.folder.join("cgroup.kill").exists().then_some(place)
        })
        .as_deref()
}

/// Where this process' own group is a folder: the mount of the second version, and the path in it.
fn own_group(mounts: &str, groups: &str) -> Option<PathBuf> {
    let path = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then_some(())?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        Some(Path::new(point).join(path.strip_prefix(root).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNT: &str = "31 25 0:27 / /sys/fs/cgroup rw,relatime shared:9 - tmpfs tmpfs rw\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let in_unit = "1:cpu:/other\n0::/system.slice/symphony.service\n";
        let found = own_group(MOUNT, in_unit);
        let expected = "/sys/fs/cgroup/unified/system.slice/symphony.service";
        assert_eq!(found, Some(expected.into()));
        let part = MOUNT.replace("0:38 / ", "0:38 /system.slice ");
        let expected = "/sys/fs/cgroup/unified/symphony.service";
        assert_eq!(own_group(&part, in_unit), Some(expected.into()));
    }

    #[test]
    fn without_the_second_version_or_outside_its_mount_there_is_none() {
        let outside = MOUNT.replace("0:38 / ", "0:38 /elsewhere ");
        for (mounts, groups) in [
            (MOUNT, "1:cpu:/x\n"),
            ("", "0::/\n"),
            ("broken", "0::/\n"),
            (" - cgroup2 x", "0::/\n"),
            (&outside, "0::/a\n"),
        ] {
            assert_eq!(own_group(mounts, groups), None, "{mounts}");
        }
    }
}
