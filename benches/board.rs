//! A board of issues, and an orchestrator that works on it.

use std::sync::Arc;
use std::time::Duration;

use symphony::core::agent::{AgentEvent, AgentUpdate, ThreadId, Tokens};
use symphony::core::orchestrator::{
    Answer, Configuration, Effect, Event, Phase, ReadId, Restored, RunEnd, RunEvent, Start, Step,
};
use symphony::core::run::RunId;
use symphony::core::time::{Mono, Now, Wall};
use symphony::core::tracker::{Candidates, IssuesById, Purpose};
use symphony::core::{
    Blocker, Failure, FailureKind, Issue, Label, Orchestrator, Scope, Settings, StateSet,
    WorkspaceRecord,
};

/// A small generator of numbers, so that every run sees the same board.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Issues as a tracker's adapter makes them: each with texts of its own, nothing shared.
pub(crate) fn issues(count: usize) -> Vec<Issue> {
    let mut numbers = Numbers::new(42);
    (0..count).map(|place| issue(place, &mut numbers)).collect()
}

#[expect(clippy::expect_used, reason = "every field is filled in here")]
fn issue(place: usize, numbers: &mut Numbers) -> Issue {
    let (high, low) = (numbers.below(1 << 48), numbers.below(1 << 48));
    let id = format!("{:08x}-{:04x}-4000-8000-{low:012x}", high >> 16, high & 0xffff);
    let state = if numbers.below(4) == 0 { "In Progress" } else { "Todo" };
    let title = format!("The door of room {place} does not close in winter");
    let identifier = format!("MT-{place}");
    let mut issue = Issue::new(&id, &identifier, &title, state).expect("a well-formed issue");
    issue.priority = Some(i64::try_from(numbers.below(5)).unwrap_or(0));
    let age = i64::try_from(numbers.below(30_000_000_000)).unwrap_or(0);
    issue.created_at = Some(Wall::from_unix_millis(1_770_000_000_000 - age));
    issue.updated_at = Some(Wall::from_unix_millis(1_770_000_000_000));
    issue.labels = Label::list(["bug", "building"]);
    issue.description = Some("It sticks, and then it slams. ".repeat(14));
    issue.branch_name = Some(format!("people/mt-{place}-the-door-does-not-close"));
    issue.url = Some(format!("https://tracker.example/acme/issue/MT-{place}"));
    issue.assignee_id = Some("5b0a3c1e-7a35-4a0c-9d9d-1f2f3a4b5c6d".to_owned());
    if numbers.below(10) == 0 {
        let state = if numbers.below(2) == 0 { "Done" } else { "Todo" };
        let blocker = Blocker { state: Some(state.into()), ..Blocker::default() };
        issue.blocked_by = vec![Blocker { identifier: Some("MT-0".into()), ..blocker }];
    }
    issue
}

/// What a board is to look like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Issues that run.
    pub(crate) running: Vec<Issue>,
    /// How many of those have failed, and wait for their next attempt.
    pub(crate) failed: usize,
    /// Slots that are free beside the running ones.
    pub(crate) free: u32,
    /// Whether the pace follows the activity (`polling.activity`).
    pub(crate) paced: bool,
}

/// An orchestrator, and the reads it waits for.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) now: Now,
    pub(crate) runs: Vec<RunId>,
    poll: Option<ReadId>,
    check: Option<ReadId>,
}

impl Board {
    /// Brings an orchestrator to where the setup wants it, by events alone.
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { running, failed, free, paced } = setup;
        let slots = u32::try_from(running.len()).unwrap_or(u32::MAX) + free;
        let now = Now { mono: Mono::from_millis(1), wall: Wall::from_unix_millis(0) };
        let restored = Restored { boot: 1, ..Restored::default() };
        let (orchestrator, first) = Orchestrator::new(configuration(slots, paced), restored, now);
        let mut board = Self { orchestrator, now, runs: Vec::new(), poll: None, check: None };
        board.perform(first);
        board.answer_poll(running.clone());
        board.answer_check(running);
        // Only the claims are to be left, not the list they came from.
        board.await_poll();
        board.answer_poll(Vec::new());
        for run in board.runs.split_off(board.runs.len() - failed) {
            let failure = Failure::new(FailureKind::Stalled, "no sign of life for 300 s");
            board.handle(Event::Run { run, news: RunEvent::Ended(RunEnd::Failed(failure)) });
        }
        board
    }

    /// Lets the next poll become due. What is being checked turns out to be gone.
    pub(crate) fn await_poll(&mut self) {
        self.answer_check(Vec::new());
        while self.poll.is_none() {
            let Some(at) = self.orchestrator.next_wakeup() else {
                return;
            };
            self.now.mono = at;
            self.handle(Event::Wake);
        }
    }

    /// The answer to the open poll: these candidates.
    pub(crate) fn poll_answer(&mut self, issues: Vec<Issue>) -> Event {
        let candidates = Some(Ok(Candidates { issues, more: false }));
        let read = self.poll.take().unwrap_or(ReadId(0));
        Event::Answered { read, answer: Answer { candidates, ..Answer::default() } }
    }

    /// Answers the open poll with these candidates.
    pub(crate) fn answer_poll(&mut self, issues: Vec<Issue>) {
        let answer = self.poll_answer(issues);
        self.handle(answer);
    }

    fn answer_check(&mut self, found: Vec<Issue>) {
        if let Some(read) = self.check.take() {
            let by_id = Some(Ok(IssuesById { found, unreadable: Vec::new() }));
            self.handle(Event::Answered { read, answer: Answer { by_id, ..Answer::default() } });
        }
    }

    /// Takes in one event.
    pub(crate) fn handle(&mut self, event: Event) {
        let step = self.orchestrator.handle(self.now, event);
        self.perform(step);
    }

    /// Remembers the reads, and lets what starts begin.
    pub(crate) fn perform(&mut self, step: Step) {
        for effect in step.effects {
            match effect {
                Effect::Read { read, poll, .. } if poll.purpose == Purpose::Check => {
                    self.check = Some(read);
                }
                Effect::Read { read, .. } => self.poll = Some(read),
                Effect::Start(start) => self.begin(start),
                _ => {}
            }
        }
    }

    /// What the worker of a run reports until its agent works.
    fn begin(&mut self, start: Start) {
        self.runs.push(start.run);
        let record = WorkspaceRecord {
            issue: start.issue.id.clone(),
            identifier: start.issue.identifier.clone(),
            scope: Scope::from("board"),
            host: start.host,
            path: format!("/var/lib/symphony/{}", start.key).into(),
            key: start.key,
        };
        let thread = ThreadId::from(format!("thread-{}", start.run));
        let session_id = Arc::from(format!("{thread}-1"));
        let session = AgentUpdate::Session { thread, session_id, pid: Some(1) };
        for news in [
            RunEvent::Workspace(record),
            RunEvent::Phase(Phase::StreamingTurn),
            RunEvent::Agent(session),
            RunEvent::Agent(AgentUpdate::Event(Arc::new(happening()))),
            RunEvent::Agent(usage(start.run, 1)),
        ] {
            self.handle(Event::Run { run: start.run, news });
        }
    }
}

fn configuration(slots: u32, paced: bool) -> Configuration {
    let active = StateSet::new(["Todo", "In Progress"]);
    let terminal = StateSet::new(["Closed", "Cancelled", "Canceled", "Duplicate", "Done"]);
    let mut settings = Settings::new("memory", active, terminal, "/var/lib/symphony".into());
    settings.agent.max_concurrent_agents = slots;
    settings.polling.activity = paced.then(Default::default);
    // Polls carry candidates only, nothing stalls, and a check is not followed by another.
    let long = Duration::from_secs(1 << 40);
    settings.polling.jobs.refresh = Some(long);
    settings.polling.jobs.sweep = long;
    settings.agent.common.stall_timeout = Some(long);
    settings.agent.max_retry_backoff = long;
    Configuration {
        settings: Arc::new(settings),
        generation: Default::default(),
        scope: Scope::from("board"),
        min_read_gap: long,
        warnings: Arc::default(),
    }
}

/// Something that an agent did.
pub(crate) fn happening() -> AgentEvent {
    AgentEvent {
        name: "notification".to_owned(),
        summary: "ran `cargo test` in 12 s".to_owned(),
        at: Wall::from_unix_millis(0),
    }
}

/// The absolute counts of a run's conversation.
pub(crate) fn usage(run: RunId, total: u64) -> AgentUpdate {
    let tokens = Tokens { input: total, output: total, total: 2 * total, ..Tokens::default() };
    let thread = ThreadId::from(format!("thread-{run}"));
    AgentUpdate::Usage { thread, total: tokens.into() }
}
