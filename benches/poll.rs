//! What does one poll cost? A list of candidates arrives while ten slots are free.

use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use symphony::core::policy::Rank;
use symphony::core::time::Wall;
use symphony::core::{Issue, StateName};

use crate::board::{Board, Setup, issues};
use crate::measure::{Contender, Effort, race, span, sweep_caches, thousands, timed};
use crate::table::{Row, Table};

const FREE: u32 = 10;

/// The limit: keeps the list it is given, lets the last one go, and finds the best ten.
#[derive(Debug)]
pub(crate) struct BareScan {
    kept: Vec<Issue>,
    active: [StateName; 2],
}

impl BareScan {
    pub(crate) fn new() -> Self {
        Self { kept: Vec::new(), active: ["Todo".into(), "In Progress".into()] }
    }

    /// Where the ten best are in the list. The order is asked before the state: it is cheaper.
    pub(crate) fn poll(&mut self, list: Vec<Issue>) -> Vec<usize> {
        self.kept = list;
        // Some allocators merge freed memory when they are next asked for a large piece: the code that
        // drops the list pays for that.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(8 << 10)));
        let mut best: BinaryHeap<(i64, Option<Wall>, &str, usize)> = BinaryHeap::new();
        for (place, issue) in self.kept.iter().enumerate() {
            let priority = issue.priority.filter(|p| (1..=4).contains(p)).unwrap_or(5);
            let key = (priority, issue.created_at, issue.identifier.as_str(), place);
            let is_full = best.len() == FREE as usize;
            if is_full && best.peek().is_some_and(|worst| key >= *worst) {
                continue;
            }
            if self.active.contains(&issue.state) {
                if is_full {
                    best.pop();
                }
                best.push(key);
            }
        }
        best.into_sorted_vec().into_iter().map(|(.., place)| place).collect()
    }
}

/// Whether the last list is still there and must be let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    None,
    Kept,
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no last list",
            Self::Kept => "the last list let go",
        })
    }
}

fn ours(mut board: Board, size: usize, last: Last, laps: u32) -> Contender<'static> {
    Box::new(move || {
        let mut took = Duration::ZERO;
        for _ in 0..laps {
            board.await_poll();
            if last == Last::None {
                board.answer_poll(Vec::new());
                board.await_poll();
            }
            let answer = board.poll_answer(issues(size));
            sweep_caches();
            let (lap, step) = timed(|| board.orchestrator.handle(board.now, answer));
            board.perform(step);
            took += lap;
        }
        took / laps
    })
}

fn limit(size: usize, last: Last, laps: u32) -> Contender<'static> {
    let mut scan = BareScan::new();
    Box::new(move || {
        let mut took = Duration::ZERO;
        for _ in 0..laps {
            if last == Last::None {
                scan.poll(Vec::new());
            }
            let list = issues(size);
            sweep_caches();
            took += timed(|| scan.poll(list)).0;
        }
        took / laps
    })
}

/// A board of this size, on which the best issues run already.
pub(crate) fn board(size: usize, running: usize) -> Board {
    let mut list = issues(size);
    list.sort_by(|a, b| Rank::fresh(a).cmp(&Rank::fresh(b)));
    list.retain(|issue| issue.blocked_by.is_empty());
    list.truncate(running);
    Board::new(Setup { running: list, free: FREE, ..Setup::default() })
}

pub(crate) fn answer(effort: Effort) -> Table {
    let mut table = Table::new("A poll with ten free slots");
    let sizes = effort.pick([1_000, 10_000, 100_000], [100, 200, 400]);
    for last in [Last::Kept, Last::None] {
        by_size(&mut table, effort, sizes, last);
    }
    for last in [Last::Kept, Last::None] {
        by_running(&mut table, effort, sizes[1], last);
    }
    paced(&mut table, effort, sizes[1]);
    table
}

fn by_size(table: &mut Table, effort: Effort, sizes: [usize; 3], last: Last) {
    let [a, b, c] = sizes;
    let times = race(
        effort.pick(24, 1),
        [
            ours(board(a, 1), a, last, effort.pick(8, 1)),
            limit(a, last, effort.pick(8, 1)),
            ours(board(b, 1), b, last, effort.pick(2, 1)),
            limit(b, last, effort.pick(2, 1)),
            ours(board(c, 1), c, last, 1),
            limit(c, last, 1),
        ],
    );
    let names = sizes.map(|size| thousands(size as u64));
    for (place, reference) in ["92 ms", "885 ms", "8,980 ms"].into_iter().enumerate() {
        let [ours, limit] = [&times[2 * place], &times[2 * place + 1]];
        let ratio = ours.against(limit);
        table.push(
            Row::of(format!("{} candidates, {last}", names[place]), span(ours.median()))
                .limit(span(limit.median()))
                .ratio(ratio)
                .goal("1.5", ratio.median <= 1.5)
                .reference(reference),
        );
    }
    for (from, to) in [(0, 1), (1, 2)] {
        let factor = sizes[to] as f64 / sizes[from] as f64;
        let growth =
            |side: usize| times[2 * to + side].against(&times[2 * from + side]).over(factor);
        let (ratio, bare) = (growth(0), growth(1));
        table.push(
            Row::of(format!("beyond linear, {} to {}, {last}", names[from], names[to]), ratio)
                .limit(bare)
                .ratio(format!("{:.2}", ratio.median / bare.median))
                .goal("1.15", ratio.median <= 1.15),
        );
    }
}

fn by_running(table: &mut Table, effort: Effort, size: usize, last: Last) {
    let many = effort.pick(1_000, 10);
    let laps = effort.pick(2, 1);
    let [one, thousand] = race(
        effort.pick(40, 1),
        [ours(board(size, 1), size, last, laps), ours(board(size, many), size, last, laps)],
    );
    let ratio = thousand.against(&one);
    let [size, many] = [size, many].map(|number| thousands(number as u64));
    table.push(
        Row::of(
            format!("{size} candidates, the best {many} running, {last}"),
            span(thousand.median()),
        )
        .limit(format!("{} with 1 running", span(one.median())))
        .ratio(ratio)
        .goal("1.1", ratio.median <= 1.1)
        .reference("8,292 ms"),
    );
}

fn paced(table: &mut Table, effort: Effort, size: usize) {
    let board = Board::new(Setup { free: FREE, paced: true, ..Setup::default() });
    let laps = effort.pick(2, 1);
    let [ours, limit] = race(
        effort.pick(40, 1),
        [ours(board, size, Last::Kept, laps), limit(size, Last::Kept, laps)],
    );
    let ratio = ours.against(&limit);
    let what = format!("{} candidates, `polling.activity` on", thousands(size as u64));
    table.push(
        Row::of(what, span(ours.median()))
            .limit(span(limit.median()))
            .ratio(ratio)
            .goal("1.5", ratio.median <= 1.5),
    );
}
