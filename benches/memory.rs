//! How much memory does the scheduler hold per kept issue, per running and per waiting claim?
//!
//! A program of its own, because its allocator counts.

mod board;
mod table;

use std::alloc::System;

use board::{Board, Setup, issues};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use symphony::core::Issue;
use table::{Row, Table};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes asked for and not given back, and in how many pieces.
fn held() -> (usize, usize) {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated - stats.bytes_deallocated, stats.allocations - stats.deallocations)
}

/// What a value holds, per one of `count`.
fn cost<T>(count: usize, make: impl FnOnce() -> T) -> [f64; 2] {
    let before = held();
    let value = make();
    let after = held();
    drop(value);
    let each = |before: usize, after: usize| (after as f64 - before as f64) / count as f64;
    [each(before.0, after.0), each(before.1, after.1)]
}

fn shown([bytes, pieces]: [f64; 2]) -> String {
    format!("{bytes:.0} bytes in {pieces:.1}")
}

fn main() {
    let is_full = std::env::args().any(|argument| argument == "--bench")
        && !std::env::args().any(|argument| argument == "--quick");
    let [kept, claims] = if is_full { [100_000, 1_000] } else { [100, 10] };
    let mut table = Table::new("Memory, in bytes asked for and allocations");

    let alone = cost(kept, || issues(kept));
    let ours = cost(kept, || {
        let mut board = Board::new(Setup { free: 10, ..Setup::default() });
        board.await_poll();
        board.answer_poll(issues(kept));
        board
    });
    table.push(
        Row::of("one kept issue", shown(ours))
            .limit(format!("{}, the issue alone", shown(alone)))
            .ratio(format!("{:.3}", ours[0] / alone[0]))
            .goal("1.01", ours[0] <= 1.01 * alone[0]),
    );

    for (what, failed, reference) in [
        ("one running claim", 0, "49 to 75 KiB per agent, all in"),
        ("one waiting claim", claims, ""),
    ] {
        let ours = cost(claims, || {
            let mut running = issues(2 * claims);
            running.retain(|issue| issue.blocked_by.is_empty());
            running.truncate(claims);
            Board::new(Setup { running, failed, free: 10, ..Setup::default() })
        });
        table.push(
            Row::of(what, shown(ours))
                .limit(format!("{}, the issue alone", shown(alone)))
                .ratio(format!("{:.3}", ours[0] / alone[0]))
                .reference(reference),
        );
    }
    table.note(format!("An issue is {} bytes before its texts.", size_of::<Issue>()));
    if is_full {
        println!("{table}");
    } else {
        println!("memory: runs");
    }
}
