//! Event sequences that no driver would send: nothing panics, nothing doubles, time goes on.
//!
//! Unlike the simulation this knows no world. Answers come twice, for reads that were never asked,
//! with issues that were not asked for; runs end that never began; clocks jump. What must hold all the
//! same: at most one live run per issue and folder, and a wake-up in the future.
//!
//! `SYMPHONY_FUZZ_SECONDS` says how long, `SYMPHONY_FUZZ_SEED` replays one sequence.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::expect_used,
    reason = "a test reads the clock, prints and panics"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use symphony_core::agent::{
    AgentErrorKind, AgentEvent, AgentUpdate, Question, RateLimitWindow, RateLimits, ThreadId,
    Tokens, Usage, UsdMicros,
};
use symphony_core::budget::Spent;
use symphony_core::orchestrator::*;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::run::RunId;
use symphony_core::settings::HostLimit;
use symphony_core::store::{AskedTurn, ClaimRow, ClaimStage, DueTime, OperatorRow, PollRow, Rows};
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::tracker::{Candidates, IssuesById, TrackerErrorKind, Unreadable};
use symphony_core::{
    Blocker, Failure, FailureKind, HostId, Issue, IssueId, Label, Scope, Settings, StateKind,
    StateSet, WorkspaceKey, WorkspaceRecord,
};

const EVENTS_PER_SEQUENCE: usize = 400;

#[test]
fn rule_4_3_no_sequence_of_events_breaks_the_scheduler() {
    if let Some(seed) = number("SYMPHONY_FUZZ_SEED") {
        sequence(seed);
        return;
    }
    let limit = Duration::from_secs(number("SYMPHONY_FUZZ_SECONDS").unwrap_or(10));
    let began = Instant::now();
    let first = 0x5eed_u64;
    let mut sequences = 0;
    while sequences == 0 || began.elapsed() < limit {
        let seed = first + sequences;
        if let Err(panic) = std::panic::catch_unwind(|| sequence(seed)) {
            println!("replay with SYMPHONY_FUZZ_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
        sequences += 1;
    }
    println!(
        "event sequences: {sequences} of {EVENTS_PER_SEQUENCE} events in {:.1} s",
        began.elapsed().as_secs_f64()
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn sequence(seed: u64) {
    let mut dice = Dice(seed);
    let mut now =
        Now { mono: Mono::from_millis(0), wall: Wall::from_unix_millis(1_700_000_000_000) };
    let mut configuration = dice.configuration();
    let restored =
        Restored { boot: dice.below(3), rows: dice.rows(now.wall), workspaces: dice.workspaces() };
    let (mut orchestrator, step) = Orchestrator::new(configuration.clone(), restored, now);
    let mut ledger = Ledger::default();
    ledger.take(&step);
    for _ in 0..EVENTS_PER_SEQUENCE {
        now = dice.later(now, orchestrator.next_wakeup());
        let event = dice.event(&ledger, &configuration);
        // What is recorded must come back as it was, or a replay would lie.
        let text = serde_json::to_string(&event).expect("an event is serialisable");
        let event: Event = serde_json::from_str(&text).expect("and comes back");
        if let Event::Reloaded { configuration: new, .. } = &event {
            configuration = new.clone();
        }
        if let Event::Run { run, news: RunEvent::Ended(_) } = &event {
            ledger.live.remove(run);
        }
        let step = orchestrator.handle(now, event);
        ledger.take(&step);
        if let Some(at) = orchestrator.next_wakeup() {
            assert!(at > now.mono, "a wake-up that is not in the future");
        }
        ledger.check(&orchestrator, now);
    }
}

/// What the effects said so far.
#[derive(Default)]
struct Ledger {
    live: BTreeMap<RunId, (IssueId, WorkspaceKey)>,
    reads: Vec<ReadId>,
    removals: Vec<RemovalId>,
    runs: BTreeSet<RunId>,
}

impl Ledger {
    fn take(&mut self, step: &Step) {
        for effect in &step.effects {
            match effect {
                Effect::Read { read, .. } => self.reads.push(*read),
                Effect::Remove { removal, .. } => self.removals.push(*removal),
                Effect::Start(start) => {
                    assert!(self.runs.insert(start.run), "a run id used twice");
                    let mine = (start.issue.id.clone(), start.key.clone());
                    for (id, key) in self.live.values() {
                        assert_ne!(*id, mine.0, "two live runs of one issue");
                        assert_ne!(key.folded(), mine.1.folded(), "two live runs in one folder");
                    }
                    self.live.insert(start.run, mine);
                }
                _ => {}
            }
        }
    }

    fn check(&self, orchestrator: &Orchestrator, now: Now) {
        let snapshot = orchestrator.snapshot(now);
        let rows: BTreeSet<RunId> = snapshot.running.iter().map(|row| row.run).collect();
        let live: BTreeSet<RunId> = self.live.keys().copied().collect();
        assert_eq!(rows, live, "the snapshot shows what lives");
        assert_eq!(snapshot.slots.used as usize, live.len());
    }
}

/// A small deterministic generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).expect("small")]
    }

    fn later(&mut self, now: Now, wakeup: Option<Mono>) -> Now {
        let step = match self.below(5) {
            0 => 0,
            1 => self.below(60),
            2 => self.below(40_000),
            _ => wakeup.map_or(0, |at| now.mono.until(at).as_millis().try_into().unwrap_or(0)),
        }
        .min(48 * 3_600_000);
        // The wall clock may jump anywhere; the monotonic one goes on.
        let wall = if self.chance(2) {
            Wall::from_unix_millis(i64::try_from(self.next() >> 1).expect("fits"))
        } else {
            now.wall + Duration::from_millis(step)
        };
        Now { mono: now.mono + Duration::from_millis(step), wall }
    }

    fn configuration(&mut self) -> Configuration {
        let mut settings = Settings::new(
            "memory",
            StateSet::new(["Todo", "In Progress"]),
            StateSet::new(["Done"]),
            "/workspaces".into(),
        );
        settings.agent.max_concurrent_agents = u32::try_from(1 + self.below(4)).expect("small");
        settings.agent.max_turns = u32::try_from(1 + self.below(3)).expect("small");
        if self.chance(30) {
            settings.agent.max_concurrent_agents_by_state.insert("todo".into(), 1);
        }
        if self.chance(20) {
            settings.hosts = vec![
                HostLimit { id: HostId::local(), max_agents: 1 },
                HostLimit { id: HostId::from("b"), max_agents: 2 },
            ];
        }
        if self.chance(20) {
            settings.polling.activity = Some(Default::default());
        }
        if self.chance(20) {
            settings.tracker.required_labels = vec![Label::new("go")];
        }
        if self.chance(20) {
            settings.agent.common.stall_timeout = None;
        }
        settings.agent.kind = self.pick(&["codex", "other"]).to_string();
        Configuration {
            settings: Arc::new(settings),
            generation: Generation(self.below(3)),
            scope: Scope::from(*self.pick(&["a", "b"])),
            min_read_gap: Duration::from_millis(*self.pick(&[0, 2000])),
            warnings: Arc::default(),
        }
    }

    fn id(&mut self) -> IssueId {
        IssueId::from(format!("i{}", self.below(8)))
    }

    fn issue(&mut self, id: &IssueId) -> Issue {
        let number = &id.as_str()[1..];
        let identifier = match self.below(10) {
            0 => "MT-1".to_owned(),
            1 => format!("mt-{number}"),
            2 => "..".to_owned(),
            3 => "\u{202e}\0/x".to_owned(),
            _ => format!("MT-{number}"),
        };
        let state = *self.pick(&["Todo", "todo ", "In Progress", "Done", "Elsewhere"]);
        let mut issue =
            Issue::new(id.as_str(), &identifier, "A title", state).expect("well formed");
        issue.priority = *self.pick(&[None, Some(1), Some(4), Some(i64::MIN), Some(0)]);
        issue.dispatchable = !self.chance(5);
        issue.labels = if self.chance(50) { Label::list(["go"]) } else { Vec::new() };
        issue.created_at = self.chance(70).then(|| Wall::from_unix_millis(0));
        issue.updated_at =
            Some(Wall::from_unix_millis(i64::try_from(self.below(3)).expect("small")));
        issue.state_kind =
            *self.pick(&[None, Some(StateKind::Unstarted), Some(StateKind::Completed)]);
        if self.chance(10) {
            issue.blocked_by = vec![Blocker::default()];
        }
        if self.chance(3) {
            issue.title = "  ".to_owned();
        }
        issue
    }

    fn issues(&mut self) -> Vec<Issue> {
        (0..self.below(10))
            .map(|_| {
                let id = self.id();
                self.issue(&id)
            })
            .collect()
    }

    fn record(&mut self, issue: &IssueId, key: WorkspaceKey) -> WorkspaceRecord {
        WorkspaceRecord {
            issue: issue.clone(),
            identifier: "MT-1".into(),
            scope: Scope::from(*self.pick(&["a", "b"])),
            host: if self.chance(80) { HostId::local() } else { HostId::from("b") },
            path: format!("/workspaces/{key}").into(),
            key,
        }
    }

    fn rows(&mut self, now: Wall) -> Rows {
        let claims = (0..self.below(3)).map(|_| self.claim_row()).collect();
        let at = now - Duration::from_millis(self.below(20_000));
        let last_runs = BTreeMap::from([(Job::Candidates, at)]);
        let scope = Scope::from(*self.pick(&["a", "b"]));
        Rows {
            operator: OperatorRow { paused: self.chance(20), earlier_lives: 0 },
            polls: Some(PollRow { scope, last_runs, spent: Spent::default() }),
            claims,
            ..Rows::default()
        }
    }

    fn claim_row(&mut self) -> ClaimRow {
        let id = self.id();
        let number = self.below(8);
        let asked =
            AskedTurn { client_id: "symphony-1.1-2".into(), number: 2, text: TurnText::Continue };
        let due = DueTime { at: Wall::default(), span_ms: self.below(2_000_000) };
        ClaimRow {
            scope: Scope::from(*self.pick(&["a", "b"])),
            issue: self.issue(&id),
            key: WorkspaceKey::derive(&format!("MT-{number}")).expect("a key"),
            host: HostId::local(),
            stage: *self.pick(&[ClaimStage::Waiting, ClaimStage::Running, ClaimStage::Blocked]),
            attempt: self.chance(50).then_some(u32::MAX),
            failure: None,
            unchanged_ends: u32::MAX,
            interruptions: *self.pick(&[0, 2, u32::MAX]),
            due: self.chance(50).then_some(due),
            thread: self.chance(50).then(|| "t-1".into()),
            agent: self.chance(50).then(|| "codex".to_owned()),
            unanswered: self.chance(50),
            asked: self.chance(50).then_some(asked),
            counted: BTreeMap::new(),
            question: self.chance(30).then(|| Question::text("q", "Which door?")),
            since: None,
            seen: self.chance(50),
        }
    }

    fn workspaces(&mut self) -> Workspaces {
        let key = |number| WorkspaceKey::derive(&format!("MT-{number}")).expect("a key");
        let mut records = Vec::new();
        for _ in 0..self.below(4) {
            let (id, number) = (self.id(), self.below(8));
            records.push(self.record(&id, key(number)));
        }
        let strays = (0..self.below(2)).map(|_| key(self.below(8))).collect();
        Workspaces { records, strays }
    }

    fn failure(&mut self) -> Failure {
        let kind = *self.pick(&[
            FailureKind::Agent(AgentErrorKind::TurnFailed),
            FailureKind::Agent(AgentErrorKind::UsageLimit),
            FailureKind::Agent(AgentErrorKind::Unauthorized),
            FailureKind::Tracker(TrackerErrorKind::RateLimited),
            FailureKind::Tracker(TrackerErrorKind::Request),
            FailureKind::Workspace,
            FailureKind::Internal,
        ]);
        let wait = *self.pick(&[None, Some(0), Some(1500), Some(u64::MAX)]);
        Failure::new(kind, "\u{1b}[31mno\n").with_retry_after(wait.map(Duration::from_millis))
    }

    fn answer(&mut self) -> Answer {
        let by_id = if self.chance(20) {
            Err(self.failure())
        } else {
            let unreadable = (0..self.below(2))
                .map(|_| Unreadable { id: self.id(), message: "torn".to_owned() })
                .collect();
            Ok(IssuesById::new(self.issues(), unreadable))
        };
        let candidates = if self.chance(20) {
            Err(self.failure())
        } else {
            Ok(Candidates::new(self.issues(), self.chance(10)))
        };
        Answer {
            candidates: self.chance(90).then_some(candidates),
            by_id: self.chance(90).then_some(by_id),
            next_poll: self.chance(10).then(|| Duration::from_millis(self.next())),
            requests: u32::try_from(self.below(4)).expect("small"),
            budget: None,
        }
    }

    fn run(&mut self, ledger: &Ledger) -> RunId {
        let live: Vec<RunId> = ledger.live.keys().copied().collect();
        if live.is_empty() || self.chance(5) {
            RunId { boot: self.below(3), number: self.below(30) }
        } else {
            *self.pick(&live)
        }
    }

    fn news(&mut self, run: RunId, ledger: &Ledger) -> RunEvent {
        let thread = ThreadId::from(*self.pick(&["t1", "t2"]));
        match self.below(14) {
            0 => RunEvent::Phase(Phase::PreparingWorkspace),
            1 => RunEvent::Phase(Phase::LaunchingAgent),
            2 => RunEvent::Phase(Phase::StreamingTurn),
            3 => RunEvent::Phase(Phase::Finishing),
            4 => match ledger.live.get(&run) {
                Some((id, key)) => RunEvent::Workspace(self.record(id, key.clone())),
                None => RunEvent::WorkspaceGone,
            },
            5 => RunEvent::WorkspaceGone,
            6 => RunEvent::TurnEnded,
            7 => RunEvent::Ended(RunEnd::Succeeded),
            8 => RunEvent::Ended(RunEnd::Failed(self.failure())),
            9 if self.chance(50) => RunEvent::Ended(RunEnd::Cancelled),
            9 => RunEvent::Ended(RunEnd::InputRequired { question: Question::text("q", "why?") }),
            10 => RunEvent::Agent(AgentUpdate::Usage {
                thread,
                total: Usage::from(Tokens {
                    input: self.next(),
                    total: self.next(),
                    ..Tokens::default()
                })
                .with_cost(UsdMicros(self.next())),
            }),
            11 => RunEvent::Agent(AgentUpdate::RateLimits(Arc::new(RateLimits {
                windows: vec![RateLimitWindow {
                    name: "primary".to_owned(),
                    used_percent: 100.0,
                    window_minutes: None,
                    resets_at: Some(Wall::from_unix_millis(i64::MAX)),
                }],
                ..RateLimits::default()
            }))),
            12 => RunEvent::Agent(AgentUpdate::Event(Arc::new(AgentEvent {
                name: "notification".to_owned(),
                summary: "x".to_owned(),
                at: Wall::default(),
            }))),
            _ if self.chance(50) => RunEvent::Agent(AgentUpdate::ToolBegan),
            _ => RunEvent::Agent(AgentUpdate::ToolEnded { changed_issue: self.chance(50) }),
        }
    }

    fn event(&mut self, ledger: &Ledger, configuration: &Configuration) -> Event {
        match self.below(20) {
            0..=4 => {
                let read = if ledger.reads.is_empty() || self.chance(5) {
                    ReadId(self.below(50))
                } else {
                    *self.pick(&ledger.reads)
                };
                Event::Answered { read, answer: self.answer() }
            }
            5 | 6 => {
                let removal = if ledger.removals.is_empty() {
                    RemovalId(self.below(50))
                } else {
                    *self.pick(&ledger.removals)
                };
                let outcome = if self.chance(50) { Ok(()) } else { Err(self.failure()) };
                Event::Removed { removal, outcome }
            }
            7..=12 => {
                let run = self.run(ledger);
                Event::Run { run, news: self.news(run, ledger) }
            }
            13 => {
                let mut configuration =
                    if self.chance(50) { self.configuration() } else { configuration.clone() };
                configuration.generation = Generation(self.below(4));
                let workspaces = self.chance(20).then(|| self.workspaces());
                let claims = self.rows(Wall::default()).claims;
                Event::Reloaded { configuration, workspaces, claims }
            }
            14 => Event::ReloadFailed {
                problems: vec![Problem::new(ProblemKind::InvalidSetting, "no")],
            },
            15 => Event::Command(match self.below(8) {
                0 => Command::PollNow,
                1 => Command::Pause,
                2 => Command::Resume,
                3 => Command::Stop(self.id()),
                4 => Command::Retry(self.id()),
                5 => Command::ClearHolds,
                6 if self.chance(20) => Command::ShutDown,
                _ => Command::Resume,
            }),
            16 => Event::QuietHours { on: self.chance(50) },
            17 => match self.below(5) {
                0 => Event::Activity,
                1 | 2 => {
                    let count = *self.pick(&[0, 1, 3, 200]);
                    Event::Delivered { issues: (0..count).map(|_| self.id()).collect() }
                }
                3 => Event::JobAdded {
                    name: "mine".into(),
                    interval: Duration::from_millis(*self.pick(&[0, 1000, u64::MAX])),
                },
                _ => Event::JobEnded { name: "mine".into(), outcome: Err(self.failure()) },
            },
            _ => Event::Wake,
        }
    }
}
