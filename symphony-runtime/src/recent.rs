//! The last things each run did, for people who look at one issue. Kept here and not in the core,
//! which has no use for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use symphony_core::agent::AgentEvent;
use symphony_core::orchestrator::RunId;

/// How many events of a run are kept.
const EVENTS: usize = 200;

/// How many runs are remembered.
const RUNS: usize = 200;

/// The last events of the latest runs.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    runs: Mutex<BTreeMap<RunId, VecDeque<Arc<AgentEvent>>>>,
}

impl Recent {
    pub(crate) fn note(&self, run: RunId, event: &Arc<AgentEvent>) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let events = runs.entry(run).or_default();
        if events.len() == EVENTS {
            events.pop_front();
        }
        events.push_back(Arc::clone(event));
        if runs.len() > RUNS {
            runs.pop_first();
        }
    }

    pub(crate) fn of(&self, run: RunId) -> Vec<Arc<AgentEvent>> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&run).map(|events| events.iter().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::time::Wall;

    use super::*;

    #[test]
    fn the_last_events_of_the_latest_runs_are_kept() {
        let recent = Recent::default();
        let event = |name: usize| {
            let (summary, at) = (String::new(), Wall::default());
            Arc::new(AgentEvent { name: name.to_string(), summary, at })
        };
        let run = |number| RunId { boot: 1, number };
        (0..EVENTS + 3).for_each(|name| recent.note(run(1), &event(name)));
        let kept = recent.of(run(1));
        assert_eq!((kept.len(), kept[0].name.as_str()), (EVENTS, "3"));
        (2..2 + RUNS as u64).for_each(|number| recent.note(run(number), &event(0)));
        assert_eq!(recent.of(run(1)), vec![]);
        assert_eq!(recent.of(run(2)).len(), 1);
    }
}
