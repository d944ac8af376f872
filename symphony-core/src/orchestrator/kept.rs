//! The list of candidates that is kept between two polls (contract 4.6, 5.5).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::issue::{Issue, IssueId};
use crate::snapshot::Reason;
use crate::time::Mono;
use crate::tracker::Candidates;

use super::read::Found;
use super::{Orchestrator, ReadId};

/// The last list of candidates, and what was learned since about single ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) issues: Vec<Issue>,
    pub(super) more: bool,
    pub(super) read_at: Option<Mono>,
    /// The read that brought it: what an older one says is not news.
    pub(super) read: ReadId,
    /// Issues that a later read knows more about than the list.
    pub(super) learned: BTreeMap<IssueId, (ReadId, Reason)>,
    /// What reads because of deliveries, asked for after the list, say of single issues.
    later: BTreeMap<IssueId, Later>,
    /// An order-independent sum over ids and states: it tells whether anything changed.
    fingerprint: u64,
    /// Places in the list whose issue stands before them too; found when first asked for.
    repeats: OnceLock<Vec<usize>>,
}

/// What a later read says of an issue.
#[derive(Clone, Debug)]
struct Later {
    read: ReadId,
    /// The issue, if a list would name it.
    issue: Option<Issue>,
    is_over: bool,
}

impl Kept {
    /// The issues and their places, each issue once: a list may name one twice.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (usize, &Issue)> {
        let mut repeats = self.repeats.get_or_init(|| repeats(&self.issues)).iter().peekable();
        let is_first = move |(place, _): &(usize, &Issue)| repeats.next_if_eq(&place).is_none();
        self.issues.iter().enumerate().filter(is_first)
    }

    /// How many issues there are.
    pub(super) fn total(&self) -> usize {
        self.issues.len() - self.repeats.get_or_init(|| repeats(&self.issues)).len()
    }

    /// Whether something newer than this read shows the issue alive.
    pub(super) fn shows_alive_since(&self, id: &IssueId, read: ReadId) -> bool {
        match self.learned.get(id) {
            Some((by, reason)) if *by > read => !matches!(reason, Reason::Terminal(_)),
            _ => match self.later.get(id) {
                Some(later) if later.read > read => !later.is_over,
                _ => self.read > read && self.lists(id),
            },
        }
    }

    fn lists(&self, id: &IssueId) -> bool {
        self.issues.iter().any(|issue| issue.id == *id)
    }

    /// Whether something newer than this read, a whole list or a read of this issue, shows that it is
    /// no candidate.
    pub(super) fn lacks(&self, id: &IssueId, read: ReadId) -> bool {
        match self.later.get(id) {
            Some(later) if later.read > read => later.issue.is_none(),
            _ => self.read > read && !self.more && !self.lists(id),
        }
    }

    /// Takes over what a later read says of an issue: else one that finds no slot in its new state,
    /// or its new folder held, would be chosen, read and passed over again and again.
    pub(super) fn update(&mut self, issue: &Issue) {
        for kept in self.issues.iter_mut().filter(|kept| kept.id == issue.id) {
            kept.clone_from(issue);
        }
    }

    /// Makes the list what it would be if these reads had been lists.
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

impl Orchestrator {
    /// Takes over what a read because of a delivery says of candidates, unless the list is newer. What
    /// was learned by a later read stays. Says whether anything may be another now.
    pub(super) fn keep_read<'a>(
        &mut self,
        read: ReadId,
        ids: impl Iterator<Item = &'a IssueId>,
        found: &Found,
    ) -> bool {
        if self.kept.read > read || self.kept.read_at.is_none() {
            return false;
        }
        let mut fresh = BTreeMap::new();
        for id in ids {
            let Some(seen) = found.look(id) else {
                continue;
            };
            let tracker = &self.settings().tracker;
            let is_over = seen.is_some_and(|issue| tracker.terminal_states.contains(&issue.state));
            let is_listed = |issue: &&Arc<Issue>| tracker.active_states.contains(&issue.state);
            let issue = seen.filter(is_listed).filter(|_| !is_over);
            let issue = issue.map(|issue| Issue::clone(issue));
            fresh.insert(id.clone(), Later { read, issue, is_over });
        }
        self.kept.learned.retain(|id, (by, _)| *by > read || !fresh.contains_key(id));
        self.kept.revise(&fresh);
        let is_news = !fresh.is_empty();
        self.kept.later.extend(fresh);
        is_news
    }

    /// Keeps a new list and fills slots from it.
    pub(super) fn keep(&mut self, read: ReadId, list: Candidates) {
        if self.settings().polling.activity.is_some() {
            let fingerprints = list.issues.iter().map(fingerprint_of);
            let fingerprint = fingerprints.fold(0, u64::wrapping_add);
            if fingerprint != self.kept.fingerprint {
                self.touch();
            }
            self.kept.fingerprint = fingerprint;
        } else {
            // Not known: the first list after activity is switched on is news.
            self.kept.fingerprint = 0;
        }
        self.kept.issues = list.issues;
        self.kept.repeats.take();
        self.kept.more = list.more;
        self.kept.read_at = Some(self.now.mono);
        self.kept.read = read;
        self.kept.learned.retain(|_, (learned_by, _)| *learned_by > read);
        let mut later = std::mem::take(&mut self.kept.later);
        later.retain(|_, later| later.read > read);
        self.kept.revise(&later);
        self.kept.later = later;
        self.refill_now();
    }

    /// Remembers something about an issue that neither the kept list nor a later read of the issue
    /// knows. Who holds its folder is not remembered: that may change at any time, and is asked
    /// each time.
    pub(super) fn learn(&mut self, id: &IssueId, read: ReadId, reason: Reason) {
        let is_outdated = self.kept.later.get(id).is_some_and(|later| later.read > read);
        if read >= self.kept.read && !is_outdated && !matches!(reason, Reason::WorkspaceHeld(_)) {
            self.kept.learned.insert(id.clone(), (read, reason));
        }
    }
}

/// The places of issues that stand earlier in the list too, in order. Hashes are sorted, because
/// comparing ids is what takes long.
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
        let kept = Kept { issues, ..Kept::default() };
        let told = |kept: &Kept| -> Vec<(usize, String)> {
            kept.distinct().map(|(place, issue)| (place, issue.id.to_string())).collect()
        };
        let first = vec![(0, "b".to_owned()), (1, "a".to_owned()), (3, "c".to_owned())];
        assert_eq!(told(&kept), first);
        assert_eq!(told(&kept), first, "also when it is asked again");
        assert_eq!(told(&Kept::default()), vec![]);
    }
}
