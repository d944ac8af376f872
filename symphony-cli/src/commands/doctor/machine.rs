//! Programs, folders and space.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Access, StatVfs, access, statvfs};
use symphony_core::finding::Finding;
use symphony_runtime::root_holder;

/// With less, a clone or a build is likely to fail.
const LITTLE_SPACE_BYTES: u64 = 1 << 30;

/// With less, the service cannot even keep its records.
const NO_SPACE_BYTES: u64 = 16 << 20;

/// The same for files.
const FEW_FILES: u64 = 10_000;

/// Says which git there is: most hooks need one.
pub(super) fn git() -> Finding {
    match Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Finding::fine("git", text.trim_start_matches("git version ").to_owned())
        }
        Ok(output) => {
            Finding::doubtful("git", format!("`git --version` failed: {}", output.status))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Finding::doubtful("git", "was not found; hooks that clone a repository need it")
        }
        Err(error) => Finding::doubtful("git", format!("cannot be run: {error}")),
    }
}

/// Says whether workspaces can be made below a root.
pub(super) fn root(root: &Path) -> Vec<Finding> {
    let shown = root.display();
    let wrong = |text: String| vec![Finding::wrong("root", text)];
    let user = rustix::process::geteuid();
    let found = match root.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = nearest(root);
            return match can_write(above) {
                true => vec![Finding::fine("root", format!("{shown} will be made"))],
                false => wrong(format!(
                    "{shown} cannot be made: {} is closed to this user",
                    above.display()
                )),
            };
        }
        Err(error) => return wrong(format!("{shown}: {error}")),
    };
    if !found.is_dir() {
        return wrong(format!("{shown} is not a folder; set another workspace.root"));
    }
    if found.uid() != user.as_raw() {
        let (owner, user) = (found.uid(), user.as_raw());
        let text = format!("{shown} belongs to the user {owner}, and this is the user {user}");
        // Its service may well run, as that user.
        return match root_holder(root) {
            Some(_) => vec![Finding::doubtful("root", format!("{text}; ask as that user"))],
            None => wrong(format!("{text}; run as that user, or set another workspace.root")),
        };
    }
    if !can_write(root) {
        return wrong(format!("{shown} cannot be written by this user"));
    }
    vec![Finding::fine("root", format!("{shown} can be written"))]
}

/// The root, or the folder above it that is there.
fn nearest(path: &Path) -> &Path {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    path.ancestors().find(is_there).unwrap_or(Path::new("/"))
}

fn can_write(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Says how much room there is below a root.
pub(super) fn space(root: &Path) -> Vec<Finding> {
    let above = nearest(root);
    match statvfs(above) {
        Ok(found) => vec![room(&found)],
        Err(error) => vec![Finding::doubtful("space", format!("{}: {error}", above.display()))],
    }
}

fn room(found: &StatVfs) -> Finding {
    let bytes = found.f_bavail.saturating_mul(found.f_frsize);
    // Some file systems count no files.
    let files = (found.f_files > 0).then_some(found.f_favail);
    let mut text = format!("{} are free", size(bytes));
    if let Some(files) = files.filter(|files| *files < FEW_FILES) {
        text = format!("{text}, and room for {files} files");
    }
    let is_low = bytes < LITTLE_SPACE_BYTES || files.is_some_and(|files| files < FEW_FILES);
    match (bytes < NO_SPACE_BYTES || files == Some(0), is_low) {
        (true, _) => Finding::wrong("space", format!("{text}: no workspace fits in")),
        (false, true) => Finding::doubtful("space", format!("{text}: that is little for clones")),
        (false, false) => Finding::fine("space", text),
    }
}

fn size(bytes: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..0x4000_0000 => format!("{} MiB", tenths(1 << 20)),
        _ => format!("{} GiB", tenths(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::finding::Severity;

    use super::*;

    #[test]
    fn rule_14_9_little_room_is_doubtful_and_none_is_wrong() {
        let mut found = statvfs("/").unwrap();
        found.f_frsize = 1;
        for (bytes, files, wanted) in [
            (5 << 30, 1 << 20, (Severity::Fine, "5.0 GiB are free")),
            (700 << 20, 1 << 20, (Severity::Doubtful, "700.0 MiB are free: that is little")),
            (1 << 20, 1 << 20, (Severity::Wrong, "1.0 MiB are free: no workspace")),
            (5 << 30, 7, (Severity::Doubtful, "5.0 GiB are free, and room for 7 files: that")),
            (5 << 30, 0, (Severity::Wrong, "room for 0 files: no workspace")),
        ] {
            (found.f_bavail, found.f_files, found.f_favail) = (bytes, 1 << 21, files);
            let finding = room(&found);
            assert_eq!(finding.severity, wanted.0, "{finding:?}");
            assert!(finding.text.contains(wanted.1), "{finding:?}");
        }
    }

    #[test]
    fn rule_14_9_a_root_that_cannot_be_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let severity = |path: &Path| root(path)[0].severity;
        assert_eq!(severity(folder.path()), Severity::Fine);
        assert_eq!(severity(&folder.path().join("not/yet")), Severity::Fine);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(severity(&file), Severity::Wrong);
        assert_eq!(severity(&file.join("below")), Severity::Wrong);
    }
}
