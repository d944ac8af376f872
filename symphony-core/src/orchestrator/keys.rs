//! Which issue holds which folder: never two (contract 5.1, 6.2, 6.5).

use crate::issue::{Issue, IssueId};
use crate::workspace::{InvalidKey, LONGEST_NAME, WorkspaceKey, WorkspaceRecord};

use super::Orchestrator;
use super::claim::Stage;

impl Orchestrator {
    /// The folder of an issue: the recorded one for the life of its record (contract 6.5).
    pub(super) fn key_for(&self, issue: &Issue) -> Result<WorkspaceKey, InvalidKey> {
        match self.record(&issue.id) {
            Some(record) => Ok(record.key.clone()),
            None => WorkspaceKey::derive(issue.identifier.as_str()),
        }
    }

    /// The record of an issue. The same id in another scope is another issue.
    pub(super) fn record(&self, id: &IssueId) -> Option<&WorkspaceRecord> {
        self.records.get(&self.configuration.scope)?.get(id)
    }

    /// A folder is gone, and so is what was known of it.
    pub(super) fn forget_record(&mut self, id: &IssueId, key: &WorkspaceKey) {
        for here in self.records.values_mut() {
            if here.get(id).is_some_and(|record| record.key == *key) {
                here.remove(id);
            }
        }
    }

    /// Another issue that holds the folder of this one. Asked of every candidate, so it allocates
    /// only where the identifier is no folder's name.
    pub(super) fn folder_owner(&self, issue: &Issue) -> Result<Option<&IssueId>, InvalidKey> {
        let id = &issue.id;
        let mut buffer = [0; LONGEST_NAME];
        let owner = match WorkspaceKey::folded_plain(issue.identifier.as_str(), &mut buffer) {
            Some(folded) if self.record(id).is_none() => self.keys.get(folded),
            _ => self.key_owner(&self.key_for(issue)?),
        };
        // The same id may have a folder in another scope: that is another issue's.
        let is_mine = |owner: &IssueId| {
            *owner == *id && (self.record(id).is_some() || self.records_of(id).next().is_none())
        };
        Ok(owner.filter(|owner| !is_mine(owner)))
    }

    /// The records of an id, in every scope.
    fn records_of(&self, id: &IssueId) -> impl Iterator<Item = &WorkspaceRecord> {
        self.records.values().filter_map(|here| here.get(id))
    }

    /// The issue that holds a folder: by a record, a live run or a removal.
    pub(super) fn key_owner(&self, key: &WorkspaceKey) -> Option<&IssueId> {
        self.keys.get(&key.folded())
    }

    /// The claim takes its folder.
    pub(super) fn own_key(&mut self, id: &IssueId) {
        if let Some(claim) = self.claims.get(id) {
            self.keys.insert(claim.key.folded(), id.clone());
        }
    }

    /// Gives a folder back, unless a record or the live claim of the issue holds it.
    pub(super) fn free_key(&mut self, id: &IssueId, key: &WorkspaceKey) {
        let folded = key.folded();
        let is_recorded = self.records_of(id).any(|record| record.key.folded() == folded);
        let is_live = self.claims.get(id).is_some_and(|claim| {
            claim.key.folded() == folded
                && matches!(
                    claim.stage,
                    Stage::Running { .. } | Stage::Stopping { .. } | Stage::Cleaning { .. }
                )
        });
        if !is_recorded && !is_live && self.keys.get(&folded) == Some(id) {
            self.keys.remove(&folded);
            // On another machine, or where case matters, two records may share a name.
            let mut records = self.records.values().flat_map(|here| here.values());
            let heir = records.find(|record| record.key.as_str().eq_ignore_ascii_case(&folded));
            if let Some(heir) = heir.map(|record| record.issue.clone()) {
                self.keys.insert(folded, heir);
            }
        }
    }
}
