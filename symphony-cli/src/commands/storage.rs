//! Where what must survive a restart is kept (contract 16.6).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use symphony_core::Settings;
use symphony_core::env::Env;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::store::Store;
use symphony_runtime::service_folder;

/// Its name in the service's own folder.
const STORE_FILE: &str = "symphony.db";

/// Returns the file that the settings name, else one in the service's own folder: not below the
/// workspace root, which people delete to free space.
pub(super) fn path(
    settings: &Settings,
    workflow: &Path,
    env: &dyn Env,
) -> Result<PathBuf, Problem> {
    let named = settings.storage.path.clone();
    named.or_else(|| Some(service_folder(workflow, env)?.join(STORE_FILE))).ok_or_else(|| {
        let message = "is needed where none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set";
        Problem::new(ProblemKind::InvalidSetting, message).with_path("storage.path")
    })
}

/// Opens the store of a service.
#[cfg(feature = "sqlite")]
pub(super) async fn open(settings: &Settings, workflow: &Path) -> anyhow::Result<Arc<dyn Store>> {
    use anyhow::Context as _;
    use symphony_sqlite::SqliteStore;
    let path =
        path(settings, workflow, &super::CliEnv).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let at = path.display().to_string();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path)).await?;
    let store =
        opened.with_context(|| format!("what survives a restart cannot be kept in {at}"))?;
    let store: Arc<dyn Store> = Arc::new(store);
    #[cfg(all(feature = "kill-points", debug_assertions))]
    let store = super::kill_points::with_kill_points(store, &super::CliEnv)?;
    Ok(store)
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

    #[test]
    fn rule_16_6_the_store_is_in_the_services_own_folder_unless_the_file_names_another() {
        let env = BTreeMap::from([("HOME".to_owned(), "/home/ada".to_owned())]);
        let workflow = Path::new("/code/WORKFLOW.md");
        let mut settings =
            Settings::new("memory", StateSet::default(), StateSet::default(), "/w".into());
        let folder = service_folder(workflow, &env).unwrap();
        assert_eq!(path(&settings, workflow, &env), Ok(folder.join("symphony.db")));
        let refused = path(&settings, workflow, &BTreeMap::new()).unwrap_err();
        assert!(refused.to_string().contains("storage.path"), "{refused}");
        settings.storage.path = Some("/var/here.db".into());
        assert_eq!(path(&settings, workflow, &env), Ok("/var/here.db".into()));
    }
}
