//! Reads of the tracker: at most one open per purpose, each answered once, and only if it is still
//! the one that was asked (contract 4.3, 4.8).

mod answer;
mod jobs;
mod refill;
mod turns;

use std::collections::BTreeMap;

use crate::issue::IssueId;
use crate::run::RunId;
use crate::time::Mono;
use crate::tracker::Purpose;

use super::{Generation, ReadId};

pub(super) use answer::{Found, Seen, asked_upkeep_wait, asked_wait, no_answer};
pub(super) use jobs::{JobPace, Jobs, PollParts, RESTART_PAUSE};
pub(super) use refill::Refill;
pub(super) use turns::TurnReads;

/// The open reads, and what says when the next ones go out.
#[derive(Debug, Default)]
pub(super) struct Reads {
    open: BTreeMap<ReadId, OpenRead>,
    pub(super) jobs: Jobs,
    pub(super) turns: TurnReads,
    pub(super) refill: Refill,
}

/// An open read.
#[derive(Debug)]
struct OpenRead {
    generation: Generation,
    asked: Asked,
}

/// What a read was asked for, and which claims or runs its answer belongs to.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Poll(PollParts),
    Check {
        chosen: Vec<IssueId>,
    },
    Turn {
        runs: Vec<RunId>,
    },
    Strays,
    /// Claims that deliveries are about, with the version they had; and other issues.
    Delivery {
        claimed: Vec<(IssueId, u64)>,
        others: Vec<IssueId>,
    },
    /// Asked of a tracker that is gone: its requests count, its answer does not.
    Abandoned(Purpose),
}

impl Asked {
    /// Returns what the requests of this read are counted as.
    pub(super) const fn purpose(&self) -> Purpose {
        match self {
            Self::Poll(parts) => parts.purpose(),
            Self::Check { .. } => Purpose::Check,
            Self::Turn { .. } => Purpose::Turn,
            Self::Strays => Purpose::Sweep,
            Self::Delivery { .. } => Purpose::Delivery,
            Self::Abandoned(purpose) => *purpose,
        }
    }

    /// Returns the purpose under which a failure of the issues asked for by id is told; `None`
    /// where none are asked for.
    pub(super) fn purpose_by_id(&self) -> Option<Purpose> {
        match self {
            Self::Poll(parts) if !parts.asks_by_id() => None,
            Self::Poll(parts) if parts.refresh.is_some() => Some(Purpose::Refresh),
            Self::Poll(_) => Some(Purpose::Sweep),
            Self::Check { .. } | Self::Turn { .. } | Self::Delivery { .. } => Some(self.purpose()),
            Self::Strays | Self::Abandoned(_) => None,
        }
    }
}

impl Reads {
    /// Opens a read.
    pub(super) fn open(&mut self, read: ReadId, generation: Generation, asked: Asked, now: Mono) {
        match &asked {
            Asked::Check { chosen } => self.refill.open(chosen.len(), now),
            Asked::Turn { .. } => self.turns.set_open(true),
            Asked::Poll(_) | Asked::Strays | Asked::Delivery { .. } | Asked::Abandoned(_) => {}
        }
        self.open.insert(read, OpenRead { generation, asked });
    }

    /// Closes a read that came back. Returns what it was asked for, the first time.
    pub(super) fn close(&mut self, read: ReadId) -> Option<Asked> {
        let OpenRead { asked, .. } = self.open.remove(&read)?;
        self.release(&asked);
        Some(asked)
    }

    /// Abandons the reads of a tracker that was rebuilt: its answers are ignored, and so are its
    /// failures (contract 4.8). Returns what was asked of it.
    pub(super) fn abandon(&mut self, in_force: Generation) -> Vec<(ReadId, Asked)> {
        let mut old = Vec::new();
        for (read, open) in &mut self.open {
            if open.generation != in_force {
                let gone = Asked::Abandoned(open.asked.purpose());
                old.push((*read, std::mem::replace(&mut open.asked, gone)));
            }
        }
        for (_, asked) in &old {
            self.release(asked);
            if let Asked::Poll(parts) = asked {
                self.jobs.abandon(parts);
            }
        }
        self.jobs.forget_failures();
        self.refill.forget_failures();
        old
    }

    /// Lets the next read of its kind go out.
    fn release(&mut self, asked: &Asked) {
        match asked {
            Asked::Check { .. } => self.refill.close(),
            Asked::Turn { .. } => self.turns.set_open(false),
            // How a job ended is told to it with its answer.
            Asked::Poll(_) | Asked::Strays | Asked::Delivery { .. } | Asked::Abandoned(_) => {}
        }
    }

    /// Removes an issue that is claimed now from open sweeps and reads because of deliveries: what
    /// they say of it is outdated, also when the claim is gone by then.
    pub(super) fn forget_unclaimed(&mut self, id: &IssueId) {
        for open in self.open.values_mut() {
            match &mut open.asked {
                Asked::Poll(PollParts { sweep: Some(ids), .. })
                | Asked::Delivery { others: ids, .. } => ids.retain(|other| other != id),
                _ => {}
            }
        }
    }

    /// Whether folders without a record are being compared with terminal issues.
    pub(super) fn is_matching_strays(&self) -> bool {
        self.open.values().any(|open| matches!(open.asked, Asked::Strays))
    }

    /// Whether an issue is being read because a delivery is about it.
    pub(super) fn is_delivery(&self, id: &IssueId) -> bool {
        self.open.values().any(|open| match &open.asked {
            Asked::Delivery { claimed, others } => {
                others.contains(id) || claimed.iter().any(|(known, _)| known == id)
            }
            _ => false,
        })
    }
}
