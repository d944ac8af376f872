//! How many agent events does the scheduler take in a second?

use std::collections::BTreeMap;
use std::sync::Arc;

use symphony::core::agent::{AgentEvent, AgentUpdate, ThreadId, Tokens};
use symphony::core::orchestrator::{Event, RunEvent};
use symphony::core::run::RunId;
use symphony::core::time::Mono;

use crate::board::{Board, Numbers, Setup, happening, issues, usage};
use crate::measure::{Contender, Effort, race, thousands, timed};
use crate::table::{Row, Table};

/// What agents say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Alive,
    Event,
    Usage,
    /// Six signs of life, three events and one count in ten.
    Mixed,
}

impl Mix {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Mixed, "a mix"),
        (Self::Alive, "signs of life"),
        (Self::Event, "events"),
        (Self::Usage, "token counts"),
    ];

    fn one(self, run: RunId, place: u64, event: &Arc<AgentEvent>) -> AgentUpdate {
        match (self, place % 10) {
            (Self::Alive, _) | (Self::Mixed, 0..=5) => AgentUpdate::Alive,
            (Self::Event, _) | (Self::Mixed, 6..=8) => AgentUpdate::Event(Arc::clone(event)),
            (Self::Usage | Self::Mixed, _) => usage(run, place),
        }
    }

    /// Updates of these runs, in no order.
    pub(crate) fn updates(self, runs: &[RunId], count: u64) -> Vec<(RunId, AgentUpdate)> {
        let mut numbers = Numbers::new(7);
        let event = Arc::new(happening());
        (0..count)
            .map(|place| {
                let chosen = numbers.below(runs.len() as u64);
                let run = runs[usize::try_from(chosen).unwrap_or(0)];
                (run, self.one(run, place, &event))
            })
            .collect()
    }
}

/// The limit: one lookup and the fields that the update is about.
#[derive(Debug)]
pub(crate) struct BareRun {
    thread: ThreadId,
    counted: Tokens,
    last_event: Option<Arc<AgentEvent>>,
    last_alive: Mono,
}

pub(crate) type BareRuns = BTreeMap<RunId, BareRun>;

pub(crate) fn bare_runs(runs: &[RunId]) -> BareRuns {
    let bare = |run: &RunId| BareRun {
        thread: ThreadId::from(format!("thread-{run}")),
        counted: Tokens::default(),
        last_event: None,
        last_alive: Mono::default(),
    };
    runs.iter().map(|run| (*run, bare(run))).collect()
}

pub(crate) fn bare_update(runs: &mut BareRuns, now: Mono, run: RunId, update: AgentUpdate) {
    let Some(bare) = runs.get_mut(&run) else {
        return;
    };
    bare.last_alive = now;
    match update {
        AgentUpdate::Event(event) => bare.last_event = Some(event),
        AgentUpdate::Usage { thread, total } if bare.thread == thread => {
            bare.counted = total.tokens.unwrap_or_default();
        }
        _ => {}
    }
}

/// A board with this many agents at work.
pub(crate) fn board(running: usize) -> Board {
    let mut list = issues(running * 2);
    list.retain(|issue| issue.blocked_by.is_empty());
    list.truncate(running);
    Board::new(Setup { running: list, free: 10, ..Setup::default() })
}

fn ours<'a>(mut board: Board, updates: &'a [(RunId, AgentUpdate)]) -> Contender<'a> {
    Box::new(move || {
        let event = |(run, update)| Event::Run { run, news: RunEvent::Agent(update) };
        let events: Vec<Event> = updates.iter().cloned().map(event).collect();
        let now = board.now;
        let work = || {
            for event in events {
                std::hint::black_box(board.orchestrator.handle(now, event));
            }
        };
        timed(work).0
    })
}

fn limit<'a>(runs: &[RunId], updates: &'a [(RunId, AgentUpdate)]) -> Contender<'a> {
    let mut runs = bare_runs(runs);
    Box::new(move || {
        let updates = updates.to_vec();
        let work = || {
            for (run, update) in updates {
                bare_update(&mut runs, Mono::from_millis(1), run, update);
            }
        };
        timed(work).0
    })
}

pub(crate) fn answer(effort: Effort) -> Table {
    let mut table = Table::new("Agent events through `handle`");
    let count = effort.pick(20_000, 100);
    for (mix, name) in Mix::ALL {
        for running in effort.pick([1, 10, 100, 1_000], [1, 2, 3, 4]) {
            let board = board(running);
            let updates = mix.updates(&board.runs, count);
            let limit = limit(&board.runs, &updates);
            let [ours, limit] = race(effort.pick(40, 1), [ours(board, &updates), limit]);
            let per_second = |nanos: f64| count as f64 / nanos * 1e3;
            let rate = per_second(ours.median());
            table.push(
                Row::of(
                    format!("{name}, {} running", thousands(running as u64)),
                    format!("{rate:.1} M/s"),
                )
                .limit(format!("{:.1} M/s", per_second(limit.median())))
                .ratio(ours.against(&limit))
                .goal("3 M/s", rate >= 3.0)
                .reference("0.13 to 0.17 M/s"),
            );
        }
    }
    let sizes = [size_of::<Event>(), size_of::<AgentUpdate>()];
    table.note(format!("An event is {} bytes, an update {}.", sizes[0], sizes[1]));
    table
}
