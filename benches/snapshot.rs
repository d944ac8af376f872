//! What does a snapshot cost, beside a copy of its rows?

use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use symphony::core::orchestrator::Event;
use symphony::core::policy::Rank;
use symphony::core::{Issue, StateSet};

use crate::board::{Board, Setup, issues};
use crate::measure::{Contender, Effort, race, span, thousands, timed};
use crate::table::{Row, Table};

/// Whether something happened since the last snapshot, so that candidates are judged anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Warm,
    Cold,
}

fn ours(mut board: Board, view: View) -> Contender<'static> {
    Box::new(move || {
        if view == View::Cold {
            board.handle(Event::Activity);
        }
        timed(|| board.orchestrator.snapshot(board.now)).0
    })
}

/// The limit: copying the rows.
fn copy_rows(board: &Board) -> Contender<'static> {
    let snapshot = board.orchestrator.snapshot(board.now);
    Box::new(move || timed(|| (snapshot.running.clone(), snapshot.waiting.clone())).0)
}

/// The limit of a judgement: one pass that asks for each state, counts, and keeps the best 200.
fn judge(list: Vec<Issue>) -> Contender<'static> {
    let active = StateSet::new(["Todo", "In Progress"]);
    Box::new(move || {
        let pass = || {
            let mut counts: BTreeMap<bool, usize> = BTreeMap::new();
            let mut first: BinaryHeap<Rank<'_>> = BinaryHeap::new();
            for issue in &list {
                *counts.entry(active.contains(&issue.state)).or_default() += 1;
                let rank = Rank::fresh(issue);
                if first.len() < 200 {
                    first.push(rank);
                } else if first.peek().is_some_and(|worst| rank < *worst) {
                    first.pop();
                    first.push(rank);
                }
            }
            (counts, first.len())
        };
        timed(pass).0
    })
}

pub(crate) fn board(running: usize, failed: usize, kept: &[Issue]) -> Board {
    let mut list = issues((running + failed) * 2);
    list.retain(|issue| issue.blocked_by.is_empty());
    list.truncate(running + failed);
    let mut board = Board::new(Setup { running: list, failed, free: 10, ..Setup::default() });
    if !kept.is_empty() {
        board.await_poll();
        board.answer_poll(kept.to_vec());
    }
    board
}

pub(crate) fn answer(effort: Effort) -> Table {
    let mut table = Table::new("A snapshot");
    let rounds = effort.pick(200, 1);
    let [many, waiting] = effort.pick([1_000, 10_000], [10, 20]);
    let kept = issues(effort.pick(100_000, 100));
    let name = |number: usize| thousands(number as u64);
    let cases = [
        (format!("{} running", name(many)), board(many, 0, &[]), "15.9 ms"),
        (
            format!("{} running, {} waiting", name(many), name(waiting)),
            board(many, waiting, &[]),
            "",
        ),
        (format!("{} running, {} kept", name(many), name(kept.len())), board(many, 0, &kept), ""),
    ];
    for (what, board, reference) in cases {
        let limit = copy_rows(&board);
        let [ours, limit] = race(rounds, [ours(board, View::Warm), limit]);
        let ratio = ours.against(&limit);
        table.push(
            Row::of(what, span(ours.median()))
                .limit(span(limit.median()))
                .ratio(ratio)
                .goal("2", ratio.median <= 2.0)
                .reference(reference),
        );
    }
    for size in effort.pick([1_000, 10_000, 100_000], [10, 20, 40]) {
        let list = &kept[..size];
        let [ours, limit] = race(
            effort.pick(40, 1),
            [ours(board(many, 0, list), View::Cold), judge(list.to_vec())],
        );
        table.push(
            Row::of(
                format!("{} running, {} kept, judged anew", name(many), name(size)),
                span(ours.median()),
            )
            .limit(format!("{} for one bare pass", span(limit.median())))
            .ratio(ours.against(&limit)),
        );
    }
    table
}
