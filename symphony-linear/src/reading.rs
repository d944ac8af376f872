//! One read of Linear, from its first request to its last (contract 11.1, 12.5).

use std::collections::{BTreeMap, BTreeSet};

use cynic::QueryBuilder;
use symphony_core::budget::Spender;
use symphony_core::tracker::{CandidateQuery, Candidates, IssuesById, Purpose, Unreadable};
use symphony_core::{Issue, IssueId};
use tokio::time::Instant;

use crate::complexity;
use crate::error::LinearError;
use crate::normal::{self, Flaw};
use crate::order::SortOrder;
use crate::queries::{
    self, IssueFilter, IssuePage, PageInfo, PaginationSortOrder, PollVariables, Rest, RestIssue,
    RestVariables,
};
use crate::tracker::LinearTracker;

type Result<T> = std::result::Result<T, LinearError>;

/// More pages than any project has: a server that goes on for ever is stopped here.
const MAX_PAGES: usize = 200;

/// A read under way.
pub(crate) struct Reading<'t> {
    tracker: &'t LinearTracker,
    purpose: Purpose,
    begun: Instant,
    direction: PaginationSortOrder,
    /// How many requests it took so far.
    pub(crate) made: u32,
}

/// What one request asks for.
#[derive(Clone, Copy, Default)]
struct Ask<'a> {
    candidates: Option<&'a CandidateQuery>,
    after: Option<&'a str>,
    ids: &'a [&'a str],
}

impl<'t> Reading<'t> {
    pub(crate) fn new(tracker: &'t LinearTracker, purpose: Purpose) -> Self {
        let direction = tracker.order.direction();
        Self { tracker, purpose, begun: Instant::now(), direction, made: 0 }
    }

    /// Candidates and issues by id, in one request as far as they fit into one.
    pub(crate) async fn read(
        &mut self,
        query: Option<&CandidateQuery>,
        ids: &[IssueId],
    ) -> (Option<Result<Candidates>>, Result<IssuesById>) {
        let query = query.filter(|query| !query.states.is_empty());
        let ids: BTreeSet<&str> = ids.iter().map(IssueId::as_str).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        if query.is_none() && ids.is_empty() {
            return (None, Ok(IssuesById::default()));
        }
        let (now, later) = ids.split_at(ids.len().min(complexity::most_ids(query.is_some())));
        let ask = Ask { candidates: query, after: None, ids: now };
        let (candidates, claimed) = match self.request(self.purpose, ask).await {
            Ok(answer) => (answer.candidates.map(Ok), Ok(answer.claimed)),
            // Candidates give way first: what runs is looked after all the same (12.6).
            Err(refused @ LinearError::NotMade { .. }) if query.is_some() && !now.is_empty() => {
                let ask = Ask { candidates: None, ..ask };
                let answer = self.request(Purpose::Refresh, ask).await;
                (Some(Err(refused)), answer.map(|answer| answer.claimed))
            }
            Err(error) => (query.map(|_| Err(error.clone())), Err(error)),
        };
        let by_id = match claimed {
            Ok(page) => self.by_id(page, now, later).await,
            Err(error) => Err(error),
        };
        let candidates = match (query, candidates) {
            (None, _) => None,
            (Some(_), None) => Some(Err(absent("the candidates"))),
            (Some(_), Some(Err(error))) => Some(Err(error)),
            (Some(query), Some(Ok(page))) if ids.is_empty() => {
                Some(self.candidates(query, page).await)
            }
            (Some(query), Some(Ok(page))) => {
                // The caller waits for the whole read as long as for one request: what is known of
                // claimed issues is not to be lost with slow pages (8.3).
                let time = self.tracker.config.tracker.timeout;
                let left = (time - time / 10).saturating_sub(self.begun.elapsed());
                let pages = tokio::time::timeout(left, self.candidates(query, page)).await;
                Some(pages.unwrap_or(Err(LinearError::TimedOut(time))))
            }
        };
        (candidates, by_id)
    }

    /// One issue by its identifier or its id.
    pub(crate) async fn find(&mut self, name: &str) -> Result<IssuesById> {
        let mut variables = PollVariables::nothing();
        (variables.ask_claimed, variables.claimed) = (true, IssueFilter::name(name));
        let points = complexity::poll(variables.candidates_first, variables.claimed_first);
        let operation = queries::Poll::build(variables);
        let answer: queries::Poll = self.ask(self.purpose, points, &operation).await?;
        let mut nodes = answer.claimed.ok_or_else(|| absent("the issues by id"))?.nodes;
        self.complete(self.purpose, &mut nodes).await?;
        let mut answer = self.judged(nodes);
        answer.found.retain(|issue| {
            issue.id.as_str() == name || issue.identifier.as_str().eq_ignore_ascii_case(name)
        });
        Ok(answer)
    }

    /// One request for a part of a poll, or all of it.
    async fn request(&mut self, purpose: Purpose, ask: Ask<'_>) -> Result<queries::Poll> {
        let board = &self.tracker.config.board;
        let mut variables = PollVariables::nothing();
        if let Some(query) = ask.candidates {
            variables.ask_candidates = true;
            variables.candidates = board.filter(&query.states);
            variables.candidates_first = self.tracker.page_size();
            variables.after = ask.after.map(str::to_owned);
            variables.sort = Some(SortOrder::sort(self.direction));
        }
        if !ask.ids.is_empty() {
            variables.ask_claimed = true;
            variables.claimed = IssueFilter::ids(ask.ids.iter().copied());
            variables.claimed_first = i32::try_from(ask.ids.len()).unwrap_or(i32::MAX);
        }
        let scope = ask.candidates.is_some() && self.tracker.is_scope_refresh_due();
        if let Some(project) = board.project_filter().filter(|_| scope) {
            (variables.ask_project, variables.project) = (true, project);
        }
        if let Some(team) = board.team_filter().filter(|_| scope) {
            (variables.ask_team, variables.team) = (true, team);
        }
        let points = complexity::poll(variables.candidates_first, variables.claimed_first);
        let operation = queries::Poll::build(variables);
        let answer: queries::Poll = self.ask(purpose, points, &operation).await?;
        if scope {
            self.tracker.update_scope(&answer);
        }
        Ok(answer)
    }

    /// One request, counted if it is made.
    async fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        purpose: Purpose,
        points: u64,
        operation: &(impl serde::Serialize + Sync),
    ) -> Result<T> {
        let spender = Spender::Read(purpose);
        let time = self.tracker.config.tracker.timeout;
        self.made += 1; // also when it is given up on the way
        let answer = self.tracker.client.run(&spender, points, time, operation).await;
        self.made -= u32::from(matches!(answer, Err(LinearError::NotMade { .. })));
        if matches!(answer, Err(LinearError::TooLarge { .. })) {
            self.tracker.shrink_pages();
        }
        answer
    }

    /// The first page of candidates, and others as long as they can matter.
    async fn candidates(&mut self, query: &CandidateQuery, first: IssuePage) -> Result<Candidates> {
        if let Some(problem) = self.tracker.scope_problem() {
            return Err(problem);
        }
        let IssuePage { mut nodes, page_info: mut info } = first;
        let (mut cursors, mut more) = (BTreeSet::new(), false);
        while info.has_next_page {
            let settled = self.tracker.order.settled(self.direction, &nodes);
            if settled >= query.enough {
                nodes.truncate(settled);
                more = true;
                break;
            }
            let cursor = next_cursor(&info, &mut cursors)?;
            let ask = Ask { candidates: Some(query), after: Some(&cursor), ids: &[] };
            let page = self.request(self.purpose, ask).await?.candidates;
            let page = page.ok_or_else(|| absent("a page of candidates"))?;
            nodes.extend(page.nodes);
            info = page.page_info;
        }
        self.complete(self.purpose, &mut nodes).await?;
        let mut issues: BTreeMap<IssueId, Issue> = BTreeMap::new();
        for issue in self.usable(nodes) {
            // An issue that moved while pages were read is on two of them: the later one counts.
            if query.states.contains(&issue.state) {
                issues.insert(issue.id.clone(), issue);
            }
        }
        Ok(Candidates::new(issues.into_values().collect(), more))
    }

    /// The issues of a list that are ours and whole. A malformed one is dropped, and told (1.3).
    fn usable(&self, nodes: Vec<queries::Issue>) -> Vec<Issue> {
        let config = &self.tracker.config;
        let ours = nodes.into_iter().filter(|node| config.board.holds(node));
        let read = ours.map(|node| normal::issue(node, config.assignee.as_ref()));
        let usable =
            read.filter_map(|issue| issue.map_err(|flaw| self.tracker.log_flaw(&flaw)).ok());
        usable.collect()
    }

    /// The answer to a read by id: the first page, and those for ids that did not fit.
    async fn by_id(
        &mut self,
        first: Option<IssuePage>,
        asked: &[&str],
        later: &[&str],
    ) -> Result<IssuesById> {
        let mut nodes = Vec::new();
        self.take_page(&mut nodes, first, asked)?;
        for ids in later.chunks(complexity::most_ids(false)) {
            let ask = Ask { ids, ..Ask::default() };
            let page = self.request(self.by_id_purpose(), ask).await?.claimed;
            self.take_page(&mut nodes, page, ids)?;
        }
        self.complete(self.by_id_purpose(), &mut nodes).await?;
        Ok(self.judged(nodes))
    }

    /// The issues that are ours, and those that cannot be read.
    fn judged(&self, nodes: Vec<queries::Issue>) -> IssuesById {
        let mut answer = IssuesById::default();
        let config = &self.tracker.config;
        let told = |node: &queries::Issue| config.board.holds(node) || !normal::is_whole(node);
        for node in nodes.into_iter().filter(told) {
            match normal::issue(node, config.assignee.as_ref()) {
                Ok(issue) => answer.found.push(issue),
                Err(Flaw { id, message }) => answer.unreadable.push(Unreadable { id, message }),
            }
        }
        answer
    }

    /// The ids of a poll for candidates are there to be refreshed.
    const fn by_id_purpose(&self) -> Purpose {
        match self.purpose {
            Purpose::Candidates => Purpose::Refresh,
            purpose => purpose,
        }
    }

    /// Takes in the issues with these ids. A record without one could be any of them, and left out
    /// it would look gone.
    fn take_page(
        &self,
        nodes: &mut Vec<queries::Issue>,
        page: Option<IssuePage>,
        asked: &[&str],
    ) -> Result<()> {
        if asked.is_empty() {
            return Ok(());
        }
        let page = page.ok_or_else(|| absent("the issues by id"))?;
        if page.page_info.has_next_page {
            return Err(LinearError::Pages("there are more issues than ids"));
        }
        for node in page.nodes {
            let id = normal::id(&node);
            if id.is_empty() {
                return Err(LinearError::Unexpected("an issue has no id".to_owned()));
            }
            let is_new = !nodes.iter().any(|known| normal::id(known) == id);
            if is_new && asked.binary_search(&id).is_ok() {
                nodes.push(node);
            }
        }
        Ok(())
    }

    /// Reads the labels and relations that did not fit beside their issues.
    async fn complete(&mut self, purpose: Purpose, nodes: &mut [queries::Issue]) -> Result<()> {
        let overflow: Vec<String> = nodes
            .iter()
            .filter(|node| {
                normal::overflows(node, queries::LABELS_PER_ISSUE, queries::RELATIONS_PER_ISSUE)
            })
            .map(|node| normal::id(node).to_owned())
            .filter(|id| !id.is_empty())
            .collect();
        let mut rests: BTreeMap<String, RestIssue> = BTreeMap::new();
        for ids in overflow.chunks(complexity::MAX_RESTS) {
            let first = i32::try_from(ids.len()).unwrap_or(i32::MAX);
            let filter = IssueFilter::ids(ids.iter().map(String::as_str));
            let operation = Rest::build(RestVariables { filter, first });
            let points = complexity::rest(first);
            let rest: Rest = self.ask(purpose, points, &operation).await?;
            let known = rest.issues.nodes.into_iter();
            rests.extend(known.filter_map(|rest| Some((rest.id.clone()?.into_inner(), rest))));
        }
        for node in nodes {
            if let Some(rest) = rests.remove(normal::id(node)) {
                node.labels = rest.labels;
                node.inverse_relations = rest.inverse_relations;
            } else if overflow.iter().any(|id| id == normal::id(node)) {
                // It went while we read: half of its labels would be another issue's.
                node.title = None;
            }
        }
        Ok(())
    }
}

fn next_cursor(info: &PageInfo, cursors: &mut BTreeSet<String>) -> Result<String> {
    let cursor = info.end_cursor.clone().filter(|cursor| !cursor.is_empty());
    let cursor = cursor.ok_or(LinearError::Pages("more is said to follow, but not where"))?;
    if !cursors.insert(cursor.clone()) {
        return Err(LinearError::Pages("the same page follows itself"));
    }
    if cursors.len() >= MAX_PAGES {
        return Err(LinearError::Pages("there is no end to them"));
    }
    Ok(cursor)
}

fn absent(what: &str) -> LinearError {
    LinearError::Unexpected(format!("{what} are missing"))
}
