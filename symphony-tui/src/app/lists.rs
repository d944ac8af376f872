//! The four lists, what of them passes the filter, and the row that is chosen in each.

use symphony_api::{IssueHead, Status};

/// One of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueList {
    /// Live runs.
    #[default]
    Running,
    /// Issues that wait for their next attempt.
    Waiting,
    /// Issues that need a person.
    Blocked,
    /// Candidates that were not started, and why.
    Unstarted,
}

impl IssueList {
    /// In the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Running, Self::Waiting, Self::Blocked, Self::Unstarted];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Running => 0,
            Self::Waiting => 1,
            Self::Blocked => 2,
            Self::Unstarted => 3,
        }
    }

    pub(crate) const fn next(self) -> Self {
        Self::ALL[(self.index() + 1) % 4]
    }

    pub(crate) const fn previous(self) -> Self {
        Self::ALL[(self.index() + 3) % 4]
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Blocked => "Blocked",
            Self::Unstarted => "Not started",
        }
    }

    /// What would be in an empty list.
    pub(crate) const fn when_empty(self) -> &'static str {
        match self {
            Self::Running => "agents at work appear here",
            Self::Waiting => "issues between two attempts appear here",
            Self::Blocked => "questions of agents appear here",
            Self::Unstarted => "candidates that cannot start yet appear here",
        }
    }

    /// How many there are, whether they are listed or not.
    pub(crate) fn count(self, status: &Status) -> usize {
        match self {
            Self::Running => status.running.len(),
            Self::Waiting => status.retrying.len(),
            Self::Blocked => status.blocked.len(),
            Self::Unstarted => status
                .summary
                .candidates
                .unclaimed
                .values()
                .fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }

    fn length(self, status: &Status) -> usize {
        match self {
            Self::Unstarted => status.summary.candidates.first.len(),
            _ => self.count(status),
        }
    }

    /// The names of a row: the tracker's, and people's.
    pub(crate) fn names(self, status: &Status, at: usize) -> Option<(&str, &str)> {
        if let Self::Unstarted = self {
            let row = status.summary.candidates.first.get(at)?;
            return Some((&row.issue_id, &row.issue_identifier));
        }
        let head = self.head(status, at)?;
        Some((&head.id, &head.identifier))
    }

    /// What a row of a long list tells of its issue.
    fn head(self, status: &Status, at: usize) -> Option<&IssueHead> {
        match self {
            Self::Running => status.running.get(at).map(|row| &row.issue),
            Self::Waiting => status.retrying.get(at).map(|row| &row.issue),
            Self::Blocked => status.blocked.get(at).map(|row| &row.issue),
            Self::Unstarted => None,
        }
    }

    /// The places of the rows that pass the filter.
    pub(crate) fn rows(self, status: &Status, filter: &str) -> Vec<usize> {
        let wanted = filter.trim().to_lowercase();
        let has = |text: &str| wanted.is_empty() || text.to_lowercase().contains(&wanted);
        let passes = |at: &usize| match (self, self.head(status, *at)) {
            (_, Some(head)) => has(&head.identifier) || has(&head.title) || has(&head.state),
            (Self::Unstarted, None) => {
                status.summary.candidates.first.get(*at).is_some_and(|row| {
                    let texts = [&row.issue_identifier, &row.message, &row.title, &row.state];
                    !row.is_listed_elsewhere && texts.into_iter().any(|text| has(text))
                })
            }
            _ => false,
        };
        (0..self.length(status)).filter(passes).collect()
    }
}

/// The row that is chosen: an issue, wherever it moves to, and its place when it is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    issue: Option<String>,
    at: usize,
}

impl Cursor {
    /// The place among these rows.
    pub(crate) fn place(&self, list: IssueList, status: &Status, rows: &[usize]) -> usize {
        let id = |at: &usize| list.names(status, *at).map(|(id, _)| id);
        let found = self.issue.as_deref().and_then(|issue| {
            // Mostly it is where it was.
            let is_here = |place: usize| rows.get(place).and_then(id) == Some(issue);
            if is_here(self.at) {
                return Some(self.at);
            }
            rows.iter().position(|at| id(at) == Some(issue))
        });
        found.unwrap_or(self.at).min(rows.len().saturating_sub(1))
    }

    /// Moves to this place.
    pub(crate) fn move_to(
        &mut self,
        place: usize,
        list: IssueList,
        status: &Status,
        rows: &[usize],
    ) {
        self.at = place.min(rows.len().saturating_sub(1));
        let chosen = rows.get(self.at).and_then(|at| list.names(status, *at));
        self.issue = chosen.map(|(id, _)| id.to_owned());
    }
}
