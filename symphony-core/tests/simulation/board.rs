//! The tracker's truth: two scopes of issues that people and agents change at any moment.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::settings::StateSet;
use symphony_core::time::Wall;
use symphony_core::{Blocker, Issue, IssueId, Label, StateKind, StateName};

use crate::faults::{Fault, Luck};
use crate::plan::Plan;

/// The states people use, with what they mean.
const STATES: &[(&str, StateKind)] = &[
    ("Backlog", StateKind::Backlog),
    ("Todo", StateKind::Unstarted),
    ("In Progress", StateKind::Started),
    ("Rework", StateKind::Started),
    ("Review", StateKind::Started),
    ("Done", StateKind::Completed),
    ("Cancelled", StateKind::Cancelled),
    ("Closed", StateKind::Completed),
];

/// The tracker scopes there are.
pub(crate) const SCOPES: [&str; 2] = ["alpha", "beta"];

/// One issue in its scope.
#[derive(Clone, Debug)]
struct Card {
    issue: Arc<Issue>,
    born: bool,
    present: bool,
    readable: bool,
    wellformed: bool,
    blockers: Vec<usize>,
    unknown_blocker: bool,
}

/// All issues.
#[derive(Debug)]
pub(crate) struct Board {
    cards: [Vec<Card>; 2],
    tells_kinds: bool,
    stamps_updates: bool,
    pace: u64,
    /// What changed since the last call.
    changed: Vec<IssueId>,
    pub(crate) luck: Luck,
}

impl Board {
    pub(crate) fn new(plan: &Plan, wall: Wall) -> Self {
        let mut board = Self {
            cards: [Vec::new(), Vec::new()],
            tells_kinds: true,
            stamps_updates: true,
            pace: 0,
            changed: Vec::new(),
            luck: Luck::new(plan.seed, 2, plan.faults),
        };
        board.tells_kinds = board.luck.rng.per_mille(700);
        board.stamps_updates = board.luck.rng.per_mille(900);
        board.pace = board.luck.rng.pick(&[20_000, 60_000, 180_000, 900_000]);
        let second = board.luck.rng.between(0, plan.issues.div_ceil(2));
        for (scope, count) in [plan.issues, second].into_iter().enumerate() {
            for number in 1..=count {
                let card = board.deal(scope, number, wall);
                board.cards[scope].push(card);
            }
        }
        board
    }

    fn deal(&mut self, scope: usize, number: u64, wall: Wall) -> Card {
        let rng = &mut self.luck.rng;
        let (state, kind) = rng.pick(&[STATES[1], STATES[1], STATES[2], STATES[0], STATES[5]]);
        let id = format!("{}{number}", &SCOPES[scope][..1]);
        let identifier = format!("MT-{number}");
        let mut issue = Issue::new(&id, &identifier, "Fix the door", state).expect("well-formed");
        issue.state_kind = self.tells_kinds.then_some(kind);
        issue.priority =
            rng.pick(&[None, Some(0), Some(1), Some(2), Some(2), Some(3), Some(4), Some(9)]);
        // A few equal and missing dates, so that ties are broken by the next key.
        issue.created_at = rng.per_mille(900).then(|| {
            Wall::from_unix_millis(1_700_000_000_000) + Duration::from_secs(3600 * rng.below(12))
        });
        issue.updated_at = self.stamps_updates.then_some(wall);
        issue.labels = Label::list(["ready"]);
        Card {
            issue: Arc::new(issue),
            born: rng.per_mille(500),
            present: true,
            readable: true,
            wellformed: true,
            blockers: Vec::new(),
            unknown_blocker: false,
        }
    }

    /// How long until the next change, in milliseconds.
    pub(crate) fn pause(&mut self) -> u64 {
        let pace = self.pace;
        self.luck.rng.between(pace / 10, pace * 2)
    }

    fn position(&self, scope: usize, id: &IssueId) -> Option<usize> {
        let number: usize = id.as_str().strip_prefix(&SCOPES[scope][..1])?.parse().ok()?;
        let index = number.checked_sub(1)?;
        let card = self.cards[scope].get(index)?;
        (card.issue.id == *id).then_some(index)
    }

    /// The issue as a reader sees it now, with the states of its blockers.
    fn view(&self, scope: usize, index: usize) -> Arc<Issue> {
        let cards = &self.cards[scope];
        let card = &cards[index];
        if card.blockers.is_empty() && !card.unknown_blocker {
            return Arc::clone(&card.issue);
        }
        let mut issue = Issue::clone(&card.issue);
        issue.blocked_by = card
            .blockers
            .iter()
            .map(|other| {
                let other = &cards[*other].issue;
                Blocker {
                    id: Some(other.id.clone()),
                    identifier: Some(other.identifier.clone()),
                    state: Some(other.state.clone()),
                    state_kind: other.state_kind,
                }
            })
            .collect();
        if card.unknown_blocker {
            issue
                .blocked_by
                .push(Blocker { identifier: Some("EXT-1".into()), ..Blocker::default() });
        }
        Arc::new(issue)
    }

    /// What a read by id finds of one issue.
    pub(crate) fn read(&self, scope: usize, id: &IssueId) -> CardRead {
        let Some(index) = self.position(scope, id) else {
            return CardRead::Absent;
        };
        let card = &self.cards[scope][index];
        match card {
            Card { born: false, .. } | Card { present: false, .. } => CardRead::Absent,
            Card { readable: false, .. } | Card { wellformed: false, .. } => CardRead::Unreadable,
            _ => CardRead::Issue(self.view(scope, index)),
        }
    }

    /// What a list of these states holds. A malformed record is in it as a careless adapter
    /// would hand it on.
    pub(crate) fn list(&self, scope: usize, states: &StateSet) -> Vec<Arc<Issue>> {
        let cards = &self.cards[scope];
        let listed = |card: &Card| card.born && card.present && states.contains(&card.issue.state);
        (0..cards.len())
            .filter(|index| listed(&cards[*index]))
            .filter(|index| cards[*index].readable)
            .map(|index| {
                let issue = self.view(scope, index);
                if cards[index].wellformed {
                    return issue;
                }
                let mut broken = Issue::clone(&issue);
                broken.title = " ".to_owned();
                Arc::new(broken)
            })
            .collect()
    }

    /// An agent moves the issue it works on.
    pub(crate) fn move_to(&mut self, scope: usize, id: &IssueId, state: &str, wall: Wall) {
        if let Some(index) = self.position(scope, id) {
            self.set_state(scope, index, state, wall);
        }
    }

    fn set_state(&mut self, scope: usize, index: usize, name: &str, wall: Wall) {
        let kind = STATES.iter().find(|(state, _)| *state == name).map(|(_, kind)| *kind);
        let kind = kind.filter(|_| self.tells_kinds);
        // Spelling differs now and then: comparisons must not care.
        let spelled = if self.luck.rng.per_mille(50) {
            format!(" {} ", name.to_uppercase())
        } else {
            name.to_owned()
        };
        self.edit(scope, index, wall, |issue| {
            issue.state = StateName::new(spelled);
            issue.state_kind = kind;
        });
    }

    fn edit(&mut self, scope: usize, index: usize, wall: Wall, change: impl FnOnce(&mut Issue)) {
        let stamped = self.stamps_updates;
        let issue = Arc::make_mut(&mut self.cards[scope][index].issue);
        self.changed.push(issue.id.clone());
        change(issue);
        if stamped {
            issue.updated_at = Some(wall);
        }
    }

    /// One change by a person.
    pub(crate) fn change(&mut self, wall: Wall) {
        let scope = usize::from(self.luck.rng.per_mille(150));
        let count = self.cards[scope].len();
        if count == 0 {
            return;
        }
        let index = self.luck.rng.index(count);
        if !self.cards[scope][index].born {
            self.cards[scope][index].born = true;
            self.changed.push(self.cards[scope][index].issue.id.clone());
            return;
        }
        match self.luck.rng.below(100) {
            // Reopened or moved on: there must always be work.
            0..=44 => self.change_state(scope, index, wall),
            45..=52 => self.change_label(scope, index, wall),
            53..=60 => self.change_blockers(scope, index, wall),
            61..=66 => self.change_priority(scope, index, wall),
            67..=70 => self.change_identifier(scope, index, wall),
            71..=80 => self.change_presence(scope, index, wall),
            81..=85 => self.change_readability(scope, index),
            86..=90 => {
                if self.luck.strikes(Fault::Undispatchable, 600) {
                    self.edit(scope, index, wall, |issue| issue.dispatchable = false);
                } else {
                    self.edit(scope, index, wall, |issue| issue.dispatchable = true);
                }
            }
            _ => {
                if self.luck.strikes(Fault::Edited, 1000) {
                    self.edit(scope, index, wall, |issue| issue.title.push('!'));
                    self.edit(scope, index, wall, |issue| issue.title.truncate(20));
                }
            }
        }
    }

    fn change_state(&mut self, scope: usize, index: usize, wall: Wall) {
        let terminal = self.luck.strikes(Fault::StateTerminal, 200);
        let moved = self.luck.strikes(Fault::StateChanged, 500);
        let name = if terminal {
            self.luck.rng.pick(&["Done", "Cancelled", "Closed"])
        } else if moved {
            self.luck.rng.pick(&["Backlog", "Todo", "In Progress", "Rework", "Review"])
        } else {
            // Work comes back only where it is over: nothing is disturbed that runs.
            let over = ["done", "cancelled", "closed", "review", "backlog"];
            if !over.contains(&self.cards[scope][index].issue.state.key()) {
                return;
            }
            self.luck.rng.pick(&["Todo", "In Progress"])
        };
        self.set_state(scope, index, name, wall);
    }

    fn change_label(&mut self, scope: usize, index: usize, wall: Wall) {
        let labels = if self.luck.strikes(Fault::LabelChanged, 500) {
            Label::list(["other"])
        } else {
            Label::list(["ready", "other"])
        };
        self.edit(scope, index, wall, |issue| issue.labels = labels);
    }

    fn change_blockers(&mut self, scope: usize, index: usize, wall: Wall) {
        let blocked = self.luck.strikes(Fault::BlockerChanged, 500);
        let other = self.luck.rng.index(self.cards[scope].len());
        let unknown = self.luck.rng.per_mille(100);
        let card = &mut self.cards[scope][index];
        card.unknown_blocker = blocked && unknown;
        card.blockers = if blocked && other != index { vec![other] } else { Vec::new() };
        self.edit(scope, index, wall, |_| ());
    }

    fn change_priority(&mut self, scope: usize, index: usize, wall: Wall) {
        if self.luck.strikes(Fault::PriorityChanged, 800) {
            let priority =
                self.luck.rng.pick(&[None, Some(1), Some(2), Some(3), Some(4), Some(-1)]);
            self.edit(scope, index, wall, |issue| issue.priority = priority);
        }
    }

    fn change_identifier(&mut self, scope: usize, index: usize, wall: Wall) {
        let other = self.luck.rng.between(1, self.cards[scope].len() as u64);
        let identifier = if self.luck.strikes(Fault::KeyCollision, 300) {
            format!("mt-{other}")
        } else if self.luck.strikes(Fault::IdentifierInvalid, 100) {
            "..".to_owned()
        } else if self.luck.strikes(Fault::IdentifierChanged, 600) {
            format!("OPS/{}", index + 1)
        } else {
            format!("MT-{}", index + 1)
        };
        self.edit(scope, index, wall, |issue| issue.identifier = identifier.into());
    }

    fn change_presence(&mut self, scope: usize, index: usize, wall: Wall) {
        if self.luck.strikes(Fault::IssueLost, 500) {
            self.cards[scope][index].present = false;
            self.changed.push(self.cards[scope][index].issue.id.clone());
        } else if !self.cards[scope][index].present {
            if self.luck.may(Fault::IssueRevived) {
                self.luck.tally.count(Fault::IssueRevived);
            }
            self.cards[scope][index].present = true;
            self.edit(scope, index, wall, |_| ());
        }
    }

    fn change_readability(&mut self, scope: usize, index: usize) {
        let unreadable = self.luck.strikes(Fault::Unreadable, 500);
        let malformed = self.luck.strikes(Fault::Malformed, 300);
        let card = &mut self.cards[scope][index];
        card.readable = !unreadable;
        card.wellformed = !malformed;
    }

    /// What changed since the last time.
    pub(crate) fn changed(&mut self) -> Vec<IssueId> {
        std::mem::take(&mut self.changed)
    }

    /// What is left broken is mended, so that the calm tail can finish everything.
    pub(crate) fn mend(&mut self) {
        self.luck.calm();
        for card in self.cards.iter_mut().flatten() {
            card.readable = true;
            card.wellformed = true;
        }
    }

    /// Every issue of a scope, as a reader would see it.
    pub(crate) fn all(&self, scope: usize) -> Vec<Arc<Issue>> {
        let cards = &self.cards[scope];
        (0..cards.len())
            .filter(|index| cards[*index].born && cards[*index].present)
            .map(|index| self.view(scope, index))
            .collect()
    }
}

/// What a read by id finds.
#[derive(Clone, Debug)]
pub(crate) enum CardRead {
    /// The issue.
    Issue(Arc<Issue>),
    /// Nothing in this scope.
    Absent,
    /// A record that cannot be read.
    Unreadable,
}
