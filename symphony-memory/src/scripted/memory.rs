//! Conversations in files: an agent that still knows them after its process has ended.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use symphony_core::WorkspaceKey;
use symphony_core::agent::{ClientTurnId, LastTurn, LastTurnState, ThreadId, Tokens};

use super::Conversation;

/// A folder with a file for each conversation.
#[derive(Debug)]
pub(super) struct Memory(pub(super) PathBuf);

/// A line of such a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remark {
    /// The conversation began, or was resumed.
    Opened,
    /// A turn was submitted.
    Asked { client_id: ClientTurnId, prompt: String },
    /// The turn that was asked last is over.
    Ended { completed: bool },
    /// The tokens used so far.
    Used(Tokens),
}

impl Memory {
    /// Adds a line. It is in the file when this returns, whatever becomes of the process.
    pub(super) fn note(&self, thread: &ThreadId, remark: &Remark) {
        let (Some(path), Ok(line)) = (self.file(thread), serde_json::to_string(remark)) else {
            return;
        };
        let written = fs::create_dir_all(&self.0).and_then(|()| {
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            file.write_all(format!("{line}\n").as_bytes())
        });
        if let Err(error) = written {
            tracing::warn!(%error, "a scripted agent cannot remember its conversation");
        }
    }

    /// Returns what is known of a conversation; `None` if there never was one.
    pub(super) fn recall(&self, thread: &ThreadId) -> Option<Conversation> {
        let text = fs::read_to_string(self.file(thread)?).ok()?;
        let mut known = Conversation::default();
        for remark in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match remark {
                Remark::Opened => {}
                Remark::Asked { client_id, .. } => {
                    known.last_turn =
                        Some(LastTurn::new(Some(client_id), LastTurnState::Interrupted));
                }
                Remark::Ended { completed } => {
                    if let Some(last) = &mut known.last_turn {
                        last.state = ended(completed);
                    }
                }
                Remark::Used(tokens) => known.used = tokens,
            }
        }
        Some(known)
    }

    fn file(&self, thread: &ThreadId) -> Option<PathBuf> {
        let name = WorkspaceKey::derive(thread.as_str()).ok()?;
        Some(self.0.join(format!("{}.jsonl", name.as_str())))
    }
}

const fn ended(completed: bool) -> LastTurnState {
    if completed { LastTurnState::Completed } else { LastTurnState::Failed }
}
