//! The adapters that this command knows.

use std::sync::Arc;

use symphony_memory::{MemoryFactory, Script, ScriptedAgent, ScriptedFactory};
use symphony_runtime::Registry;

/// Every kind of tracker and agent that a workflow file may name.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(MemoryFactory::new()));
    registry.add_agent(Arc::new(ScriptedFactory::new(stand_in())));
    registry
}

/// An agent that costs nothing: it notes that it was there and calls the work done. For trying a
/// workflow file out.
fn stand_in() -> ScriptedAgent {
    let script = Script::new()
        .say("the stand-in was here")
        .append("stand-in.txt", "The stand-in was here.\n")
        .set_state("Done");
    ScriptedAgent::new(script)
}
