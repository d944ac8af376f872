//! Where a service keeps what belongs to the user and not to the project (contract 16.6): what
//! survives a restart, and workspaces where the file names no root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use symphony_core::WorkspaceKey;
use symphony_core::env::Env;

use crate::disk::is_in_use;

/// Below the state folders that programs share.
const STATE_FOLDER: &str = "symphony";

/// Where workspaces were by default in versions before the state folder: one place for all
/// workflow files, among the temporary files.
const FORMER_ROOT: &str = "symphony_workspaces";

/// Returns the folder that the system, or the user, has for the state of this program.
#[must_use]
pub fn state_folder(env: &dyn Env) -> Option<PathBuf> {
    let folder = |name: &str| {
        let value = env.var(name)?;
        // Of several, which are separated by colons, the first is the main one.
        let first = value.split(':').next().map(PathBuf::from);
        first.filter(|folder| folder.is_absolute())
    };
    folder("STATE_DIRECTORY")
        .or_else(|| Some(folder("XDG_STATE_HOME")?.join(STATE_FOLDER)))
        .or_else(|| Some(folder("HOME")?.join(".local/state").join(STATE_FOLDER)))
}

/// Returns the folder of the service that this workflow file describes, below the state folder. It
/// is called by the file's path: unlike the id beside the lock of a workspace root, that is still
/// known when the root was deleted to free space.
#[must_use]
pub fn service_folder(workflow: &Path, env: &dyn Env) -> Option<PathBuf> {
    let whole = std::path::absolute(workflow).unwrap_or_else(|_| workflow.to_owned());
    let name = WorkspaceKey::derive(&whole.to_string_lossy()).ok()?;
    Some(state_folder(env)?.join(name.as_str()))
}

/// Returns the root that was the default in versions before the state folder, if this user has
/// workspaces or a service there.
pub(crate) fn former_root() -> Option<PathBuf> {
    let root = std::env::temp_dir().join(FORMER_ROOT);
    let is_ours = fs::symlink_metadata(&root)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
    (is_ours && is_in_use(&root)).then_some(root)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(env: &[(&str, &str)]) -> Option<PathBuf> {
        let env: BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        service_folder(Path::new("/code/WORKFLOW.md"), &env)
    }

    #[test]
    fn rule_16_6_the_state_folder_is_the_users_by_the_workflow_file() {
        let home = ("HOME", "/home/ada");
        let folder = at(&[home]).unwrap();
        let name = folder.strip_prefix("/home/ada/.local/state/symphony").unwrap();
        let name = name.to_str().and_then(|name| name.strip_prefix("_code_WORKFLOW.md--"));
        assert_eq!(name.map(str::len), Some(16));
        assert!(at(&[home, ("XDG_STATE_HOME", "/xdg")]).unwrap().starts_with("/xdg/symphony"));
        let folder = at(&[home, ("XDG_STATE_HOME", "not/absolute")]).unwrap();
        assert!(folder.starts_with("/home/ada/.local"), "{folder:?}");
        let folder = at(&[home, ("STATE_DIRECTORY", "/var/lib/symphony:/other")]).unwrap();
        assert_eq!(folder.parent(), Some(Path::new("/var/lib/symphony")));
        assert_eq!(at(&[]), None);
    }
}
