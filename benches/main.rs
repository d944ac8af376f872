//! The benchmarks: one module per question, each answer beside its limit in the same run.
//!
//! `scripts/bench` runs them all; `cargo bench --bench questions -- poll` runs one. Without
//! `--bench`, or with `--quick`, everything is small and runs once, to see that it works.
//! `docs/design/benchmarks.md` says what each limit does, and has the figures.

mod board;
mod callgrind;
mod events;
mod instructions;
mod measure;
mod poll;
mod snapshot;
mod table;
mod wakeup;

use measure::Effort;
use table::Table;

type Question = (&'static str, fn(Effort) -> Table);

const QUESTIONS: [Question; 5] = [
    ("poll", poll::answer),
    ("wakeup", wakeup::answer),
    ("events", events::answer),
    ("snapshot", snapshot::answer),
    ("instructions", instructions::answer),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, case, size] = arguments.as_slice()
        && flag == callgrind::CASE
    {
        return callgrind::run(case, size.parse().unwrap_or(0));
    }
    let effort = Effort::from_arguments(&arguments);
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, answer) in QUESTIONS {
        if wanted.is_empty() || wanted.iter().any(|word| *word == name) {
            let table = answer(effort);
            match effort {
                Effort::Full => println!("{table}"),
                // Figures of so little would only mislead.
                Effort::Quick => println!("{name}: runs"),
            }
        }
    }
}
