//! The tracker of the harness: a board of issues that answers reads truthfully.

use symphony_core::orchestrator::Answer;
use symphony_core::time::Wall;
use symphony_core::tracker::{Candidates, IssuesById, Poll, Purpose, Unreadable};
use symphony_core::{Blocker, Issue, IssueId, Label, StateKind};

use super::Harness;

/// `MT-1` has the id `mt-1`, also after it is renamed.
pub(crate) fn id(name: &str) -> IssueId {
    IssueId::from(name.to_lowercase())
}

/// What the issue with this id was first called.
pub(crate) fn name(id: &IssueId) -> String {
    id.as_str().to_uppercase()
}

/// An issue in `Todo` with nothing special.
pub(crate) fn issue(name: &str) -> Issue {
    Issue::new(id(name).as_str(), name, "Fix the door", "Todo").unwrap()
}

/// Writing an issue in one line.
pub(crate) trait Draft: Sized {
    fn change(self, change: impl FnOnce(&mut Issue)) -> Issue;

    fn state(self, state: &str) -> Issue {
        self.change(|issue| issue.state = state.into())
    }

    fn kind(self, kind: StateKind) -> Issue {
        self.change(|issue| issue.state_kind = Some(kind))
    }

    fn priority(self, priority: i64) -> Issue {
        self.change(|issue| issue.priority = Some(priority))
    }

    fn created(self, millis: i64) -> Issue {
        self.change(|issue| issue.created_at = Some(Wall::from_unix_millis(millis)))
    }

    fn updated(self, millis: i64) -> Issue {
        self.change(|issue| issue.updated_at = Some(Wall::from_unix_millis(millis)))
    }

    fn label(self, label: &str) -> Issue {
        self.change(|issue| issue.labels.push(Label::new(label)))
    }

    fn called(self, identifier: &str) -> Issue {
        self.change(|issue| issue.identifier = identifier.into())
    }

    fn titled(self, title: &str) -> Issue {
        self.change(|issue| title.clone_into(&mut issue.title))
    }

    fn undispatchable(self) -> Issue {
        self.change(|issue| issue.dispatchable = false)
    }

    /// A blocker of which the state is known.
    fn blocked_by(self, name: &str, state: &str) -> Issue {
        self.blocker(Blocker {
            id: Some(id(name)),
            identifier: Some(name.into()),
            state: Some(state.into()),
            state_kind: None,
        })
    }

    fn blocker(self, blocker: Blocker) -> Issue {
        self.change(|issue| issue.blocked_by.push(blocker))
    }
}

impl Draft for Issue {
    fn change(mut self, change: impl FnOnce(&mut Issue)) -> Issue {
        change(&mut self);
        self
    }
}

/// A poll in a few words; its ids in alphabetical order.
pub(super) fn spell(poll: &Poll) -> String {
    let list = |ids: &[IssueId]| {
        let mut names: Vec<_> = ids.iter().map(name).collect();
        names.sort();
        names.join(" ")
    };
    let ids = list(&poll.ids);
    match (poll.purpose, &poll.candidates) {
        (Purpose::Check | Purpose::Turn | Purpose::Delivery, _) => format!("read {ids}"),
        (_, None) => format!("refresh {ids}"),
        (Purpose::Sweep, Some(query)) => {
            let names = query.states.names().iter().map(|state| state.as_str());
            format!("states {}", names.collect::<Vec<_>>().join(" "))
        }
        (_, Some(_)) if poll.ids.is_empty() => "poll".to_owned(),
        (_, Some(_)) => format!("poll with {ids}"),
    }
}

impl Harness {
    /// Puts issues on the board, or replaces them.
    pub(crate) fn board(&mut self, issues: impl IntoIterator<Item = Issue>) {
        for issue in issues {
            self.board.insert(issue.id.as_str().to_owned(), issue);
        }
    }

    /// The issue is deleted, or moves out of scope.
    pub(crate) fn delete(&mut self, name: &str) {
        self.board.remove(id(name).as_str());
    }

    /// From now on the issue's record cannot be read by id.
    pub(crate) fn unreadable(&mut self, name: &str) {
        self.unreadable.push(id(name).as_str().to_owned());
    }

    /// The answer that the board gives to a poll.
    pub(super) fn board_answer(&self, poll: &Poll) -> Answer {
        let in_states = |states: &symphony_core::StateSet| Candidates {
            issues: self
                .board
                .values()
                .filter(|issue| states.contains(&issue.state))
                .cloned()
                .collect(),
            more: false,
        };
        let candidates = poll.candidates.as_ref();
        Answer {
            candidates: candidates.map(|query| Ok(in_states(&query.states))),
            by_id: (!poll.ids.is_empty()).then(|| Ok(self.by_id(&poll.ids))),
            requests: 1,
            ..Answer::default()
        }
    }

    fn by_id(&self, ids: &[IssueId]) -> IssuesById {
        let mut by_id = IssuesById::default();
        for id in ids {
            if self.unreadable.iter().any(|name| name == id.as_str()) {
                by_id
                    .unreadable
                    .push(Unreadable { id: id.clone(), message: "no title".to_owned() });
            } else {
                by_id.found.extend(self.board.get(id.as_str()).cloned());
            }
        }
        by_id
    }
}
