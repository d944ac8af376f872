//! Many worlds on both cores, what came of them, and the report of a failure.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::faults::Tally;
use crate::plan::Plan;
use crate::trace::{Grain, Trace};
use crate::violation::Violation;
use crate::world::{self, Outcome};

const THREADS: usize = 2;
const MAX_FAILURES: usize = 3;
const MAX_SHRINK_STEPS: u32 = 400;

/// How much is said of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A few, each shrunk and with its trace.
    Report,
    /// All, one line each: for a first look at a broken orchestrator.
    Survey,
}

/// Runs a world; a panic in it is a broken rule like any other.
pub(crate) fn run(plan: &Plan, grain: Grain) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| world::run(plan, grain))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Violation { rule: "nothing panics", detail: text.unwrap_or_default() };
        Outcome {
            result: Err(violation),
            events: 0,
            tally: Tally::default(),
            trace: Trace::new(Grain::None),
        }
    })
}

/// What came of many worlds.
#[derive(Debug, Default)]
pub(crate) struct Session {
    worlds: u64,
    twice: u64,
    events: u64,
    hours: u64,
    busy: Duration,
    took: Duration,
    pub(crate) tally: Tally,
    pub(crate) failures: Vec<String>,
    /// The number of each world's trace, by its plan, where that was asked for.
    pub(crate) traces: BTreeMap<String, u64>,
}

impl Session {
    /// First the plans that once failed, then those of these seeds.
    pub(crate) fn run(seeds: impl Iterator<Item = u64>, detail: Detail, grain: Grain) -> Self {
        let mut plans: Vec<Plan> = include_str!("seeds.txt")
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty())
            .map(|line| line.parse().expect("seeds.txt"))
            .collect();
        plans.extend(seeds.map(Plan::new));
        let session = Mutex::new(Self::default());
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if !Self::one(&session, plan, detail, grain) {
                            break;
                        }
                    }
                });
            }
        });
        let mut session = session.into_inner().expect("no thread panics");
        session.took = began.elapsed();
        session
    }

    /// One world; false when there are failures enough.
    fn one(session: &Mutex<Self>, plan: &Plan, detail: Detail, grain: Grain) -> bool {
        let began = on_core();
        let outcome = run(plan, grain);
        let busy = on_core().saturating_sub(began);
        // One world in a hundred runs twice more, with its trace, and must be the same.
        let twice = plan.seed % 100 == 7;
        let differs =
            twice && run(plan, Grain::Hash).trace.hash() != run(plan, Grain::Hash).trace.hash();
        let mut failure = outcome.result.err().map(|violation| match detail {
            Detail::Report => report(plan, &violation),
            Detail::Survey => format!("{plan} {violation}"),
        });
        if differs {
            failure = Some(format!("world {plan} has two traces"));
        }
        let mut session = session.lock().expect("no thread panics");
        session.worlds += 1;
        session.twice += u64::from(twice);
        session.events += outcome.events;
        session.hours += plan.hours;
        session.busy += busy;
        session.tally.add(&outcome.tally);
        session.failures.extend(failure);
        if grain == Grain::Hash {
            session.traces.insert(plan.to_string(), outcome.trace.hash());
        }
        detail == Detail::Survey || session.failures.len() < MAX_FAILURES
    }
}

/// How long this thread has been on a core; where the kernel does not tell, how long it has lived.
fn on_core() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    nanos.map_or_else(|| BEGAN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// The smallest plan that breaks the same rule.
fn shrink(plan: &Plan, violation: &Violation) -> (Plan, Violation) {
    let (mut least, mut last) = (*plan, violation.clone());
    let mut tries = 0;
    'smaller: loop {
        for smaller in least.smaller() {
            tries += 1;
            if tries > MAX_SHRINK_STEPS {
                return (least, last);
            }
            if let Err(found) = run(&smaller, Grain::None).result
                && found.rule == last.rule
            {
                (least, last) = (smaller, found);
                continue 'smaller;
            }
        }
        return (least, last);
    }
}

/// A failure for people: the rule, the end of the trace, and how to see it again.
fn report(plan: &Plan, violation: &Violation) -> String {
    let (least, shrunk) = shrink(plan, violation);
    let mut text = format!(
        "world {plan} broke a rule\n  {violation}\nsmallest plan that does: {least}\n  {shrunk}\n"
    );
    for line in &run(&least, Grain::Last(40)).trace.lines {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(&format!(
        "again: SYMPHONY_SIM_SEED={least} cargo test -p symphony-core --test simulation -- --nocapture worlds\n"
    ));
    text
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = |count: u64| {
            let millis = u64::try_from(self.busy.as_millis()).unwrap_or(u64::MAX).max(1);
            count.saturating_mul(1000) / millis
        };
        writeln!(
            f,
            "{} worlds, {} of them twice, {} simulated hours, {} events",
            self.worlds, self.twice, self.hours, self.events
        )?;
        writeln!(
            f,
            "{:.1} s, {:.1} core-seconds in worlds",
            self.took.as_secs_f64(),
            self.busy.as_secs_f64()
        )?;
        writeln!(f, "{} events per core-second (goal 2000000)", per_second(self.events))?;
        writeln!(f, "{} simulated hours per core-second (goal 100)", per_second(self.hours))?;
        write!(f, "{}", self.tally)
    }
}
