//! Folders and records on disk: what survives when the service is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use symphony_core::orchestrator::{Event, Removal, RemovalId, Start, Workspaces};
use symphony_core::{Failure, FailureKind, HostId, Scope, WorkspaceKey, WorkspaceRecord};

use crate::faults::{Fault, Luck};
use crate::plan::Plan;
use crate::violation::{Check, ensure};

/// The workspace roots that files name.
pub(crate) const ROOTS: [&str; 2] = ["/work/one", "/work/two"];

/// The folder of a key under a root.
pub(crate) fn path_of(root: &str, host: &HostId, key: &WorkspaceKey) -> PathBuf {
    PathBuf::from(root).join(host.as_str()).join(key.as_str())
}

#[derive(Debug)]
struct SimFolder {
    key: WorkspaceKey,
    record: Option<WorkspaceRecord>,
    /// How often its removal will still fail.
    stuck: u32,
}

/// Everything on disk.
#[derive(Debug)]
pub(crate) struct SimDisk {
    folders: BTreeMap<PathBuf, SimFolder>,
    /// What a person deleted behind our back.
    deleted: BTreeSet<PathBuf>,
    removals: BTreeMap<RemovalId, PathBuf>,
    pub(crate) luck: Luck,
}

impl SimDisk {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut disk = Self {
            folders: BTreeMap::new(),
            deleted: BTreeSet::new(),
            removals: BTreeMap::new(),
            luck: Luck::new(plan.seed, 4, plan.faults),
        };
        for number in 1..=plan.issues.min(4) {
            if disk.luck.strikes(Fault::Stray, 200) {
                let name = if number == 4 { "notes".to_owned() } else { format!("MT-{number}") };
                disk.add_stray(ROOTS[0], &WorkspaceKey::derive(&name).expect("a plain name"));
            }
        }
        disk
    }

    /// Makes a folder without a record.
    pub(crate) fn add_stray(&mut self, root: &str, key: &WorkspaceKey) {
        let path = path_of(root, &HostId::local(), key);
        let folder = SimFolder { key: key.clone(), record: None, stuck: 0 };
        self.folders.entry(path).or_insert(folder);
    }

    /// Makes or reuses the folder of a run and writes its record, and says whether it is new.
    pub(crate) fn prepare(
        &mut self,
        start: &Start,
        scope: &Scope,
        root: &str,
    ) -> (WorkspaceRecord, bool) {
        let record = start.record.clone().unwrap_or_else(|| WorkspaceRecord {
            issue: start.issue.id.clone(),
            identifier: start.issue.identifier.clone(),
            scope: scope.clone(),
            host: start.host.clone(),
            key: start.key.clone(),
            path: path_of(root, &start.host, &start.key),
        });
        let created = !self.folders.contains_key(&record.path);
        let folder = SimFolder { key: record.key.clone(), record: None, stuck: 0 };
        let folder = self.folders.entry(record.path.clone()).or_insert(folder);
        folder.record = Some(record.clone());
        self.deleted.remove(&record.path);
        (record, created)
    }

    /// A new folder is taken back, record and all.
    pub(crate) fn take_back(&mut self, record: &WorkspaceRecord) {
        self.folders.remove(&record.path);
    }

    /// Begins a removal and says how many milliseconds it takes.
    pub(crate) fn remove(
        &mut self,
        id: RemovalId,
        what: &Removal,
        root: &str,
    ) -> Result<u64, crate::violation::Violation> {
        let path = match what {
            Removal::Recorded(record) => record.path.clone(),
            Removal::Stray(key) => path_of(root, &HostId::local(), key),
        };
        self.check_removal(&path)?;
        self.removals.insert(id, path);
        let slow = self.luck.strikes(Fault::RemovalSlow, 150);
        Ok(if slow {
            self.luck.rng.between(10_000, 400_000)
        } else {
            self.luck.rng.between(1, 2_000)
        })
    }

    fn check_removal(&self, path: &PathBuf) -> Check {
        ensure!(
            !self.removals.values().any(|open| open == path),
            "one removal at a time",
            "{} is being removed already",
            path.display()
        );
        ensure!(
            self.folders.contains_key(path) || self.deleted.contains(path),
            "a workspace is removed once",
            "{} is gone already",
            path.display()
        );
        Ok(())
    }

    /// Ends a removal.
    pub(crate) fn removed(&mut self, id: RemovalId) -> Option<Event> {
        let path = self.removals.remove(&id)?;
        let stuck = self.folders.get_mut(&path).map_or(0, |folder| {
            let stuck = folder.stuck;
            folder.stuck = stuck.saturating_sub(1);
            stuck
        });
        let fails = stuck > 0 || self.luck.strikes(Fault::RemovalFailed, 120);
        if !fails {
            self.folders.remove(&path);
            self.deleted.remove(&path);
            return Some(Event::Removed { removal: id, outcome: Ok(()) });
        }
        if stuck == 0
            && self.luck.rng.per_mille(500)
            && let Some(folder) = self.folders.get_mut(&path)
        {
            folder.stuck = 3;
        }
        let failure = Failure::new(FailureKind::Workspace, "busy");
        Some(Event::Removed { removal: id, outcome: Err(failure) })
    }

    /// The service is gone: a removal may have got through or not.
    pub(crate) fn forget_life(&mut self) {
        for path in std::mem::take(&mut self.removals).into_values() {
            if self.luck.rng.per_mille(500) {
                self.folders.remove(&path);
            }
        }
        self.deleted.clear();
    }

    /// A person deletes a folder, with or without its record.
    pub(crate) fn meddle(&mut self) {
        let busy: Vec<_> = self.removals.values().cloned().collect();
        let paths: Vec<_> =
            self.folders.keys().filter(|path| !busy.contains(path)).cloned().collect();
        if paths.is_empty() {
            return;
        }
        let path = &paths[self.luck.rng.index(paths.len())];
        if self.luck.strikes(Fault::FolderDeleted, 500) {
            self.folders.remove(path);
            self.deleted.insert(path.clone());
        } else if self.luck.strikes(Fault::RecordLost, 500)
            && let Some(folder) = self.folders.get_mut(path)
        {
            folder.record = None;
        }
    }

    /// What is found under a root at start.
    pub(crate) fn found(&mut self, root: &str) -> Workspaces {
        let mut workspaces = Workspaces::default();
        for (path, folder) in self.folders.iter().filter(|(path, _)| path.starts_with(root)) {
            match &folder.record {
                Some(record) => workspaces.records.push(record.clone()),
                None if *path == path_of(root, &HostId::local(), &folder.key) => {
                    workspaces.strays.push(folder.key.clone())
                }
                None => {}
            }
        }
        if !workspaces.strays.is_empty() {
            self.luck.tally.count(Fault::Stray);
        }
        workspaces
    }

    /// The records under a root.
    pub(crate) fn records(&self, root: &str) -> impl Iterator<Item = &WorkspaceRecord> {
        let here = self.folders.iter().filter(move |(path, _)| path.starts_with(root));
        here.filter_map(|(_, folder)| folder.record.as_ref())
    }

    /// From now on every removal works.
    pub(crate) fn calm(&mut self) {
        self.luck.calm();
        for folder in self.folders.values_mut() {
            folder.stuck = 0;
        }
    }
}
