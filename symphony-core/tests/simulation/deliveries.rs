//! The expected deliveries (contract 12.8): which issues are still to be read, and what a read makes
//! of the kept list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::{Configuration, ReadId};
use symphony_core::snapshot::WebhookView;
use symphony_core::time::{Mono, Now};
use symphony_core::tracker::{Candidates, IssuesById};
use symphony_core::{Failure, Issue, IssueId};

use crate::claims::Entry;
use crate::eligibility::{is_active, is_terminal};
use crate::oracle::{Kept, Oracle};
use crate::reads::{Purpose, Said, Sayings};
use crate::violation::{Check, ensure};

/// When more than so many wait, polls come early instead.
const MAX_BATCH: usize = 50;

/// A read that fails so often is left to the polls.
const MAX_ATTEMPTS: u32 = 3;

/// Deliveries of the tracker in force.
#[derive(Debug, Default)]
pub(crate) struct DeliveryModel {
    /// What is to be read.
    pub(crate) wanted: BTreeSet<IssueId>,
    /// What the next list is to tell of, unless it is cut off.
    left_to_list: BTreeSet<IssueId>,
    asked: Option<Mono>,
    failures: u32,
    last: Option<Now>,
    received: u64,
    /// Issues that were claimed and seen to be over: what waited for them may be read.
    pub(crate) over: BTreeSet<IssueId>,
    /// Issues that an earlier list showed as waiting for one that was over.
    let_go: BTreeSet<IssueId>,
    /// A read of this step, until it is known which issues were claimed.
    unsettled: Option<ReadId>,
}

/// What a read because of a delivery said of an issue.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) read: ReadId,
    /// The issue, if a list would name it.
    pub(crate) listed: Option<Arc<Issue>>,
    pub(crate) over: bool,
}

impl Kept {
    pub(crate) fn told_since(&self, id: &IssueId, read: u64) -> Option<&Told> {
        self.delivered.get(id).filter(|told| told.read.0 > read)
    }

    /// The list is what it would be if it had been asked for with the later reads.
    pub(crate) fn revise(&mut self) {
        self.list.retain(|issue| !self.delivered.contains_key(&issue.id));
        self.list.extend(self.delivered.values().filter_map(|told| told.listed.clone()));
    }
}

/// Whether an issue is listed as blocked by one of these.
fn waits_for_any(issue: &Issue, over: &BTreeSet<IssueId>) -> bool {
    issue.blocked_by.iter().filter_map(|blocker| blocker.id.as_ref()).any(|id| over.contains(id))
}

impl Oracle {
    pub(crate) fn delivered(&mut self, issues: &[IssueId]) {
        let model = &mut self.deliveries;
        model.last = Some(self.now);
        model.received += 1;
        model.wanted.extend(issues.iter().cloned());
        if model.wanted.len() > MAX_BATCH {
            model.wanted.clear();
            self.pace.excuse(self.now.mono);
        }
    }

    /// A read of these issues goes out.
    pub(crate) fn read_by_id(&mut self, ids: &[&IssueId]) {
        self.deliveries.wanted.retain(|id| !ids.contains(&id));
        self.deliveries.left_to_list.retain(|id| !ids.contains(&id));
    }

    /// A list of all candidates goes out: it will tell of every unclaimed issue.
    pub(crate) fn leave_to_list(&mut self, claimed: impl Fn(&IssueId) -> bool) {
        let wanted = std::mem::take(&mut self.deliveries.wanted);
        let (wanted, left): (BTreeSet<_>, BTreeSet<_>) = wanted.into_iter().partition(claimed);
        self.deliveries.wanted = wanted;
        self.deliveries.left_to_list.extend(left);
        if self.deliveries.left_to_list.len() > MAX_BATCH {
            self.deliveries.left_to_list.clear();
        }
    }

    /// A list comes: what may stand beyond its end is still to be read, and what the list before it
    /// showed as waiting may be.
    pub(crate) fn list_delivered(&mut self, list: &Candidates) {
        let over = &self.deliveries.over;
        let let_go = self.kept.list.iter().filter(|issue| waits_for_any(issue, over));
        self.deliveries.let_go.extend(let_go.map(|issue| issue.id.clone()));
        let left = std::mem::take(&mut self.deliveries.left_to_list);
        let is_listed = |id: &IssueId| list.issues.iter().any(|issue| issue.id == *id);
        let beyond = |id: &IssueId| list.more && !is_listed(id) && !self.claims.contains_key(id);
        self.deliveries.wanted.extend(left.into_iter().filter(beyond));
    }

    /// A read because of deliveries goes out: only for what they are about, or what waits for that.
    pub(crate) fn delivery_asked(&mut self, read: ReadId, ids: &[IssueId]) -> Check {
        let gap = self.config.min_read_gap;
        let now = self.now.mono;
        for id in ids {
            let wanted = |id: &IssueId| self.deliveries.wanted.contains(id);
            // As listed, or as a read before a start has shown it since.
            let newer = self.kept.newer.get(id).into_iter().flatten();
            let newer = newer.filter_map(|(_, view)| view.as_ref());
            let waits_for_one = self.kept.list.iter().chain(newer).any(|issue| {
                let mut blockers =
                    issue.blocked_by.iter().filter_map(|blocker| blocker.id.as_ref());
                issue.id == *id && blockers.any(|other| ids.contains(other) && wanted(other))
            });
            let newer = self.kept.newer.get(id).into_iter().flatten();
            let newer = newer.filter_map(|(_, view)| view.as_ref());
            let is_let_go =
                self.deliveries.let_go.remove(id)
                    || self.kept.list.iter().chain(newer).any(|issue| {
                        issue.id == *id && waits_for_any(issue, &self.deliveries.over)
                    });
            ensure!(
                self.deliveries.wanted.contains(id) || waits_for_one || is_let_go,
                "a delivery is read once (12.8)",
                "{id} of {ids:?}, wanted {:?}",
                self.deliveries.wanted
            );
            let free = !self.claims.contains_key(id);
            ensure!(
                !free || (self.valid && self.free_slots() > 0),
                "no candidates without a slot or on an invalid file (4.5)",
                "{id}"
            );
        }
        let since = self.deliveries.asked.map(|last| now.since(last));
        ensure!(
            since.is_none_or(|since| since >= gap),
            "reads keep the tracker's least gap (12.8)",
            "{since:?}"
        );
        self.deliveries.asked = Some(now);
        self.deliveries.unsettled = Some(read);
        self.pace.read(now);
        Ok(())
    }

    /// Which of a read's issues were claimed shows when the step is settled.
    pub(crate) fn settle_delivery(&mut self, before: &BTreeMap<IssueId, Entry>) {
        let read = self.deliveries.unsettled.take();
        let Some(model) = read.and_then(|read| self.reads.get_mut(&read)) else {
            return;
        };
        if let Purpose::Delivery { claimed, others } = &mut model.purpose {
            let (known, free): (Vec<_>, Vec<_>) = others
                .drain(..)
                .partition(|id| self.claims.contains_key(id) && before.contains_key(id));
            (*claimed, *others) = (known, free);
        }
    }

    pub(crate) fn delivery_answered(
        &mut self,
        read: ReadId,
        claimed: &[IssueId],
        others: &[IssueId],
        part: Option<&Result<IssuesById, Failure>>,
    ) {
        let ids = || claimed.iter().chain(others);
        let Some(Ok(by_id)) = part else {
            let model = &mut self.deliveries;
            model.failures += 1;
            if model.failures < MAX_ATTEMPTS {
                model.wanted.extend(ids().cloned());
            } else {
                model.failures = 0;
                model.wanted.clear();
            }
            return;
        };
        self.deliveries.failures = 0;
        let sayings = Sayings::new(by_id);
        for id in ids() {
            self.revise(read, id, &sayings.of(id));
        }
        self.kept.revise();
        for id in
            claimed.iter().filter(|id| self.claims.contains_key(*id)).cloned().collect::<Vec<_>>()
        {
            self.reread(read, &id, &sayings.of(&id));
        }
        for id in
            others.iter().filter(|id| !self.claims.contains_key(*id)).cloned().collect::<Vec<_>>()
        {
            self.reread(read, &id, &sayings.of(&id));
        }
    }

    fn revise(&mut self, read: ReadId, id: &IssueId, said: &Said<'_>) {
        if self.kept.read > read || self.kept.read_at.is_none() || self.kept.forgotten {
            self.newer(read, id, said);
            return;
        }
        let settings = Arc::clone(&self.config.settings);
        let (listed, over) = match said {
            Said::Unreadable => return self.newer(read, id, said),
            Said::Absent => (None, false),
            Said::Issue(issue) => {
                let active = is_active(&issue.state, &settings);
                (active.then(|| Arc::new((*issue).clone())), is_terminal(&issue.state, &settings))
            }
        };
        self.step.revised = true;
        self.kept.delivered.insert(id.clone(), Told { read, listed, over });
        // What was known of it is older, but for what a later read said.
        if let Some(views) = self.kept.newer.get_mut(id) {
            views.retain(|(by, _)| *by > read);
            if views.is_empty() {
                self.kept.newer.remove(id);
            }
        }
        for known in [&mut self.kept.rejected, &mut self.kept.failed] {
            if known.get(id).is_some_and(|by| *by < read) {
                known.remove(id);
            }
        }
    }

    /// Another tracker begins anew; another scope has other issues.
    pub(crate) fn reloaded_deliveries(&mut self, config: &Configuration) {
        let (old, new) = (&self.config.settings.tracker, &config.settings.tracker);
        let another = config.generation != self.config.generation;
        if another
            || config.scope != self.config.scope
            || old.active_states != new.active_states
            || old.terminal_states != new.terminal_states
            || old.required_labels != new.required_labels
        {
            self.kept.delivered.clear();
            self.kept.forgotten = true;
        }
        if another {
            let mut wanted = std::mem::take(&mut self.deliveries.wanted);
            wanted.append(&mut self.deliveries.left_to_list);
            let open = self.reads.values().filter(|open| open.generation == self.config.generation);
            for open in open {
                if let Purpose::Delivery { claimed, others } = &open.purpose {
                    wanted.extend(claimed.iter().chain(others).cloned());
                }
            }
            let over = std::mem::take(&mut self.deliveries.over);
            self.deliveries = DeliveryModel { wanted, over, ..DeliveryModel::default() };
        }
        if config.scope != self.config.scope {
            self.deliveries.wanted.clear();
            self.deliveries.left_to_list.clear();
        }
    }

    /// What the snapshot shows of deliveries.
    pub(crate) fn check_deliveries(&self, shown: Option<&WebhookView>) -> Check {
        let model = &self.deliveries;
        ensure!(
            shown.is_some() == model.last.is_some(),
            "the snapshot equals the world",
            "{shown:?} for {model:?}"
        );
        let (Some(shown), Some(last)) = (shown, model.last) else {
            return Ok(());
        };
        ensure!(
            (shown.last, shown.received, shown.waiting)
                == (last.wall, model.received, model.wanted.len()),
            "the snapshot equals the world",
            "{shown:?} for {model:?}"
        );
        let silent = self.now.mono.since(last.mono) >= Duration::from_secs(3600);
        ensure!(
            !(shown.healthy && silent),
            "deliveries are healthy for an hour (12.8)",
            "{shown:?}"
        );
        Ok(())
    }
}
