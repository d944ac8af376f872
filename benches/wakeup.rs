//! Does a wake-up with nothing to do cost more when more is kept? Counted in instructions.

use symphony::core::orchestrator::Event;

use crate::board::{Board, Setup, issues};
use crate::callgrind::{count, counted_by_callgrind};
use crate::measure::{Effort, thousands};
use crate::table::{Row, Table};

/// A wake-up before anything is due, and one that looks at everything and finds nothing.
const CASES: [(&str, &str); 2] = [
    ("wake", "a wake-up before anything is due"),
    ("look", "a look at everything that may be due"),
];

/// One case, under callgrind.
pub(crate) fn run(case: &str, kept: usize) {
    let event = match case {
        "wake" => Event::Wake,
        "look" => Event::Activity,
        _ => return,
    };
    let list = issues(kept);
    let mut board = Board::new(Setup { running: list[..1].to_vec(), free: 10, ..Setup::default() });
    board.await_poll();
    board.answer_poll(list);
    counted_by_callgrind(|| board.orchestrator.handle(board.now, event));
}

pub(crate) fn answer(effort: Effort) -> Table {
    let mut table = Table::new("A wake-up with nothing to do, in instructions");
    let [few, many] = effort.pick([1_000, 100_000], [10, 100]);
    for (case, what) in CASES {
        if effort == Effort::Quick {
            run(case, few);
            continue;
        }
        match (count(case, few), count(case, many)) {
            (Ok(with_few), Ok(with_many)) => table.push(
                Row::of(format!("{what}, {} kept", thousands(many as u64)), thousands(with_many))
                    .limit(format!("{} with {} kept", thousands(with_few), thousands(few as u64)))
                    .ratio(format!("{:.3}", with_many as f64 / with_few as f64))
                    .goal("equal", with_many == with_few),
            ),
            (Err(why), _) | (_, Err(why)) => table.note(format!("NOT RUN: {what}: {why}")),
        }
    }
    table
}
