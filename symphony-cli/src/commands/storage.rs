//! Where what must survive a restart is kept (contract 16.2).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use symphony_core::env::Env;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::store::Store;
use symphony_core::{Settings, WorkspaceKey};

/// Below the state folders that programs share.
const STATE_FOLDER: &str = "symphony";

/// Returns the file that the settings name, else one in the user's state folder, by the workflow
/// file: not below the workspace root, which people delete to free space.
pub(super) fn path(
    settings: &Settings,
    workflow: &Path,
    env: &dyn Env,
) -> Result<PathBuf, Problem> {
    if let Some(path) = &settings.storage.path {
        return Ok(path.clone());
    }
    let refused = |message: &str| {
        let problem = Problem::new(ProblemKind::InvalidSetting, message);
        problem.with_path("storage.path")
    };
    let folder = state_folder(env).ok_or_else(|| {
        refused("is needed where none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set")
    })?;
    let whole = std::path::absolute(workflow).unwrap_or_else(|_| workflow.to_owned());
    let name = WorkspaceKey::derive(&whole.to_string_lossy());
    let name = name.map_err(|_| refused("is needed for a workflow file without a name"))?;
    Ok(folder.join(format!("{}.db", name.as_str())))
}

/// Returns the folder that the system, or the user, has for the state of this program.
fn state_folder(env: &dyn Env) -> Option<PathBuf> {
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

/// Opens the store of a service.
#[cfg(feature = "sqlite")]
pub(super) async fn open(settings: &Settings, workflow: &Path) -> anyhow::Result<Arc<dyn Store>> {
    use symphony_sqlite::SqliteStore;
    let path =
        path(settings, workflow, &super::CliEnv).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let at = path.display().to_string();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path)).await?;
    let store =
        opened.with_context(|| format!("what survives a restart cannot be kept in {at}"))?;
    Ok(Arc::new(store))
}

/// Opens the store of a service: nothing survives a restart.
#[cfg(not(feature = "sqlite"))]
pub(super) async fn open(_: &Settings, _: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(symphony_core::store::MemoryStore::new()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use symphony_core::StateSet;

    use super::*;

    fn at(env: &[(&str, &str)]) -> Result<String, String> {
        let env: BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings =
            Settings::new("memory", StateSet::default(), StateSet::default(), "/w".into());
        path(&settings, Path::new("/code/WORKFLOW.md"), &env)
            .map(|path| path.display().to_string())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn rule_16_2_what_survives_is_kept_in_the_state_folder_by_the_workflow_file() {
        let home = ("HOME", "/home/ada");
        let file = at(&[home]).unwrap();
        let name =
            file.strip_prefix("/home/ada/.local/state/symphony/_code_WORKFLOW.md--").unwrap();
        assert_eq!(name.len(), "0123456789abcdef.db".len());
        let file = at(&[home, ("XDG_STATE_HOME", "/xdg")]).unwrap();
        assert!(file.starts_with("/xdg/symphony/_code"), "{file}");
        let file = at(&[home, ("XDG_STATE_HOME", "not/absolute")]).unwrap();
        assert!(file.starts_with("/home/ada/"), "{file}");
        let file = at(&[home, ("STATE_DIRECTORY", "/var/lib/symphony:/other")]).unwrap();
        assert!(file.starts_with("/var/lib/symphony/_code"), "{file}");
        assert!(at(&[]).unwrap_err().contains("storage.path"));
    }
}
