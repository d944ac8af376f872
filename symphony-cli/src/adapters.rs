//! The adapters that this command knows.

use std::sync::Arc;
use std::time::Duration;

use symphony_codex::CodexFactory;
use symphony_core::agent::AgentErrorKind;
use symphony_linear::LinearFactory;
use symphony_memory::{AgentScript, MemoryFactory, ScriptedAgent, ScriptedFactory};
use symphony_runtime::Registry;

/// Every kind of tracker and agent that a workflow file may name.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(LinearFactory::new()));
    registry.add_tracker(Arc::new(MemoryFactory::new()));
    registry.add_agent(Arc::new(CodexFactory::new()));
    let stand_in = match std::env::var_os(MEMORY_VARIABLE) {
        Some(folder) => stand_in().remembering_in(folder),
        None => stand_in(),
    };
    registry.add_agent(Arc::new(ScriptedFactory::new(stand_in)));
    registry
}

/// Where the stand-in keeps its conversations, so that they outlive the service as those of other
/// agents do.
const MEMORY_VARIABLE: &str = "SYMPHONY_STAND_IN_MEMORY";

/// How long a turn lasts that is to end by its timeout.
const SHORT_TURN: Duration = Duration::from_millis(300);

/// An agent that costs nothing: it notes that it was there and calls the work done. For trying a
/// workflow file out. Labels make it misbehave, to see what the service does then.
fn stand_in() -> ScriptedAgent {
    let here = || AgentScript::new().say("the stand-in was here");
    let done = here().append("stand-in.txt", "The stand-in was here.\n").set_state("Done");
    let timed_out = here().wait(SHORT_TURN).fail(AgentErrorKind::TurnTimeout, "no end in sight");
    let two_turns = here().spend(900, 100).next_turn().spend(900, 100).set_state("Done");
    ScriptedAgent::new(done)
        .without_entries()
        .for_label("hang", here().hang())
        .for_label("stall", here().stall())
        .for_label("turn-timeout", timed_out)
        .for_label("two-turns", two_turns)
        .for_label("ask", here().ask("Which door?"))
        .for_label("fail", here().fail(AgentErrorKind::TurnFailed, "as the label says"))
}
