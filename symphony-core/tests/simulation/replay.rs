//! Events, effects and notices are plain data: a recorded life, written as JSON and read back, gives
//! the same steps.

use serde::Serialize;
use serde::de::DeserializeOwned;
use symphony_core::Orchestrator;

use crate::trace::Life;

/// Replays a life through JSON, step by step, and says how many events it had.
pub(crate) fn check(life: &Life) -> usize {
    let (mut orchestrator, first) =
        Orchestrator::new(again(&life.config), again(&life.restored), again(&life.now));
    assert_eq!(first, again(&life.first));
    for (now, event, step) in &life.events {
        assert_eq!(orchestrator.handle(again(now), again(event)), again(step), "{event:?}");
    }
    life.events.len()
}

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("plain data can be written");
    serde_json::from_str(&text).expect("what was written can be read")
}
