//! Which issue holds which folder: never two (contract 5.1, 6.2, 6.5).

use crate::issue::{Issue, IssueId};
use crate::workspace::{InvalidKey, LONGEST_KEY, WorkspaceKey};

use super::Orchestrator;
use super::claim::Stage;

impl Orchestrator {
    /// The folder of an issue: the recorded one for the life of its record (contract 6.5).
    pub(super) fn key_for(&self, issue: &Issue) -> Result<WorkspaceKey, InvalidKey> {
        match self.records.get(&issue.id) {
            Some(record) => Ok(record.key.clone()),
            None => WorkspaceKey::derive(issue.identifier.as_str()),
        }
    }

    /// The issue that holds a folder: by a record, a live run or a removal.
    pub(super) fn key_owner(&self, key: &WorkspaceKey) -> Option<&IssueId> {
        self.keys.get(&key.folded())
    }

    /// The issue that holds the folder of this one. Asked of every candidate, so it allocates only
    /// where the identifier is no folder's name.
    pub(super) fn folder_owner(&self, issue: &Issue) -> Result<Option<&IssueId>, InvalidKey> {
        let mut buffer = [0; LONGEST_KEY];
        match WorkspaceKey::folded_plain(issue.identifier.as_str(), &mut buffer) {
            Some(folded) if !self.records.contains_key(&issue.id) => Ok(self.keys.get(folded)),
            _ => Ok(self.key_owner(&self.key_for(issue)?)),
        }
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
        let is_recorded = self.records.get(id).is_some_and(|rec| rec.key.folded() == folded);
        let is_live = self.claims.get(id).is_some_and(|claim| {
            claim.key.folded() == folded
                && matches!(
                    claim.stage,
                    Stage::Running { .. } | Stage::Stopping { .. } | Stage::Cleaning { .. }
                )
        });
        if !is_recorded && !is_live && self.keys.get(&folded) == Some(id) {
            self.keys.remove(&folded);
        }
    }
}
