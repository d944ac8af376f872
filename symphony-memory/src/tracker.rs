//! The tracker: a board behind the door that every tracker has.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use symphony_core::finding::Finding;
use symphony_core::tracker::{AgentTools, Candidates, Poll, Polled, Tracker, TrackerError};
use symphony_core::{Issue, IssueId, Settings, StateName};
use tokio::sync::{Mutex, watch};

use crate::board::{Card, Comment, MemoryBoard};
use crate::board_file::{BoardError, BoardFile};
use crate::clock::BoardClock;
use crate::examine;
use crate::factory::default_states;
use crate::faults::{Faults, Met, Requests};
use crate::file_thread::FileThread;
use crate::seeds::Seeds;
use crate::update_issue::{IssueUpdate, UpdateIssue, UpdateRefusal};

/// An issue tracker in the process. Clones share one board.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use symphony_core::tracker::TrackerExt;
/// use symphony_core::{Issue, StateSet};
/// use symphony_memory::MemoryTracker;
///
/// let board = MemoryTracker::new();
/// board.add(Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap());
/// board.set_state("1", "In Progress");
/// let active = board.fetch_issues_by_states(&StateSet::new(["in progress"])).await.unwrap();
/// assert_eq!(active[0].identifier.as_str(), "MT-1");
/// # });
/// ```
#[derive(Clone)]
pub struct MemoryTracker {
    shared: Arc<TrackerState>,
}

struct TrackerState {
    board: watch::Sender<MemoryBoard>,
    file: Option<Mutex<FileThread>>,
    write_back: AtomicBool,
    faults: Faults,
    requests: AtomicU64,
    clock: BoardClock,
}

impl MemoryTracker {
    /// An empty board.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(BoardClock::system())
    }

    /// An empty board whose changes get their time from this clock.
    #[must_use]
    pub fn with_clock(clock: BoardClock) -> Self {
        Self::build(clock, None)
    }

    /// A board that is read from a file, now and whenever the file changes. What agents change
    /// with the tool is written back; what is changed through this type stays in the process.
    ///
    /// # Errors
    /// `tracker_request` if there is no such file, `tracker_response` with the line if it is no
    /// board.
    pub fn open(path: impl Into<PathBuf>, clock: BoardClock) -> Result<Self, TrackerError> {
        let mut file = BoardFile::new(path.into());
        let seeds = file.read()?.unwrap_or_default();
        let path = file.path().to_owned();
        let file = FileThread::start(file)
            .map_err(|source| BoardError::Unreadable { path, source: Arc::new(source) })?;
        let tracker = Self::build(clock, Some(file));
        tracker.seed(seeds);
        Ok(tracker)
    }

    fn build(clock: BoardClock, file: Option<FileThread>) -> Self {
        let mut board = MemoryBoard::default();
        let (active, terminal) = default_states();
        board.configure(active.names().iter().chain(terminal.names()).cloned().collect());
        let shared = TrackerState {
            board: watch::Sender::new(board),
            file: file.map(Mutex::new),
            write_back: AtomicBool::new(true),
            faults: Faults::default(),
            requests: AtomicU64::new(0),
            clock,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether what agents change with the tool is written to the board file. It is, unless this
    /// says otherwise.
    pub fn set_write_back(&self, write_back: bool) {
        self.shared.write_back.store(write_back, Ordering::Relaxed);
    }

    /// Puts an issue on the board, in the place of one with its id.
    pub fn add(&self, issue: Issue) {
        let now = self.shared.clock.now();
        self.shared.board.send_modify(|board| {
            let comments = board.comments(issue.id.as_str()).to_vec();
            board.place(Card { issue, comments }, now);
        });
    }

    /// Moves an issue. Says whether there is such an issue.
    pub fn set_state(&self, id: &str, state: &str) -> bool {
        self.update(id, |issue| issue.state = state.into())
    }

    /// Changes an issue and, if that made a difference, moves its `updated_at` on. Says whether
    /// there is such an issue. Its id stays what it is.
    pub fn update(&self, id: &str, change: impl FnOnce(&mut Issue)) -> bool {
        let now = self.shared.clock.now();
        let mut found = false;
        self.shared.board.send_if_modified(|board| {
            let changed = board.edit(&IssueId::from(id), now, |card| change(&mut card.issue));
            found = changed.is_some();
            changed.unwrap_or(false)
        });
        found
    }

    /// Takes an issue off the board.
    pub fn remove(&self, id: &str) -> Option<Issue> {
        let mut taken = None;
        self.shared.board.send_if_modified(|board| {
            taken = board.take(&IssueId::from(id));
            taken.is_some()
        });
        taken.map(|card| card.issue)
    }

    /// Makes the record of an issue malformed: a list drops it, and a read by id reports it as
    /// unreadable (contract 1.3).
    pub fn spoil(&self, id: &str, why: &str) {
        let why = Some(why.to_owned());
        self.shared.board.send_modify(|board| board.set_unreadable(&id.into(), why));
    }

    /// Makes a spoiled record readable again.
    pub fn mend(&self, id: &str) {
        self.shared.board.send_modify(|board| board.set_unreadable(&id.into(), None));
    }

    /// Every readable issue as a read shows it, in the order of their ids.
    #[must_use]
    pub fn issues(&self) -> Vec<Issue> {
        let board = self.shared.board.borrow();
        board.issues().filter_map(|issue| board.read(&issue.id)?.ok()).collect()
    }

    /// One issue as a read shows it.
    #[must_use]
    pub fn issue(&self, id: &str) -> Option<Issue> {
        self.shared.board.borrow().read(&id.into())?.ok()
    }

    /// What was said about an issue, oldest first.
    #[must_use]
    pub fn comments(&self, id: &str) -> Vec<Comment> {
        self.shared.board.borrow().comments(id).to_vec()
    }

    /// Follows the board.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<MemoryBoard> {
        self.shared.board.subscribe()
    }

    /// Waits until the board is as the condition wants it.
    pub async fn wait_until(&self, condition: impl FnMut(&MemoryBoard) -> bool) {
        // The sender lives as long as we do, so this ends with the condition only.
        let _ = self.subscribe().wait_for(condition).await;
    }

    /// Faults that reads and tools shall meet.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// How many requests were made: reads and tool calls.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn clock(&self) -> BoardClock {
        self.shared.clock.clone()
    }

    /// The states that the settings name, for the tools.
    pub(crate) fn configure(&self, states: Vec<StateName>) {
        self.shared.board.send_modify(|board| board.configure(states));
    }

    /// Takes over what is written down.
    pub(crate) fn seed(&self, seeds: Seeds) {
        self.shared.seed(seeds);
    }

    /// One request: it is counted, meets its fault, and sees the file as it is now.
    async fn request(&self, asked: &[Requests]) -> (Met, Result<(), BoardError>) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let met = self.shared.faults.apply(asked).await;
        let fresh = match &self.shared.file {
            None => Ok(()),
            Some(file) => self.on_disk(file, |shared, file| shared.reread(file)).await,
        };
        (met, fresh)
    }

    /// Carries out what an agent asks for its own issue (contract 11.5).
    pub(crate) async fn change(
        &self,
        id: &IssueId,
        change: IssueUpdate,
    ) -> Result<Issue, UpdateRefusal> {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        self.shared.faults.apply(&[Requests::Tools]).await.part(Requests::Tools)?;
        let id = id.clone();
        match &self.shared.file {
            None => self.shared.change(None, &id, &change),
            Some(file) => {
                self.on_disk(file, move |shared, file| {
                    let write_back = shared.write_back.load(Ordering::Relaxed);
                    // Or an issue that is added meanwhile would be lost.
                    let _locked = write_back.then(|| file.lock()).transpose()?;
                    shared.reread(file)?;
                    shared.change(write_back.then_some(file), &id, &change)
                })
                .await
            }
        }
    }

    /// Works on the file where blocking is allowed. One at a time: a disk that hangs holds up one
    /// thread, and the others wait where they can be dropped.
    async fn on_disk<T, E>(
        &self,
        file: &Mutex<FileThread>,
        work: impl FnOnce(&TrackerState, &mut BoardFile) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<BoardError> + Send + 'static,
    {
        let thread = file.lock().await;
        let shared = Arc::clone(&self.shared);
        let result = thread.run(move |file| work(&shared, file)).await;
        result.unwrap_or_else(|| Err(BoardError::Interrupted.into()))
    }
}

impl TrackerState {
    fn seed(&self, seeds: Seeds) {
        for line in seeds.unreadable() {
            // Quoted: what stands in a record is a stranger's text.
            tracing::warn!(record = ?line, "a record of the board cannot be read and is left out");
        }
        let now = self.clock.now();
        self.board.send_modify(|board| board.seed(seeds, now));
    }

    fn reread(&self, file: &mut BoardFile) -> Result<(), BoardError> {
        if let Some(seeds) = file.read()? {
            tracing::debug!(path = %file.path().display(), "the board file has changed");
            self.seed(seeds);
        }
        Ok(())
    }

    /// Changes the file first: what cannot be written does not happen.
    fn change(
        &self,
        file: Option<&mut BoardFile>,
        id: &IssueId,
        change: &IssueUpdate,
    ) -> Result<Issue, UpdateRefusal> {
        let now = self.clock.now();
        let change = change.checked(&self.board.borrow(), id)?;
        let mut written = None;
        if let Some(file) = file {
            let edited = self.board.borrow().edited(id, now, |card| change.apply(card, now));
            if let Some((card, true)) = edited {
                written = file.write(id, |record| change.write(record, &card))?;
            }
        }
        self.board.send_modify(|board| {
            board.edit(id, now, |card| change.apply(card, now));
            if let Some(raw) = written {
                board.written(id, raw);
            }
        });
        self.board.borrow().read(id).and_then(Result::ok).ok_or(UpdateRefusal::NotFound)
    }
}

#[async_trait]
impl Tracker for MemoryTracker {
    /// Both parts in one request, from one moment of the board.
    async fn poll(&self, poll: &Poll) -> Polled {
        let states = poll.candidates.as_ref().map(|query| &query.states);
        let asked: Vec<Requests> = [
            states.is_some_and(|states| !states.is_empty()).then_some(Requests::Candidates),
            (!poll.ids.is_empty()).then_some(Requests::IssuesById),
        ]
        .into_iter()
        .flatten()
        .collect();
        if asked.is_empty() {
            return answer(poll, 0, |_| Ok(()), &MemoryBoard::default());
        }
        let (met, fresh) = self.request(&asked).await;
        let outcome = |part| {
            if !asked.contains(&part) {
                return Ok(());
            }
            met.part(part)?;
            Ok(fresh.clone()?)
        };
        answer(poll, 1, outcome, &self.shared.board.borrow())
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        let (met, fresh) = self.request(&[Requests::IssuesById]).await;
        met.part(Requests::IssuesById)?;
        fresh?;
        self.shared.board.borrow().find(name).into_one()
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        Some(Arc::new(UpdateIssue::new(self.clone())))
    }

    async fn examine(&self, settings: &Settings) -> Vec<Finding> {
        let (met, fresh) = self.request(&[Requests::Candidates]).await;
        let outcome = met.part(Requests::Candidates).and_then(|()| Ok(fresh?));
        match outcome {
            Ok(()) => examine::findings(&self.shared.board.borrow(), &settings.tracker),
            Err(error) => vec![Finding::wrong("board", error.message)],
        }
    }
}

fn answer(
    poll: &Poll,
    requests: u32,
    outcome: impl Fn(Requests) -> Result<(), TrackerError>,
    board: &MemoryBoard,
) -> Polled {
    let candidates = poll.candidates.as_ref().map(|query| {
        outcome(Requests::Candidates)
            .map(|()| Candidates::new(board.by_states(&query.states), false))
    });
    let by_id = outcome(Requests::IssuesById).map(|()| board.by_ids(&poll.ids));
    let mut polled = Polled::new(candidates, by_id);
    polled.requests = requests;
    polled
}

impl Default for MemoryTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTracker")
            .field("issues", &self.shared.board.borrow().issues().count())
            .field("on_file", &self.shared.file.is_some())
            .finish_non_exhaustive()
    }
}
