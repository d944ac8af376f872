//! The backlog: the list of candidates that is kept between two polls, and what was learned since
//! about single ones (contract 4.6, 5.5).

mod best;
mod deliveries;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::issue::{Issue, IssueId, StateName};
use crate::policy;
use crate::settings::TrackerSettings;
use crate::snapshot::Reason;
use crate::time::Mono;
use crate::tracker::{Candidates, Poll};

use super::ReadId;
use super::claims::Claims;
use super::reads::{Asked, Found, PollParts, Reads, Seen};

pub(super) use best::{Best, Choice, SPARE_CHECKS};
pub(super) use deliveries::{Deliveries, MAX_DELIVERED_ISSUES};

/// The last list of candidates, and everything that is newer than it.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    list: List,
    /// Issues that a later read knows more about than the list.
    learned: BTreeMap<IssueId, (ReadId, Reason)>,
    /// What reads because of deliveries, asked for after the list, say of single issues.
    later: BTreeMap<IssueId, Later>,
    pub(super) deliveries: Deliveries,
    /// Issues that were seen to be over in this step.
    over: BTreeSet<IssueId>,
}

/// A list of candidates.
#[derive(Debug, Default)]
struct List {
    issues: Vec<Issue>,
    more: bool,
    read_at: Option<Mono>,
    /// The read that brought it: what an older one says is not news.
    read: ReadId,
    /// An order-independent sum over ids and states: it tells whether anything changed.
    fingerprint: u64,
    /// Places in the list whose issue stands before them too; found when first asked for.
    repeats: OnceLock<Vec<usize>>,
}

/// What a later read says of an issue.
#[derive(Debug)]
struct Later {
    read: ReadId,
    /// The issue, if a list would name it.
    issue: Option<Issue>,
    is_over: bool,
}

impl Backlog {
    /// Returns the candidates, as they were listed. One may be there twice.
    pub(super) fn issues(&self) -> &[Issue] {
        &self.list.issues
    }

    /// Returns the candidates and their places, each once: a list may name one twice.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (usize, &Issue)> {
        self.list.distinct()
    }

    /// Returns how many candidates there are.
    pub(super) fn total(&self) -> usize {
        self.list.issues.len() - self.list.repeats().len()
    }

    /// Whether the tracker has more than it listed.
    pub(super) const fn has_more(&self) -> bool {
        self.list.more
    }

    /// Returns when the list was read; `None` before the first one.
    pub(super) const fn read_at(&self) -> Option<Mono> {
        self.list.read_at
    }

    /// Returns what a later read than the list says of an issue.
    pub(super) fn learned(&self, id: &IssueId) -> Option<&Reason> {
        self.learned.get(id).map(|(_, reason)| reason)
    }

    /// Whether something newer than this read shows the issue alive.
    pub(super) fn shows_alive_since(&self, id: &IssueId, read: ReadId) -> bool {
        match self.learned.get(id) {
            Some((by, reason)) if *by > read => !matches!(reason, Reason::Terminal(_)),
            _ => match self.later.get(id) {
                Some(later) if later.read > read => !later.is_over,
                _ => self.list.read > read && self.list.names(id),
            },
        }
    }

    /// Whether something newer than this read, a whole list or a read of this issue, shows that it
    /// is not a candidate.
    pub(super) fn lacks(&self, id: &IssueId, read: ReadId) -> bool {
        match self.later.get(id) {
            Some(later) if later.read > read => later.issue.is_none(),
            _ => self.list.read > read && !self.list.more && !self.list.names(id),
        }
    }

    /// Candidates that wait for one of these issues.
    pub(super) fn blocked_by<'a>(
        &'a self,
        ids: &'a BTreeSet<IssueId>,
    ) -> impl Iterator<Item = &'a IssueId> {
        let waits = |issue: &&Issue| {
            let mut blockers = issue.blocked_by.iter().filter_map(|blocker| blocker.id.as_ref());
            blockers.any(|id| ids.contains(id))
        };
        self.list.issues.iter().filter(waits).map(|issue| &issue.id)
    }

    /// Notes that an issue is over: candidates may have waited for it.
    pub(super) fn note_over(&mut self, id: IssueId) {
        self.over.insert(id);
    }

    /// Queues the candidates that are listed as waiting for an issue that is over by now.
    pub(super) fn unblock(&mut self, tracker: &TrackerSettings, claims: &Claims) {
        if self.over.is_empty() {
            return;
        }
        let over = std::mem::take(&mut self.over);
        let waits = |issue: &&Issue| {
            let blocker = policy::open_blocker(issue, tracker);
            let blocker = blocker.and_then(|blocker| blocker.id.as_ref());
            blocker.is_some_and(|id| over.contains(id)) && !claims.contains(&issue.id)
        };
        let waiting = self.list.issues.iter().filter(waits).map(|issue| issue.id.clone());
        self.deliveries.unblock(waiting);
    }

    /// Keeps a new list. With `compare`, says whether it is another than the last one.
    pub(super) fn keep(
        &mut self,
        read: ReadId,
        list: Candidates,
        now: Mono,
        compare: bool,
    ) -> bool {
        let fingerprint = if compare {
            list.issues.iter().map(fingerprint_of).fold(0, u64::wrapping_add)
        } else {
            // Not known: the first list after activity is switched on is news.
            0
        };
        let is_news = compare && fingerprint != self.list.fingerprint;
        self.list.fingerprint = fingerprint;
        self.list.issues = list.issues;
        self.list.repeats.take();
        self.list.more = list.more;
        self.list.read_at = Some(now);
        self.list.read = read;
        self.learned.retain(|_, (learned_by, _)| *learned_by > read);
        self.later.retain(|_, later| later.read > read);
        self.list.revise(&self.later);
        is_news
    }

    /// Takes over what a read because of a delivery says of candidates, unless the list is newer.
    /// What was learned by a later read stays. Says whether anything may be another now.
    pub(super) fn keep_read<'a>(
        &mut self,
        read: ReadId,
        ids: impl Iterator<Item = &'a IssueId>,
        found: &Found,
        tracker: &TrackerSettings,
    ) -> bool {
        if self.list.read > read || self.list.read_at.is_none() {
            return false;
        }
        let mut fresh = BTreeMap::new();
        for id in ids {
            let seen = match found.see(id) {
                Seen::Failed(_) => continue,
                seen => seen.issue(),
            };
            let is_over = seen.is_some_and(|issue| tracker.terminal_states.contains(&issue.state));
            let is_listed = |issue: &&Arc<Issue>| tracker.active_states.contains(&issue.state);
            let issue = seen.filter(is_listed).filter(|_| !is_over);
            let issue = issue.map(|issue| Issue::clone(issue));
            fresh.insert(id.clone(), Later { read, issue, is_over });
        }
        self.learned.retain(|id, (by, _)| *by > read || !fresh.contains_key(id));
        self.list.revise(&fresh);
        let is_news = !fresh.is_empty();
        self.later.extend(fresh);
        is_news
    }

    /// Takes over what a later read says of a candidate: else one that finds no slot in its new
    /// state, or its new folder held, would be chosen, read and passed over again and again.
    pub(super) fn update(&mut self, read: ReadId, issue: &Issue) {
        if read > self.list.read {
            for kept in self.list.issues.iter_mut().filter(|kept| kept.id == issue.id) {
                kept.clone_from(issue);
            }
        }
    }

    /// Remembers something about an issue that neither the kept list nor a later read of the issue
    /// knows. The holder of its folder is not remembered: it may change at any time.
    pub(super) fn learn(&mut self, id: &IssueId, read: ReadId, reason: Reason) {
        let is_outdated = self.later.get(id).is_some_and(|later| later.read > read);
        if read >= self.list.read && !is_outdated && !matches!(reason, Reason::WorkspaceHeld(_)) {
            self.learned.insert(id.clone(), (read, reason));
        }
    }

    /// Forgets what was learned of single issues: other settings may judge otherwise.
    pub(super) fn forget_learned(&mut self) {
        self.learned.clear();
    }

    /// Forgets the list, because other issues are candidates now.
    pub(super) fn forget_list(&mut self) {
        let deliveries = std::mem::take(&mut self.deliveries);
        *self = Self { deliveries, ..Self::default() };
    }
}

/// Reads, as deliveries observe them.
impl Backlog {
    /// Notes that a read goes out: it will tell of its issues, and a list of candidates of every
    /// unclaimed issue, unless the list may be cut off.
    pub(super) fn asked(&mut self, asked: &Asked, poll: &Poll, claims: &Claims) {
        if matches!(asked, Asked::Poll(PollParts { candidates: true, .. })) && !self.list.more {
            self.deliveries.leave_all(|id| !claims.contains(id));
        }
        self.deliveries.leave(&poll.ids);
        if matches!(asked, Asked::Delivery { .. }) {
            self.deliveries.set_open(true);
        }
    }

    /// Checks the answer of a poll against deliveries, before anything of it is taken over: a
    /// change that no delivery announced starts a grace period, then counts as missed.
    pub(super) fn answered(
        &mut self,
        read: ReadId,
        answer: &PollAnswer<'_>,
        claims: &Claims,
        reads: &Reads,
        now: Mono,
    ) {
        let PollAnswer { parts, found, list } = *answer;
        let is_being_read = |id: &IssueId| reads.is_delivery(id);
        if parts.asks_by_id() {
            if self.deliveries.note_claims(now) {
                let has_moved = |id: &&IssueId| {
                    let claim = claims.get(id).filter(|claim| claim.seen() < read);
                    let fresh = found.see(id).issue();
                    claim.zip(fresh).is_some_and(|(claim, new)| claim.issue().state != new.state)
                };
                let news = parts.refresh.iter().flatten().map(|(id, _)| id).filter(has_moved);
                self.deliveries.doubt(news, now, is_being_read);
            }
            if found.failure().is_none() {
                self.deliveries.told_by_refresh(|id| claims.contains(id));
            }
        }
        if let Some(list) = list {
            // What stands on a part of a list depends on what stands before it.
            if self.deliveries.note_list(now) && !self.list.more {
                let known = self.list.states();
                let is_news = |issue: &&Issue| {
                    known.get(&issue.id).is_none_or(|state| **state != issue.state)
                        && !claims.contains(&issue.id)
                        && !self.learned.contains_key(&issue.id)
                };
                let news = list.issues.iter().filter(is_news).map(|issue| &issue.id);
                self.deliveries.doubt(news, now, is_being_read);
            }
            let is_listed = |id: &IssueId| list.issues.iter().any(|issue| issue.id == *id);
            let may_be_beyond = |id: &IssueId| list.more && !is_listed(id);
            self.deliveries.told_by_list(|id| claims.contains(id), may_be_beyond);
        }
    }
}

/// The answer of a poll, as deliveries observe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollAnswer<'a> {
    pub(super) parts: &'a PollParts,
    pub(super) found: &'a Found,
    /// The candidates, where they were asked for and could be read.
    pub(super) list: Option<&'a Candidates>,
}

impl List {
    fn distinct(&self) -> impl Iterator<Item = (usize, &Issue)> {
        let mut repeats = self.repeats().iter().peekable();
        let is_first = move |(place, _): &(usize, &Issue)| repeats.next_if_eq(&place).is_none();
        self.issues.iter().enumerate().filter(is_first)
    }

    fn repeats(&self) -> &[usize] {
        self.repeats.get_or_init(|| repeats(&self.issues))
    }

    fn names(&self, id: &IssueId) -> bool {
        self.issues.iter().any(|issue| issue.id == *id)
    }

    fn states(&self) -> BTreeMap<&IssueId, &StateName> {
        self.issues.iter().map(|issue| (&issue.id, &issue.state)).collect()
    }

    /// Applies newer reads of single issues to the list.
    fn revise(&mut self, later: &BTreeMap<IssueId, Later>) {
        if later.is_empty() {
            return;
        }
        let mut fingerprint = self.fingerprint;
        self.issues.retain(|issue| {
            let stays = !later.contains_key(&issue.id);
            if !stays {
                fingerprint = fingerprint.wrapping_sub(fingerprint_of(issue));
            }
            stays
        });
        for issue in later.values().filter_map(|later| later.issue.as_ref()) {
            fingerprint = fingerprint.wrapping_add(fingerprint_of(issue));
            self.issues.push(issue.clone());
        }
        self.fingerprint = fingerprint;
        self.repeats.take();
    }
}

/// Returns the places of issues that stand earlier in the list too, in order. Hashes are sorted,
/// because comparing ids is what takes long.
fn repeats(issues: &[Issue]) -> Vec<usize> {
    let mut order: Vec<(u64, &IssueId, usize)> = issues
        .iter()
        .enumerate()
        .map(|(place, issue)| (hash(&issue.id), &issue.id, place))
        .collect();
    order.sort_unstable();
    let is_repeat = |pair: &&[(u64, &IssueId, usize)]| pair[0].1 == pair[1].1;
    let mut repeats: Vec<usize> =
        order.windows(2).filter(is_repeat).map(|pair| pair[1].2).collect();
    repeats.sort_unstable();
    repeats
}

fn fingerprint_of(issue: &Issue) -> u64 {
    hash(&(&issue.id, &issue.state))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_5_5_an_issue_named_twice_is_told_once_where_it_first_stands() {
        let ids = ["b", "a", "b", "c", "a", "b"];
        let issues = ids.map(|id| Issue::new(id, "MT-1", "A title", "Todo").unwrap()).to_vec();
        let kept = List { issues, ..List::default() };
        let told = |kept: &List| -> Vec<(usize, String)> {
            kept.distinct().map(|(place, issue)| (place, issue.id.to_string())).collect()
        };
        let first = vec![(0, "b".to_owned()), (1, "a".to_owned()), (3, "c".to_owned())];
        assert_eq!(told(&kept), first);
        assert_eq!(told(&kept), first, "also when it is asked again");
        assert_eq!(told(&List::default()), vec![]);
    }
}
