//! How many instructions does one agent event take, and one candidate of a poll?

use symphony::core::orchestrator::{Event, RunEvent};

use crate::board::issues;
use crate::callgrind::{count, counted_by_callgrind};
use crate::events::{Mix, bare_runs, bare_update, board};
use crate::measure::{Effort, thousands};
use crate::poll::{self, BareScan};
use crate::snapshot;
use crate::table::{Row, Table};

const EVENTS: u64 = 1_000;

const KINDS: [(Mix, &str, &str); 3] = [
    (Mix::Alive, "alive", "a sign of life"),
    (Mix::Event, "event", "an event"),
    (Mix::Usage, "usage", "a token count"),
];

/// One case, under callgrind.
pub(crate) fn run(case: &str, size: usize) {
    match case {
        "poll" => poll(size, 1, true),
        "first-poll" => poll(size, 1, false),
        "busy-poll" => poll(size, size / 10, true),
        "snapshot" => snapshot(size, 0),
        "rows" => rows(size, 0),
        "waiting-snapshot" => snapshot(size / 10, size),
        "waiting-rows" => rows(size / 10, size),
        "view" => view(size),
        "scan" => scan(size, true),
        "first-scan" => scan(size, false),
        _ => {
            for (mix, name, _) in KINDS {
                if case == name {
                    events(mix, size);
                } else if case.strip_prefix("bare-") == Some(name) {
                    bare_events(mix, size);
                }
            }
        }
    }
}

fn poll(size: usize, running: usize, has_last: bool) {
    let mut board = poll::board(size, running);
    board.await_poll();
    if has_last {
        board.answer_poll(issues(size));
        board.await_poll();
    }
    let answer = board.poll_answer(issues(size));
    counted_by_callgrind(|| board.orchestrator.handle(board.now, answer));
}

fn scan(size: usize, has_last: bool) {
    let mut scan = BareScan::new();
    if has_last {
        scan.poll(issues(size));
    }
    let list = issues(size);
    counted_by_callgrind(|| scan.poll(list));
}

fn snapshot(running: usize, waiting: usize) {
    let board = snapshot::board(running, waiting, &[]);
    drop(board.orchestrator.snapshot(board.now));
    counted_by_callgrind(|| board.orchestrator.snapshot(board.now));
}

fn rows(running: usize, waiting: usize) {
    let board = snapshot::board(running, waiting, &[]);
    let snapshot = board.orchestrator.snapshot(board.now);
    counted_by_callgrind(|| (snapshot.running.clone(), snapshot.waiting.clone()));
}

/// A snapshot of few runs with candidates that have to be judged anew.
fn view(kept: usize) {
    let mut board = snapshot::board(10, 0, &issues(kept));
    drop(board.orchestrator.snapshot(board.now));
    board.handle(Event::Activity);
    counted_by_callgrind(|| board.orchestrator.snapshot(board.now));
}

fn events(mix: Mix, running: usize) {
    let mut board = board(running);
    for (run, update) in mix.updates(&board.runs, EVENTS) {
        let event = Event::Run { run, news: RunEvent::Agent(update) };
        let now = board.now;
        counted_by_callgrind(|| board.orchestrator.handle(now, event));
    }
}

fn bare_events(mix: Mix, running: usize) {
    let board = board(running);
    let mut runs = bare_runs(&board.runs);
    for (run, update) in mix.updates(&board.runs, EVENTS) {
        counted_by_callgrind(|| bare_update(&mut runs, board.now.mono, run, update));
    }
}

pub(crate) fn answer(effort: Effort) -> Table {
    let mut table = Table::new("Instructions");
    if effort == Effort::Quick {
        for case in [
            "poll",
            "first-poll",
            "busy-poll",
            "snapshot",
            "rows",
            "view",
            "scan",
            "first-scan",
            "alive",
            "bare-alive",
        ] {
            run(case, 20);
        }
        return table;
    }
    if let Err(why) = fill(&mut table) {
        table.note(format!("NOT RUN: {why}"));
    }
    table
}

fn fill(table: &mut Table) -> Result<(), String> {
    candidates(table, ["poll", "scan"], "the last list let go")?;
    candidates(table, ["first-poll", "first-scan"], "no last list")?;
    let [one, many] = [count("poll", 10_000)?, count("busy-poll", 10_000)?];
    let ratio = many as f64 / one as f64;
    table.push(
        Row::of("a poll of 10,000, the best 1,000 running", thousands(many))
            .limit(format!("{} with 1 running", thousands(one)))
            .ratio(format!("{ratio:.2}"))
            .goal("1.1", ratio <= 1.1),
    );
    let waiting = "a snapshot of 1,000 running, 10,000 waiting";
    for (ours, limit, size, what, goal) in [
        // A running row is a dozen shared texts, so its copy is cheap.
        ("snapshot", "rows", 1_000, "a snapshot of 1,000 running", 5),
        ("waiting-snapshot", "waiting-rows", 10_000, waiting, 2),
    ] {
        let [ours, limit] = [count(ours, size)?, count(limit, size)?];
        let ratio = ours as f64 / limit as f64;
        table.push(
            Row::of(what, thousands(ours))
                .limit(format!("{} for its rows", thousands(limit)))
                .ratio(format!("{ratio:.2}"))
                .goal(goal, ratio <= f64::from(goal)),
        );
    }
    let per_candidate = (count("view", 11_000)? - count("view", 1_000)?) / 10_000;
    table.push(Row::of("one candidate judged anew for a snapshot", per_candidate));
    for (_, case, what) in KINDS {
        for running in [1, 1_000] {
            let per_event = |total: u64| total as f64 / EVENTS as f64;
            let ours = per_event(count(case, running)?);
            let limit = per_event(count(&format!("bare-{case}"), running)?);
            let what = format!("{what}, {} running", thousands(running as u64));
            table.push(
                Row::of(what, format!("{ours:.0}"))
                    .limit(format!("{limit:.0}"))
                    .ratio(format!("{:.1}", ours / limit)),
            );
        }
    }
    Ok(())
}

/// What one candidate adds to a poll, and whether that grows with their number.
fn candidates(table: &mut Table, cases: [&str; 2], what: &str) -> Result<(), String> {
    let sizes = [1_000, 10_000, 100_000];
    let mut counts = [[0.0; 3]; 2];
    for (side, case) in cases.into_iter().enumerate() {
        for (place, size) in sizes.into_iter().enumerate() {
            counts[side][place] = count(case, size)? as f64;
        }
    }
    let [ours, limit] = counts.map(|[_, some, many]| (many - some) / 90_000.0);
    table.push(
        Row::of(format!("one candidate of a poll, {what}"), format!("{ours:.0}"))
            .limit(format!("{limit:.0}"))
            .ratio(format!("{:.2}", ours / limit)),
    );
    for place in [1, 2] {
        let [ours, limit] = counts.map(|counts| counts[place] / counts[place - 1] / 10.0);
        let names = [place - 1, place].map(|place| thousands(sizes[place] as u64));
        let what = format!("beyond linear, {} to {}, {what}", names[0], names[1]);
        table.push(
            Row::of(what, format!("{ours:.2}"))
                .limit(format!("{limit:.2}"))
                .ratio(format!("{:.2}", ours / limit))
                .goal("1.15", ours <= 1.15),
        );
    }
    Ok(())
}
