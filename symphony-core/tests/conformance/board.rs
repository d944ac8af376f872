//! A small tracker in memory: right, unless it is told to make one mistake.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::json;
use symphony_core::conformance::tracker::{Fault, Seed};
use symphony_core::conformance::{Able, TrackerFixture};
use symphony_core::time::Wall;
use symphony_core::tracker::{
    AgentTools, CandidateQuery, Candidates, IssuesById, Poll, Polled, ToolCall, ToolResult,
    ToolSpec, Tracker, TrackerError, TrackerErrorKind, Unreadable,
};
use symphony_core::{Blocker, Issue, IssueId, Label, MalformedIssue, StateName, StateSet};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

const PAGE: usize = 4;

/// A mistake an adapter's author could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    AsksForNoStates,
    PollsForNothing,
    ReadsTheFirstPage,
    ReadsTheFirstIds,
    KeepsAPartOfTheList,
    RepeatsIds,
    ReportsTheGoneAsUnreadable,
    IgnoresTheScope,
    ListsOtherStates,
    ReadsOpenIssuesOnly,
    KeepsRawLabels,
    ForgetsBlockers,
    HidesBlockerStates,
    KeepsBlockerStates,
    HidesTheUndispatchable,
    ComparesStatesExactly,
    EchoesTheAskedState,
    FailsAListWithABadRecord,
    ListsABadRecord,
    OmitsABadRecord,
    ChangesTheTitle,
    ForgetsThePriority,
    AnswersFromACache,
    LeaksDroppedCalls,
    SharesABuffer,
    PollsThrice,
    MiscountsAPoll,
    AlwaysPollsCandidates,
    PollsEachIssueOnce,
    SpoilsAPoll,
    StopsSilently,
    StopsInAnotherOrder,
    StopsTooEarly,
    PollsAnEmptyList,
    HasOneCategory,
    MistakesStatusForNonsense,
    ForgetsWhenToReturn,
    RemembersAFailure,
    HasTwoToolsOfOneName,
    AcceptsAnyTool,
    AcceptsAnyArguments,
    MovesNothing,
    MovesAnotherIssue,
    HidesItsChange,
    FindsByIdAlone,
    FindsOpenIssuesOnly,
    FindsBeginnings,
    FindsAnotherIssue,
    FindsBeyondItsScope,
    FindsNothingWhenItFails,
    FindsNoBadRecord,
}

#[derive(Clone, Debug)]
struct Record {
    id: IssueId,
    seed: Seed,
    /// The state that it began in.
    put_in: StateName,
    outside: bool,
}

#[derive(Debug, Default)]
struct World {
    records: Vec<Record>,
    requests: u64,
    fault: Option<Fault>,
}

#[derive(Debug)]
pub(crate) struct Board {
    world: Arc<Mutex<World>>,
    mistakes: Vec<Mistake>,
    open_calls: AtomicU32,
    buffer: Mutex<Vec<IssueId>>,
    cache: Mutex<BTreeMap<IssueId, Issue>>,
    broken_for_good: Mutex<bool>,
}

/// The board, and a runtime to read it in.
pub(crate) struct Fixture {
    board: Arc<Board>,
    runtime: Runtime,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    pub(crate) fn with(mistakes: impl IntoIterator<Item = Mistake>) -> Self {
        let board = Board {
            world: Arc::default(),
            mistakes: mistakes.into_iter().collect(),
            open_calls: AtomicU32::new(0),
            buffer: Mutex::default(),
            cache: Mutex::default(),
            broken_for_good: Mutex::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Self { board: Arc::new(board), runtime: runtime.unwrap() }
    }

    fn add(&self, seed: Seed, outside: bool) -> IssueId {
        let mut world = self.board.world();
        let id = IssueId::from(format!("id-{}", world.records.len()));
        let put_in = seed.state.clone();
        world.records.push(Record { id: id.clone(), seed, put_in, outside });
        id
    }
}

impl TrackerFixture for Fixture {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn tracker(&self) -> Arc<dyn Tracker> {
        Arc::clone(&self.board) as Arc<dyn Tracker>
    }

    fn states(&self) -> [StateName; 2] {
        ["In Progress", "Done"].map(StateName::from)
    }

    fn put(&self, seed: Seed) -> Able<IssueId> {
        Ok(self.add(seed, false))
    }

    fn move_to(&self, id: &IssueId, state: &StateName) {
        let mut world = self.board.world();
        let record = world.records.iter_mut().find(|record| record.id == *id);
        record.unwrap().seed.state = state.clone();
    }

    fn remove(&self, id: &IssueId) {
        self.board.world().records.retain(|record| record.id != *id);
    }

    fn requests(&self) -> u64 {
        self.board.world().requests
    }

    fn put_outside(&self, seed: Seed) -> Able<IssueId> {
        Ok(self.add(seed, true))
    }

    fn spoil(&self, id: &IssueId) -> Able {
        let mut world = self.board.world();
        let record = world.records.iter_mut().find(|record| record.id == *id);
        record.unwrap().seed.title.clear();
        Ok(())
    }

    fn fail(&self, fault: Option<Fault>) -> Able {
        self.board.world().fault = fault;
        Ok(())
    }

    fn page_size(&self) -> Able<usize> {
        Ok(PAGE)
    }

    fn move_call(&self, issue: &Arc<Issue>, state: &StateName) -> Able<ToolCall> {
        let (name, arguments) = ("update_issue".to_owned(), json!({ "state": state }));
        Ok(ToolCall { name, arguments, issue: Arc::clone(issue) })
    }
}

impl Board {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistakes.contains(&mistake)
    }

    /// One request for the given page.
    async fn request(&self, page: usize) -> Result<(), TrackerError> {
        let fault = {
            let mut world = self.world();
            world.requests += 1;
            world.fault
        };
        yield_now().await;
        yield_now().await;
        if *self.broken_for_good.lock().unwrap() {
            return Err(TrackerError::new(TrackerErrorKind::Request, "still broken"));
        }
        let (kind, message) = match fault {
            None => return Ok(()),
            Some(Fault::LaterPage) if page == 0 => return Ok(()),
            Some(Fault::Unreachable | Fault::LaterPage) => {
                (TrackerErrorKind::Request, "connection refused")
            }
            Some(Fault::Status) if self.makes(Mistake::MistakesStatusForNonsense) => {
                (TrackerErrorKind::Response, "expected value at line 1")
            }
            Some(Fault::Status) => (TrackerErrorKind::Status, "HTTP 500"),
            Some(Fault::Nonsense) => (TrackerErrorKind::Response, "expected value at line 1"),
            Some(Fault::RateLimited(_)) => (TrackerErrorKind::RateLimited, "slow down"),
        };
        let back = match fault {
            Some(Fault::RateLimited(span)) if !self.makes(Mistake::ForgetsWhenToReturn) => {
                Some(Wall::default() + span)
            }
            _ => None,
        };
        if fault == Some(Fault::Unreachable) && self.makes(Mistake::RemembersAFailure) {
            *self.broken_for_good.lock().unwrap() = true;
        }
        let kind = match self.makes(Mistake::HasOneCategory) {
            true => TrackerErrorKind::Status,
            false => kind,
        };
        Err(TrackerError::new(kind, message).with_retry_at(back))
    }

    /// Whether a name means an issue of the scope.
    fn is_called(&self, record: &Record, name: &str) -> bool {
        let identifier = identifier(record);
        let is_called = match self.makes(Mistake::FindsBeginnings) {
            true => identifier.starts_with(name),
            false => identifier == name && !self.makes(Mistake::FindsByIdAlone),
        };
        let is_open = record.seed.state == StateName::from("In Progress");
        let is_in_scope = !record.outside || self.makes(Mistake::FindsBeyondItsScope);
        (is_called || record.id.as_str() == name)
            && is_in_scope
            && (is_open || !self.makes(Mistake::FindsOpenIssuesOnly))
    }

    fn issue(&self, all: &[Record], record: &Record) -> Result<Issue, MalformedIssue> {
        let seed = &record.seed;
        let identifier = identifier(record);
        let mut issue =
            Issue::new(record.id.as_str(), &identifier, &seed.title, seed.state.as_str())?;
        let forgets = self.makes(Mistake::ForgetsThePriority);
        issue.priority = seed.priority.filter(|_| !forgets);
        if self.makes(Mistake::ChangesTheTitle) {
            issue.title = issue.title.replace('"', "'");
        }
        issue.created_at = seed.created_at;
        issue.dispatchable = seed.dispatchable;
        issue.labels = match self.makes(Mistake::KeepsRawLabels) {
            true => seed.labels.iter().map(|label| Label::new(label)).collect(),
            false => Label::list(&seed.labels),
        };
        if !self.makes(Mistake::ForgetsBlockers) {
            let blockers = seed.blocked_by.iter().map(|id| Blocker {
                id: Some(id.clone()),
                state: self.state_of_blocker(all, id),
                ..Blocker::default()
            });
            issue.blocked_by = blockers.collect();
        }
        Ok(issue)
    }

    fn state_of_blocker(&self, all: &[Record], id: &IssueId) -> Option<StateName> {
        let blocker = all.iter().find(|record| record.id == *id)?;
        let is_kept = self.makes(Mistake::KeepsBlockerStates);
        let state = if is_kept { &blocker.put_in } else { &blocker.seed.state };
        (!self.makes(Mistake::HidesBlockerStates)).then(|| state.clone())
    }

    fn matching(&self, states: &StateSet) -> Vec<Record> {
        let exact = self.makes(Mistake::ComparesStatesExactly);
        let named = |state: &StateName| states.names().iter().any(|s| s.as_str() == state.as_str());
        let fits = |record: &&Record| {
            let state = &record.seed.state;
            let state = if exact { named(state) } else { states.contains(state) };
            let hidden = self.makes(Mistake::HidesTheUndispatchable) && !record.seed.dispatchable;
            (state || self.makes(Mistake::ListsOtherStates)) && !record.outside && !hidden
        };
        let mut records: Vec<_> = self.world().records.iter().filter(fits).cloned().collect();
        records.sort_by_key(order);
        records
    }

    /// The page that a request brings, and those after it.
    async fn list(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        let mut issues = Vec::new();
        for page in 0.. {
            match self.request(page).await {
                Err(_) if self.makes(Mistake::KeepsAPartOfTheList) && page > 0 => break,
                answer => answer?,
            }
            let records = self.matching(states);
            let all = self.world().records.clone();
            for record in records.iter().skip(page * PAGE).take(PAGE) {
                match self.issue(&all, record) {
                    Ok(issue) => issues.push(issue),
                    Err(error) if self.makes(Mistake::FailsAListWithABadRecord) => {
                        return Err(TrackerError::new(
                            TrackerErrorKind::Response,
                            error.to_string(),
                        ));
                    }
                    Err(_) if self.makes(Mistake::ListsABadRecord) => {
                        let mut record = record.clone();
                        record.seed.title = "?".to_owned();
                        let mut issue = self.issue(&all, &record).unwrap();
                        issue.title.clear();
                        issues.push(issue);
                    }
                    Err(_) => {}
                }
            }
            if records.len() <= (page + 1) * PAGE || self.makes(Mistake::ReadsTheFirstPage) {
                break;
            }
        }
        if self.makes(Mistake::EchoesTheAskedState) {
            for issue in &mut issues {
                let asked = states.names().iter().find(|state| **state == issue.state);
                issue.state = asked.unwrap().clone();
            }
        }
        Ok(issues)
    }

    fn pick(&self, ids: &[IssueId]) -> IssuesById {
        let mut answer = IssuesById::default();
        let mut ids = ids.to_vec();
        if !self.makes(Mistake::RepeatsIds) {
            ids.sort();
            ids.dedup();
        }
        let world = self.world();
        for id in ids {
            let Some(record) = world.records.iter().find(|record| record.id == id) else {
                if self.makes(Mistake::ReportsTheGoneAsUnreadable) {
                    let message = "not found".to_owned();
                    answer.unreadable.push(Unreadable { id, message });
                }
                continue;
            };
            let open = record.seed.state == StateName::from("In Progress");
            if record.outside && !self.makes(Mistake::IgnoresTheScope)
                || !open && self.makes(Mistake::ReadsOpenIssuesOnly)
            {
                continue;
            }
            match self.issue(&world.records, record) {
                Ok(issue) => answer.found.push(issue),
                Err(_) if self.makes(Mistake::OmitsABadRecord) => {}
                Err(error) => {
                    let message = error.to_string();
                    answer.unreadable.push(Unreadable { id, message });
                }
            }
        }
        answer
    }

    async fn read(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        let mut ids = ids.to_vec();
        ids.dedup();
        let pages = match self.makes(Mistake::ReadsTheFirstIds) {
            true => 1,
            false => ids.len().div_ceil(PAGE),
        };
        for page in 0..pages {
            self.request(page).await?;
        }
        ids.truncate(pages * PAGE);
        Ok(self.pick(&ids))
    }
}

fn identifier(record: &Record) -> String {
    record.id.as_str().replace("id-", "MT-")
}

/// Contract 5.3.
fn order(record: &Record) -> (i64, bool, Option<Wall>, IssueId) {
    let seed = &record.seed;
    let rank = seed.priority.filter(|p| (1..=4).contains(p)).unwrap_or(5);
    (rank, seed.created_at.is_none(), seed.created_at, record.id.clone())
}

/// Counts calls that were begun and neither finished nor given up.
struct OpenCall<'b>(&'b Board);

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.0.makes(Mistake::LeaksDroppedCalls) {
            self.0.open_calls.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Tracker for Board {
    async fn poll(&self, poll: &Poll) -> Polled {
        let before = self.world().requests;
        let (candidates, by_id) = match &poll.candidates {
            None => self.ids_alone(&poll.ids).await,
            Some(query) if poll.ids.is_empty() && query.enough == usize::MAX => {
                self.list_alone(&query.states).await
            }
            Some(query) => self.both(query, &poll.ids).await,
        };
        let made = self.world().requests - before;
        let mut polled = Polled::new(candidates, by_id);
        polled.requests = match self.makes(Mistake::MiscountsAPoll) {
            true => 0,
            false => u32::try_from(made).unwrap(),
        };
        polled
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        match self.request(0).await {
            Err(_) if self.makes(Mistake::FindsNothingWhenItFails) => return Ok(None),
            answer => answer?,
        }
        let world = self.world();
        let Some(record) = world.records.iter().find(|record| self.is_called(record, name)) else {
            let any = world.records.first().filter(|_| self.makes(Mistake::FindsAnotherIssue));
            return Ok(any.and_then(|record| self.issue(&world.records, record).ok()));
        };
        match self.issue(&world.records, record) {
            Ok(issue) => Ok(Some(issue)),
            Err(_) if self.makes(Mistake::FindsNoBadRecord) => Ok(None),
            Err(error) => Err(TrackerError::new(TrackerErrorKind::Response, error.to_string())),
        }
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        let (world, mistakes) = (Arc::clone(&self.world), self.mistakes.clone());
        Some(Arc::new(Tools { world, mistakes }))
    }
}

/// The list and the issues of a poll.
type Parts = (Option<Result<Candidates, TrackerError>>, Result<IssuesById, TrackerError>);

impl Board {
    async fn list_alone(&self, states: &StateSet) -> Parts {
        let mut list = Ok(Vec::new());
        if !states.is_empty() || self.makes(Mistake::AsksForNoStates) {
            list = self.list(states).await;
        }
        (Some(list.map(|issues| Candidates::new(issues, false))), Ok(IssuesById::default()))
    }

    async fn ids_alone(&self, ids: &[IssueId]) -> Parts {
        if ids.is_empty() {
            let mut by_id = Ok(IssuesById::default());
            if self.makes(Mistake::PollsForNothing) {
                by_id = self.request(0).await.map(|()| IssuesById::default());
            }
            return (None, by_id);
        }
        let is_wrong = self.makes(Mistake::AlwaysPollsCandidates);
        (is_wrong.then(|| Ok(Candidates::default())), self.by_ids(ids).await)
    }

    async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        // At most eight connections.
        if self.open_calls.fetch_add(1, Ordering::SeqCst) >= 8 {
            return Err(TrackerError::new(TrackerErrorKind::Request, "no connection free"));
        }
        let call = OpenCall(self);
        *self.buffer.lock().unwrap() = ids.to_vec();
        let mut answer = self.read(ids).await?;
        drop(call);
        if self.makes(Mistake::LeaksDroppedCalls) {
            self.open_calls.fetch_sub(1, Ordering::SeqCst);
        }
        if self.makes(Mistake::SharesABuffer) {
            let ids = self.buffer.lock().unwrap().clone();
            answer = self.pick(&ids);
        }
        if self.makes(Mistake::AnswersFromACache) {
            let mut cache = self.cache.lock().unwrap();
            for issue in &mut answer.found {
                *issue = cache.entry(issue.id.clone()).or_insert_with(|| issue.clone()).clone();
            }
        }
        Ok(answer)
    }

    /// The ids travel with the first page.
    async fn both(&self, query: &CandidateQuery, ids: &[IssueId]) -> Parts {
        let mut candidates = Some(self.candidates(&query.states, query.enough).await);
        let mut by_id = match &candidates {
            Some(Err(error)) if !ids.is_empty() => {
                Err(TrackerError::new(error.kind, error.message.clone()))
            }
            _ => Ok(self.pick(ids)),
        };
        self.err_in_poll(&mut candidates, &mut by_id).await;
        (candidates, by_id)
    }

    async fn candidates(
        &self,
        states: &StateSet,
        enough: usize,
    ) -> Result<Candidates, TrackerError> {
        let mut issues = Vec::new();
        let all = self.world().records.clone();
        let mut records = self.matching(states);
        if self.makes(Mistake::StopsInAnotherOrder) {
            records.sort_by_key(|record| record.id.clone());
        }
        let too_early = self.makes(Mistake::StopsTooEarly) && records.len() > PAGE;
        for (page, part) in records.chunks(PAGE).enumerate() {
            self.request(page).await?;
            issues.extend(part.iter().filter_map(|record| self.issue(&all, record).ok()));
            if issues.len() >= enough {
                break;
            }
        }
        if records.is_empty() {
            self.request(0).await?;
        }
        if too_early {
            issues.truncate(enough - 1);
        }
        let well_formed = records.iter().filter(|record| self.issue(&all, record).is_ok()).count();
        let more = issues.len() < well_formed && !self.makes(Mistake::StopsSilently);
        Ok(Candidates::new(issues, more))
    }

    /// What can go wrong with the parts of a poll.
    async fn err_in_poll(
        &self,
        candidates: &mut Option<Result<Candidates, TrackerError>>,
        by_id: &mut Result<IssuesById, TrackerError>,
    ) {
        if self.makes(Mistake::PollsThrice) && candidates.is_some() {
            for _ in 0..2 {
                _ = self.request(0).await;
            }
        }
        if let (Some(Ok(list)), Ok(read)) = (&mut *candidates, &*by_id)
            && self.makes(Mistake::PollsEachIssueOnce)
        {
            let read: Vec<_> = read.found.iter().map(|issue| &issue.id).collect();
            list.issues.retain(|issue| !read.contains(&&issue.id));
        }
        if matches!(by_id, Ok(read) if !read.unreadable.is_empty())
            && self.makes(Mistake::SpoilsAPoll)
        {
            *by_id = Err(TrackerError::new(TrackerErrorKind::Response, "a bad record"));
        }
        if matches!(candidates, Some(Err(_))) && self.makes(Mistake::PollsAnEmptyList) {
            *candidates = Some(Ok(Candidates::default()));
        }
    }
}

#[derive(Debug)]
struct Tools {
    world: Arc<Mutex<World>>,
    mistakes: Vec<Mistake>,
}

impl Tools {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistakes.contains(&mistake)
    }

    fn move_to(&self, id: &IssueId, state: &str) {
        let mut world = self.world.lock().unwrap();
        let records = &mut world.records;
        let wanted = |record: &&mut Record| match self.makes(Mistake::MovesAnotherIssue) {
            true => record.id != *id,
            false => record.id == *id,
        };
        if let Some(record) = records.iter_mut().find(wanted) {
            record.seed.state = state.into();
        }
    }
}

#[async_trait]
impl AgentTools for Tools {
    fn specs(&self) -> Vec<ToolSpec> {
        let schema = json!({ "type": "object", "required": ["state"] });
        let spec = ToolSpec::new("update_issue", "Moves your issue to another state.", schema);
        match self.makes(Mistake::HasTwoToolsOfOneName) {
            true => vec![spec.clone(), spec],
            false => vec![spec],
        }
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let text = format!("{} on {}", call.name, call.issue.identifier);
        let known = call.name == "update_issue" || self.makes(Mistake::AcceptsAnyTool);
        let state = call.arguments["state"].as_str();
        let valid = state.is_some()
            || call.name != "update_issue"
            || self.makes(Mistake::AcceptsAnyArguments);
        if !known || !valid {
            return ToolResult::failure(text);
        }
        if let Some(state) = state.filter(|_| !self.makes(Mistake::MovesNothing)) {
            self.move_to(&call.issue.id, state);
        }
        ToolResult::success(text).with_change(!self.makes(Mistake::HidesItsChange))
    }
}
