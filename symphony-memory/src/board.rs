//! The board: issues, what was said about them, and the states they can be in. A plain value.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use symphony_core::time::Wall;
use symphony_core::tracker::{IssuesById, Unreadable};
use symphony_core::{Blocker, Identifier, Issue, IssueId, StateKind, StateName, StateSet};

use crate::seeds::Seeds;

/// Everything that a [`MemoryTracker`](crate::MemoryTracker) knows at one moment.
#[derive(Clone, Debug, Default)]
pub struct MemoryBoard {
    cards: BTreeMap<IssueId, Card>,
    /// Two ids may claim one identifier: that is a fault tests want to see.
    identifiers: BTreeMap<Identifier, BTreeSet<IssueId>>,
    unreadable: BTreeMap<IssueId, String>,
    /// What was last written down, so that an edit there is told from a change made here.
    seeds: BTreeMap<IssueId, Value>,
    declared: Vec<DeclaredState>,
    configured: Vec<StateName>,
}

/// An issue on the board, as given: a read fills in the kind of its state, and how its blockers
/// stand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Card {
    pub(crate) issue: Issue,
    pub(crate) comments: Vec<Comment>,
}

/// Something said about an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// When.
    pub at: Wall,
    /// What.
    pub text: String,
}

/// A state that the board declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredState {
    pub(crate) name: StateName,
    pub(crate) kind: Option<StateKind>,
}

impl MemoryBoard {
    /// The issues in the order of their ids, with blockers and kinds as they were given.
    pub fn issues(&self) -> impl Iterator<Item = &Issue> {
        self.cards.values().map(|card| &card.issue)
    }

    /// The issue with this id, with blockers and kind as they were given.
    #[must_use]
    pub fn issue(&self, id: &str) -> Option<&Issue> {
        self.cards.get(id).map(|card| &card.issue)
    }

    /// Whether the issue exists and is in this state.
    #[must_use]
    pub fn is_in(&self, id: &str, state: &str) -> bool {
        self.issue(id).is_some_and(|issue| issue.state == StateName::from(state))
    }

    /// What was said about the issue, oldest first.
    #[must_use]
    pub fn comments(&self, id: &str) -> &[Comment] {
        self.cards.get(id).map_or(&[], |card| &card.comments)
    }

    /// Every state that the board declares, the settings name or an issue is in.
    #[must_use]
    pub fn known_states(&self) -> StateSet {
        let declared = self.declared.iter().map(|state| &state.name);
        let cards = self.cards.values().map(|card| &card.issue.state);
        StateSet::new(declared.chain(&self.configured).chain(cards).cloned())
    }

    /// Whether the board itself declares a state.
    pub(crate) fn declares(&self, state: &StateName) -> bool {
        self.declared.iter().any(|declared| declared.name == *state)
    }

    /// The records that cannot be read, and why.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = (&IssueId, &String)> {
        self.unreadable.iter()
    }

    /// What was last written down of an issue.
    pub(crate) fn raw_record(&self, id: &IssueId) -> Option<&Value> {
        self.seeds.get(id)
    }

    /// The full snapshots of the readable issues in these states.
    pub(crate) fn by_states(&self, states: &StateSet) -> Vec<Issue> {
        self.cards
            .iter()
            .filter(|(_, card)| states.contains(&card.issue.state))
            .filter_map(|(id, _)| self.read(id).and_then(Result::ok))
            .collect()
    }

    /// The full snapshots of these issues, each once.
    pub(crate) fn by_ids(&self, ids: &[IssueId]) -> IssuesById {
        let mut by_id = IssuesById::default();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            match self.read(id) {
                None => {}
                Some(Ok(issue)) => by_id.found.push(issue),
                Some(Err(message)) => {
                    by_id.unreadable.push(Unreadable { id: id.clone(), message });
                }
            }
        }
        by_id
    }

    /// The issue with this id or, in any case, this identifier.
    pub(crate) fn find(&self, name: &str) -> IssuesById {
        let is_it = |issue: &&Issue| issue.identifier.as_str().eq_ignore_ascii_case(name);
        let identified = self.issues().find(is_it).map(|issue| issue.id.clone());
        let by_id = self.by_ids(&[name.into()]);
        match identified {
            Some(id) if by_id == IssuesById::default() => self.by_ids(&[id]),
            _ => by_id,
        }
    }

    /// One issue with its kind and its blockers as they stand now, or why it cannot be read.
    pub(crate) fn read(&self, id: &IssueId) -> Option<Result<Issue, String>> {
        if let Some(why) = self.unreadable.get(id) {
            return Some(Err(why.clone()));
        }
        let mut issue = self.cards.get(id)?.issue.clone();
        if !issue.is_well_formed() {
            return Some(Err("lacks id, identifier, title or state".to_owned()));
        }
        issue.state_kind = self.kind_of(&issue);
        for blocker in &mut issue.blocked_by {
            self.resolve(blocker);
        }
        Some(Ok(issue))
    }

    /// Fills in how a blocker stands. What is not on the board stays as it was given.
    fn resolve(&self, blocker: &mut Blocker) {
        let by_identifier = || self.identifiers.get(blocker.identifier.as_ref()?)?.first();
        let Some(id) = blocker.id.as_ref().or_else(by_identifier) else { return };
        if self.unreadable.contains_key(id) {
            return;
        }
        if let Some(Card { issue, .. }) = self.cards.get(id) {
            *blocker = Blocker {
                id: Some(issue.id.clone()),
                identifier: Some(issue.identifier.clone()),
                state: Some(issue.state.clone()),
                state_kind: self.kind_of(issue),
            };
        }
    }

    /// Puts a card on the board, in the place of one with its id.
    pub(crate) fn place(&mut self, mut card: Card, now: Wall) {
        let before = self.take(&card.issue.id);
        if before.as_ref().is_none_or(|before| !same(before, &card)) {
            stamp(&mut card.issue, before.as_ref().map(|card| &card.issue), now);
        }
        self.put(card);
    }

    /// Changes a card. `None` if there is none, else whether it is another one now.
    pub(crate) fn edit(
        &mut self,
        id: &IssueId,
        now: Wall,
        edit: impl FnOnce(&mut Card),
    ) -> Option<bool> {
        let (card, changed) = self.edited(id, now, edit)?;
        self.take(id);
        self.put(card);
        Some(changed)
    }

    /// The card as a change would make it, and whether it would be another one.
    pub(crate) fn edited(
        &self,
        id: &IssueId,
        now: Wall,
        edit: impl FnOnce(&mut Card),
    ) -> Option<(Card, bool)> {
        let before = self.cards.get(id)?;
        let mut card = before.clone();
        edit(&mut card);
        // An id is for life.
        card.issue.id = id.clone();
        let moved = card.issue.state != before.issue.state;
        if moved && card.issue.state_kind == before.issue.state_kind {
            // The old state's kind says nothing about the new one.
            card.issue.state_kind = None;
        }
        let changed = !same(before, &card);
        if changed {
            stamp(&mut card.issue, Some(&before.issue), now);
        }
        Some((card, changed))
    }

    /// Takes an issue off the board.
    pub(crate) fn take(&mut self, id: &IssueId) -> Option<Card> {
        let card = self.cards.remove(id)?;
        if let Some(ids) = self.identifiers.get_mut(&card.issue.identifier) {
            ids.remove(id);
            if ids.is_empty() {
                self.identifiers.remove(&card.issue.identifier);
            }
        }
        Some(card)
    }

    fn put(&mut self, card: Card) {
        let id = card.issue.id.clone();
        self.identifiers.entry(card.issue.identifier.clone()).or_default().insert(id.clone());
        self.cards.insert(id, card);
    }

    /// Makes the record of an issue unreadable, or readable again.
    pub(crate) fn set_unreadable(&mut self, id: &IssueId, why: Option<String>) {
        match why {
            Some(why) => self.unreadable.insert(id.clone(), why),
            None => self.unreadable.remove(id),
        };
    }

    /// The states that the settings name.
    pub(crate) fn configure(&mut self, states: Vec<StateName>) {
        self.configured = states;
    }

    /// What is written down for an issue from now on, because we wrote it.
    pub(crate) fn written(&mut self, id: &IssueId, raw: Value) {
        self.seeds.insert(id.clone(), raw);
    }

    /// Takes over what is written down.
    ///
    /// A record that was edited there replaces the card; one that was not leaves alone what was
    /// changed here since; one that is gone takes its card with it.
    pub(crate) fn seed(&mut self, seeds: Seeds, now: Wall) {
        self.declared = seeds.states;
        let mut gone = std::mem::take(&mut self.seeds);
        for record in seeds.records {
            let Some(id) = record.id else { continue };
            if gone.remove(&id).as_ref() != Some(&record.raw) {
                match record.card {
                    Ok(card) => {
                        self.unreadable.remove(&id);
                        self.place(card, now);
                    }
                    Err(why) => {
                        self.unreadable.insert(id.clone(), why);
                    }
                }
            }
            self.seeds.insert(id, record.raw);
        }
        for id in gone.keys() {
            self.unreadable.remove(id);
            self.take(id);
        }
    }

    /// The kind of an issue's state: its own word, else what the board declares.
    fn kind_of(&self, issue: &Issue) -> Option<StateKind> {
        let declared = || self.declared.iter().find(|declared| declared.name == issue.state);
        issue.state_kind.or_else(|| declared()?.kind)
    }
}

/// Whether two cards say the same. States compare without case, but another spelling is a change.
fn same(one: &Card, other: &Card) -> bool {
    one == other && one.issue.state.as_str() == other.issue.state.as_str()
}

/// Moves `updated_at` on, unless the change itself has done so.
fn stamp(issue: &mut Issue, before: Option<&Issue>, now: Wall) {
    let last = before.and_then(|before| before.updated_at);
    if issue.updated_at <= last {
        // Two changes in one millisecond are still two changes.
        let next = last.map(|last| last + Duration::from_millis(1));
        issue.updated_at = Some(next.map_or(now, |next| next.max(now)));
    }
}
