//! Which issues may start: slots, workspace keys, the read before a start and the order of starts
//! (contract 5, 7.3, 7.4).

use std::sync::Arc;

use symphony_core::orchestrator::{ReadId, Start};
use symphony_core::tracker::IssuesById;
use symphony_core::{Failure, HostId, Issue, IssueId, StateName, WorkspaceKey, WorkspaceRecord};

use crate::claims::{Outcome, Until, View};
use crate::eligibility::{is_terminal, obstacle};
use crate::oracle::{Judged, Oracle};
use crate::order::rank;
use crate::reads::{Purpose, Said, Sayings, asked_wait, failure_of};
use crate::violation::{Check, ensure};

/// The holder of a workspace key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Another issue, surely.
    Sure(IssueId),
    /// Another issue that is only being read, or has made no folder yet.
    Perhaps(IssueId),
}

impl Oracle {
    pub(crate) fn free_slots(&self) -> u64 {
        u64::from(self.settings().agent.max_concurrent_agents)
            .saturating_sub(self.runs.len() as u64)
    }

    /// Free slots that no open read before a start has reserved (6.2): candidates are asked for
    /// only while there is one (4.5).
    pub(crate) fn unreserved_slots(&self) -> u64 {
        let reserved = self.reads.values().map(|open| match &open.purpose {
            Purpose::Check(ids) if open.generation == self.config.generation => ids.len() as u64,
            _ => 0,
        });
        self.free_slots().saturating_sub(reserved.sum())
    }

    /// The state that a live run is counted by.
    fn state_of(&self, issue: &IssueId, at_start: &StateName) -> StateName {
        let tracked =
            self.claims.get(issue).filter(|entry| matches!(entry.view, View::Running { .. }));
        tracked.map_or_else(|| at_start.clone(), |entry| entry.issue.state.clone())
    }

    pub(crate) fn used_by_state(&self, state: &StateName) -> u32 {
        let runs = self
            .runs
            .values()
            .filter(|model| self.state_of(&model.issue, &model.state_at_start) == *state);
        u32::try_from(runs.count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn used_by_host(&self, host: &HostId) -> u32 {
        let runs = self.runs.values().filter(|model| model.host == *host);
        u32::try_from(runs.count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn state_slot(&self, state: &StateName) -> bool {
        let limit = self.settings().agent.max_concurrent_agents_by_state.get(state);
        limit.is_none_or(|limit| self.used_by_state(state) < *limit)
    }

    fn host_free(&self, host: &HostId) -> i64 {
        let limit = self.settings().hosts.iter().find(|limit| limit.id == *host);
        let limit = match limit {
            Some(limit) => i64::from(limit.max_agents),
            // No hosts are configured: this machine, without a limit of its own.
            None if self.settings().hosts.is_empty() && *host == HostId::local() => i64::MAX,
            None => 0,
        };
        limit.saturating_sub(i64::from(self.used_by_host(host)))
    }

    /// Whether a host has room for the issue: its record's, or any. Where it is open which record
    /// it has, both are asked.
    pub(crate) fn host_slot(&self, issue: &IssueId) -> bool {
        let hosts = &self.settings().hosts;
        let anywhere = hosts.is_empty() || hosts.iter().any(|host| self.host_free(&host.id) > 0);
        let room = |record: &Option<WorkspaceRecord>| match record {
            Some(record) => self.host_free(&record.host) > 0,
            None => anywhere,
        };
        self.records.get(issue).map_or(anywhere, |possible| possible.iter().all(room))
    }

    /// Whether anything at all may start now.
    pub(crate) fn may_start(&self) -> bool {
        let agent = &self.settings().agent.kind;
        self.valid
            && !self.paused
            && !self.shutting_down
            && !self.storage
            && !self.holds.holds(agent, self.now.mono)
    }

    /// Whether this issue has every slot it needs.
    pub(crate) fn slots_for(&self, issue: &Issue) -> bool {
        self.free_slots() > 0 && self.state_slot(&issue.state) && self.host_slot(&issue.id)
    }

    /// The key the issue would work in, where there is one.
    pub(crate) fn key_of(&self, issue: &Issue) -> Option<WorkspaceKey> {
        let recorded = self.records.get(&issue.id).into_iter().flatten().flatten().next();
        match recorded {
            Some(record) => Some(record.key.clone()),
            None => WorkspaceKey::derive(issue.identifier.as_str()).ok(),
        }
    }

    /// Another issue that holds the key (5.1).
    pub(crate) fn holder(&self, issue: &IssueId, key: &WorkspaceKey) -> Option<Holder> {
        let folded = key.folded();
        let records = self.records.iter().filter(|(other, _)| *other != issue);
        for (other, possible) in records {
            let here = possible.iter().flatten().any(|record| record.key.folded() == folded);
            if here {
                // With records of its own, or of another root, the folders may differ.
                let sure = possible.len() == 1 && !self.records.contains_key(issue);
                return Some(if sure {
                    Holder::Sure(other.clone())
                } else {
                    Holder::Perhaps(other.clone())
                });
            }
        }
        let run =
            self.runs.values().find(|model| model.issue != *issue && model.key.folded() == folded);
        if let Some(model) = run {
            return Some(Holder::Sure(model.issue.clone()));
        }
        let removal = self.removals.values().find(|(owner, removal)| {
            let key = match removal {
                symphony_core::orchestrator::Removal::Recorded(record) => &record.key,
                symphony_core::orchestrator::Removal::Stray(key) => key,
            };
            owner != issue && key.folded() == folded
        });
        if let Some((owner, _)) = removal {
            return Some(Holder::Sure(owner.clone()));
        }
        let others = self.claims.iter().filter(|(other, entry)| {
            *other != issue && !matches!(entry.view, View::Running { .. })
        });
        for (other, entry) in others {
            if self.key_of(&entry.issue).is_some_and(|key| key.folded() == folded) {
                return Some(Holder::Perhaps(other.clone()));
            }
        }
        None
    }

    /// The read before a start goes out: a few of the best, and only what may start.
    pub(crate) fn check_asked(&mut self, ids: &[IssueId]) -> Check {
        let free = self.free_slots();
        ensure!(free > 0, "no read before a start without a slot (7.3)", "{ids:?}");
        ensure!(
            ids.len() as u64 <= free + 5,
            "the best (free slots + 5) are read (5.4)",
            "{} with {free} free: {ids:?}",
            ids.len()
        );
        for id in ids {
            self.step.deeds.entry(id.clone()).or_default().checked = true;
            let claimed = self.claims.contains_key(id) || self.step.outcomes.contains_key(id);
            if claimed {
                continue;
            }
            // What an open sweep says of it is old news from here on.
            for model in self.reads.values_mut() {
                if let Purpose::Poll { sweep: ids, .. } | Purpose::Delivery { others: ids, .. } =
                    &mut model.purpose
                {
                    ids.retain(|other| other != id);
                }
            }
            ensure!(
                self.kept.list.iter().any(|issue| issue.id == *id),
                "starts come from the candidates",
                "{id} is not among them"
            );
            ensure!(
                !self.kept.rejected.contains_key(id),
                "nothing is asked twice (12.5)",
                "{id} could not start, and is read again from the same list"
            );
            ensure!(self.may_start(), "no read before a start when nothing may start", "{ids:?}");
        }
        self.pace.checked(self.now.mono);
        self.step.check_read = Some(ids.to_vec());
        Ok(())
    }

    /// The read before a start came back: works out which issues start, in which order, and what
    /// becomes of the others.
    pub(crate) fn check_answered(
        &mut self,
        read: ReadId,
        ids: &[IssueId],
        stale: bool,
        part: Option<&Result<IssuesById, Failure>>,
    ) {
        let checking: Vec<IssueId> = ids
            .iter()
            .filter(|id| {
                self.claims.get(*id).is_some_and(|entry| {
                    matches!(entry.view, View::Checking { .. }) && entry.since < read.0
                })
            })
            .cloned()
            .collect();
        self.step.checked_back = true;
        let failure = failure_of(part);
        let sayings = match part {
            Some(Ok(by_id)) if !stale => Some(Sayings::new(by_id)),
            _ => None,
        };
        for id in &checking {
            if let Some(entry) = self.claims.get_mut(id) {
                entry.known = read.0;
            }
            let outcomes = match sayings.as_ref().map(|sayings| sayings.of(id)) {
                None if stale => self.unread_stale(id),
                None => self.unread(read, id, failure),
                Some(Said::Unreadable) => self.unread(read, id, None),
                Some(Said::Absent) => {
                    self.newer(read, id, &Said::Absent);
                    self.kept.reject(id, read);
                    vec![Outcome::Free]
                }
                Some(Said::Issue(issue)) => {
                    self.newer(read, id, &Said::Issue(issue));
                    self.judge(read, id, issue)
                }
            };
            self.step.outcomes.insert(id.clone(), outcomes);
        }
        self.queue_by_folder();
        self.step.queue.sort_by(|a, b| rank(&a.issue, a.retry).cmp(&rank(&b.issue, b.retry)));
    }

    /// Of two that a fresh look shows in one folder, the first keeps the other out.
    fn queue_by_folder(&mut self) {
        let keys: Vec<Option<String>> = self
            .step
            .queue
            .iter()
            .map(|judged| self.key_of(&judged.issue).map(|key| key.folded()))
            .collect();
        for (place, key) in keys.iter().enumerate() {
            if key.is_some() && keys.iter().filter(|other| *other == key).count() > 1 {
                let judged = &mut self.step.queue[place];
                judged.unsure = true;
                let outcomes = self.step.outcomes.get_mut(&judged.issue.id);
                outcomes.into_iter().for_each(|outcomes| outcomes.push(Outcome::Free));
            }
        }
    }

    fn unread_stale(&self, id: &IssueId) -> Vec<Outcome> {
        let Some(entry) = self.claims.get(id) else {
            return vec![Outcome::Same];
        };
        let attempt = entry.lineage.attempt.unwrap_or(0);
        let again = self.now.mono + self.backoff(attempt.max(1));
        let mut outcomes = vec![
            Outcome::Waiting { attempt, until: Until::Now },
            Outcome::Waiting { attempt, until: Until::At(again) },
        ];
        if !entry.lineage.retry {
            outcomes.push(Outcome::Free);
        }
        outcomes
    }

    /// 7.4: it keeps its claim and its attempt.
    fn unread(&mut self, read: ReadId, id: &IssueId, failure: Option<&Failure>) -> Vec<Outcome> {
        let Some(entry) = self.claims.get(id) else {
            return vec![Outcome::Same];
        };
        self.kept.failed.insert(id.clone(), read);
        // It is read again after its backoff.
        self.pace.cause(self.now.mono);
        if !entry.lineage.retry {
            return vec![Outcome::Free];
        }
        let attempt = entry.lineage.attempt.unwrap_or(0);
        let delay = failure.and_then(asked_wait).unwrap_or_else(|| self.backoff(attempt.max(1)));
        vec![Outcome::Waiting { attempt, until: Until::At(self.now.mono + delay) }]
    }

    fn judge(&mut self, read: ReadId, id: &IssueId, issue: &Issue) -> Vec<Outcome> {
        let settings = Arc::clone(&self.config.settings);
        let Some(lineage) = self.claims.get(id).map(|entry| entry.lineage.clone()) else {
            return vec![Outcome::Same];
        };
        let later_list = self.kept.read > read;
        let lacks = match self.kept.told_since(id, read.0) {
            Some(told) => told.listed.is_none(),
            None => later_list && !self.kept.more && !self.kept.lists(id),
        };
        if is_terminal(&issue.state, &settings) && self.kept.shows_alive_since(id, read.0) {
            self.bring(id, issue, false);
            let attempt = lineage.attempt.unwrap_or(0);
            let waits = Outcome::Waiting { attempt, until: Until::Now };
            return vec![if lineage.retry { waits } else { Outcome::Free }];
        }
        if is_terminal(&issue.state, &settings) {
            self.kept.reject(id, read);
            self.bring(id, issue, true);
            let mut outcomes = self.cleaned(id);
            if !lineage.retry {
                // A fresh one may be left to the sweep.
                outcomes.push(Outcome::Free);
            }
            return outcomes;
        }
        let held = self.key_of(issue).and_then(|key| self.holder(id, &key));
        let recorded = self.has_record(id);
        // Where it is open which record it has, so is in which folder it would work.
        let unsure = recorded.is_none() || held.is_some();
        if obstacle(issue, &settings, recorded != Some(false)).is_some() {
            self.kept.reject(id, read);
            return vec![Outcome::Free];
        }
        if recorded.is_some() && matches!(held, Some(Holder::Sure(_))) {
            return vec![Outcome::Free];
        }
        if !lineage.retry && lacks {
            return vec![Outcome::Free];
        }
        self.bring(id, issue, false);
        self.step.queue.push(Judged {
            issue: Arc::new(issue.clone()),
            retry: lineage.retry,
            unsure,
        });
        let mut outcomes = vec![Outcome::Running];
        if lineage.retry {
            let attempt = lineage.attempt.unwrap_or(0);
            outcomes.push(Outcome::Waiting { attempt, until: Until::Now });
        } else {
            outcomes.push(Outcome::Free);
        }
        if unsure {
            outcomes.push(Outcome::Free);
        }
        outcomes
    }

    /// A start is the next in order, and everything it is started with is right.
    pub(crate) fn check_start(&mut self, start: &Start) -> Check {
        let id = &start.issue.id;
        ensure!(!self.shutting_down, "nothing starts after shutdown", "{start:?}");
        ensure!(!self.paused, "nothing starts while paused", "{start:?}");
        ensure!(self.valid, "nothing starts on an invalid file", "{start:?}");
        ensure!(!self.storage, "nothing starts that cannot be kept (16.3)", "{start:?}");
        ensure!(
            self.free_slots() > 0,
            "never above the global limit",
            "{} live, {id} starts",
            self.runs.len()
        );
        ensure!(
            self.state_slot(&start.issue.state),
            "never above a state's limit",
            "{id} starts in {}",
            start.issue.state
        );
        self.check_host(start)?;
        loop {
            ensure!(
                !self.step.queue.is_empty(),
                "only what was just read and may start is started (5.4)",
                "{start:?}"
            );
            let next = self.step.queue.remove(0);
            if next.issue.id == *id {
                ensure!(
                    *next.issue == *start.issue,
                    "a start has the issue as just read",
                    "{:?} instead of {:?}",
                    start.issue,
                    next.issue
                );
                break;
            }
            let passed = next.unsure || !self.slots_for(&next.issue);
            ensure!(
                passed,
                "starts are in dispatch order (5.3)",
                "{} starts before {}",
                id,
                next.issue.id
            );
        }
        self.check_lineage(start)
    }

    fn check_host(&self, start: &Start) -> Check {
        let id = &start.issue.id;
        let free = self.host_free(&start.host);
        ensure!(
            free > 0,
            "never above a host's limit",
            "{id} starts on {} with {free} free",
            start.host
        );
        if let Some(record) = &start.record {
            ensure!(record.host == start.host, "a workspace's issue runs on its host", "{start:?}");
        } else {
            let most = self.settings().hosts.iter().map(|host| self.host_free(&host.id)).max();
            ensure!(
                most.is_none_or(|most| free == most),
                "the host with most room is chosen",
                "{id} starts on {} with {free} free, {most:?} elsewhere",
                start.host
            );
        }
        Ok(())
    }

    fn check_lineage(&mut self, start: &Start) -> Check {
        let id = &start.issue.id;
        let Some(entry) = self.claims.get(id) else {
            ensure!(false, "only a checked issue starts (6.1)", "{start:?}");
            return Ok(());
        };
        let lineage = &entry.lineage;
        ensure!(
            start.attempt == lineage.attempt,
            "the attempt is counted right (7)",
            "{id}: {:?} instead of {:?}",
            start.attempt,
            lineage.attempt
        );
        let resume = lineage
            .resume
            .as_ref()
            .filter(|(_, agent)| *agent == self.settings().agent.kind)
            .map(|(thread, _)| thread);
        let resumed =
            start.resume.as_ref() == resume || (lineage.resume_open && start.resume.is_none());
        ensure!(
            resumed,
            "a thread is resumed only after a normal end (10.3)",
            "{id}: {:?} instead of {resume:?}",
            start.resume
        );
        let unanswered = lineage.unanswered && start.resume.is_some();
        ensure!(
            start.unanswered == unanswered || lineage.resume_open,
            "a question without an answer is said (10.6)",
            "{id}: {start:?}"
        );
        ensure!(
            start.max_turns == self.settings().agent.max_turns,
            "a run starts with the settings in force",
            "{start:?}"
        );
        let possible = self.records.get(id).cloned().unwrap_or_else(|| vec![None]);
        ensure!(
            possible.contains(&start.record),
            "a run goes on in its workspace",
            "{id}: {:?} instead of {possible:?}",
            start.record
        );
        let key = match &start.record {
            Some(record) => Some(record.key.clone()),
            None => WorkspaceKey::derive(start.issue.identifier.as_str()).ok(),
        };
        ensure!(
            key.as_ref() == Some(&start.key),
            "the workspace key is kept or derived (6.5)",
            "{id}: {} instead of {key:?}",
            start.key
        );
        Ok(())
    }

    /// What was read, may start and has its slots, has started.
    pub(crate) fn check_queue(&self) -> Check {
        let able = |judged: &&Judged| !judged.unsure && self.slots_for(&judged.issue);
        let left = self.step.queue.iter().find(able).filter(|_| self.may_start());
        ensure!(left.is_none(), "what may start is started", "{left:?}");
        Ok(())
    }
}
