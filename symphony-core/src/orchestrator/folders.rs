//! Workspaces on disk: what is recorded of them, which issue holds which folder, never two of one
//! (contract 5.1, 6.2, 6.5), and which folders belong to nothing that is known (4.2).

use std::collections::BTreeMap;

use crate::issue::{Issue, IssueId};
use crate::workspace::{InvalidKey, MAX_NAME_BYTES, Scope, WorkspaceKey, WorkspaceRecord};

use super::claims::{Claim, Claims};
use super::{Removal, Workspaces};

/// What is known of the folders under the workspace roots, as the scope in force sees it.
#[derive(Debug)]
pub(super) struct Folders {
    scope: Scope,
    /// By scope, because the same id in another scope is another issue.
    records: BTreeMap<Scope, BTreeMap<IssueId, WorkspaceRecord>>,
    /// The issue that holds each folder, by the key's folded form: by a record, a live run or a
    /// removal.
    keys: BTreeMap<String, IssueId>,
    /// Folders under the root in force that have no record.
    strays: Vec<WorkspaceKey>,
    strays_matched: bool,
    strays_told: bool,
}

impl Folders {
    pub(super) fn new(scope: Scope, workspaces: Workspaces) -> Self {
        let mut this = Self {
            scope,
            records: BTreeMap::new(),
            keys: BTreeMap::new(),
            strays: Vec::new(),
            strays_matched: false,
            strays_told: false,
        };
        this.take_over(workspaces);
        this
    }

    /// Enters another scope: records of the old one are kept, and are not seen.
    pub(super) fn enter_scope(&mut self, scope: &Scope) {
        self.scope.clone_from(scope);
    }

    /// Takes over what is on disk. Records that are known already stay as they are.
    pub(super) fn take_over(&mut self, workspaces: Workspaces) {
        for record in workspaces.records {
            let here = self.records.entry(record.scope.clone()).or_default();
            if here.contains_key(&record.issue) {
                continue;
            }
            self.keys.entry(record.key.folded()).or_insert_with(|| record.issue.clone());
            here.insert(record.issue.clone(), record);
        }
        self.strays = workspaces.strays;
        self.strays_matched = false;
        self.strays_told = false;
    }

    /// Returns the record of an issue. The same id in another scope is another issue.
    pub(super) fn record(&self, id: &IssueId) -> Option<&WorkspaceRecord> {
        self.records.get(&self.scope)?.get(id)
    }

    /// Returns the issues that have a record in the scope in force.
    fn recorded(&self) -> impl Iterator<Item = &IssueId> {
        self.records.get(&self.scope).into_iter().flat_map(BTreeMap::keys)
    }

    /// Returns the recorded issues that are not claimed, in the scope in force.
    pub(super) fn unclaimed<'a>(&'a self, claims: &'a Claims) -> impl Iterator<Item = &'a IssueId> {
        self.recorded().filter(|id| !claims.contains(id))
    }

    /// Whether another issue's run or removal is in the folder: where case does not matter, two
    /// names are one.
    pub(super) fn is_lived_in(&self, id: &IssueId, key: &WorkspaceKey, claims: &Claims) -> bool {
        let owner = self.owner(key).filter(|owner| *owner != id);
        owner.and_then(|owner| claims.get(owner)).is_some_and(Claim::is_in_folder)
    }

    /// Returns the records of an id, in every scope.
    fn records_of(&self, id: &IssueId) -> impl Iterator<Item = &WorkspaceRecord> {
        self.records.values().filter_map(|here| here.get(id))
    }

    /// Returns the folder of an issue: the recorded one for the life of its record (contract 6.5).
    pub(super) fn key_for(&self, issue: &Issue) -> Result<WorkspaceKey, InvalidKey> {
        match self.record(&issue.id) {
            Some(record) => Ok(record.key.clone()),
            None => WorkspaceKey::derive(issue.identifier.as_str()),
        }
    }

    /// Returns the issue that holds a folder: by a record, a live run or a removal.
    pub(super) fn owner(&self, key: &WorkspaceKey) -> Option<&IssueId> {
        self.keys.get(&key.folded())
    }

    /// Another issue that holds the folder of this one. Asked of every candidate, so it allocates
    /// only where the identifier is not a folder's name.
    pub(super) fn other_owner(&self, issue: &Issue) -> Result<Option<&IssueId>, InvalidKey> {
        let id = &issue.id;
        let mut buffer = [0; MAX_NAME_BYTES];
        let owner = match WorkspaceKey::folded_plain(issue.identifier.as_str(), &mut buffer) {
            Some(folded) if self.record(id).is_none() => self.keys.get(folded),
            _ => self.owner(&self.key_for(issue)?),
        };
        // The same id may have a folder in another scope: that is another issue's.
        let is_mine = |owner: &IssueId| {
            *owner == *id && (self.record(id).is_some() || self.records_of(id).next().is_none())
        };
        Ok(owner.filter(|owner| !is_mine(owner)))
    }

    /// Gives a folder to an issue, for a run or a removal.
    pub(super) fn hold(&mut self, key: &WorkspaceKey, id: &IssueId) {
        self.keys.insert(key.folded(), id.clone());
    }

    /// Takes a folder back, unless a record of the issue holds it.
    pub(super) fn free(&mut self, key: &WorkspaceKey, id: &IssueId) {
        let folded = key.folded();
        let is_recorded = self.records_of(id).any(|record| record.key.folded() == folded);
        if !is_recorded && self.keys.get(&folded) == Some(id) {
            self.keys.remove(&folded);
            // On another machine, or where case matters, two records may share a name.
            let mut records = self.records.values().flat_map(|here| here.values());
            let heir = records.find(|record| record.key.as_str().eq_ignore_ascii_case(&folded));
            if let Some(heir) = heir.map(|record| record.issue.clone()) {
                self.keys.insert(folded, heir);
            }
        }
    }

    /// Notes that a run's folder exists, with its record.
    pub(super) fn made(&mut self, record: WorkspaceRecord) {
        self.strays.retain(|stray| *stray != record.key);
        self.hold(&record.key, &record.issue);
        let here = self.records.entry(record.scope.clone()).or_default();
        here.insert(record.issue.clone(), record);
    }

    /// Notes that a run's new folder was removed again, with its record.
    pub(super) fn unmade(&mut self, scope: &Scope, id: &IssueId) {
        if let Some(here) = self.records.get_mut(scope) {
            here.remove(id);
        }
    }

    /// Notes that a folder was removed, and forgets what was known of it.
    pub(super) fn removed(&mut self, gone: &Removal) {
        if let Removal::Recorded(gone) = gone
            && let Some(here) = self.records.get_mut(&gone.scope)
            && here.get(&gone.issue).is_some_and(|record| record.path == gone.path)
        {
            here.remove(&gone.issue);
        }
        self.strays.retain(|stray| stray != gone.key());
    }

    /// Notes that a folder could not be removed: the next sweep looks for a stray again.
    pub(super) fn not_removed(&mut self, workspace: &Removal) {
        self.strays_matched &= !matches!(workspace, Removal::Stray(_));
    }

    /// Whether this is still what it was: under another root the same name is another folder.
    pub(super) fn has(&self, workspace: &Removal) -> bool {
        match workspace {
            Removal::Recorded(_) => true,
            Removal::Stray(key) => self.is_stray(key),
        }
    }

    pub(super) fn is_stray(&self, key: &WorkspaceKey) -> bool {
        self.strays.contains(key)
    }

    /// Whether there are folders without a record that were not compared with terminal issues yet.
    pub(super) fn has_unmatched_strays(&self) -> bool {
        !self.strays.is_empty() && !self.strays_matched
    }

    /// Notes that the folders without a record were compared with all terminal issues. Returns
    /// those that belong to none, the first time.
    pub(super) fn match_strays(&mut self) -> Vec<WorkspaceKey> {
        self.strays_matched = true;
        if std::mem::replace(&mut self.strays_told, true) {
            return Vec::new();
        }
        self.strays.iter().filter(|key| self.owner(key).is_none()).cloned().collect()
    }
}
