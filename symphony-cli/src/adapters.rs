//! The adapters that this command knows.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use symphony_codex::CodexFactory;
use symphony_core::agent::AgentErrorKind;
use symphony_linear::LinearFactory;
use symphony_memory::{AgentScript, MemoryFactory, ScriptedAgent, ScriptedFactory};
use symphony_runtime::Registry;

type MakeRegistry = Box<dyn Fn() -> Registry + Send + Sync>;

/// What makes the registry of this program.
static MAKE_REGISTRY: OnceLock<MakeRegistry> = OnceLock::new();

/// Sets what makes the registry of this program. The first one counts.
pub(crate) fn use_registry(make: impl Fn() -> Registry + Send + Sync + 'static) {
    let _ = MAKE_REGISTRY.set(Box::new(make));
}

/// Makes the registry of this program: every kind of tracker and agent that a workflow file may
/// name.
pub(crate) fn registry() -> Registry {
    MAKE_REGISTRY.get().map_or_else(bundled, |make| make())
}

/// Returns the trackers and agents of this repository: `linear` and `memory`; `codex`, and
/// `scripted`, an agent that costs nothing.
#[must_use]
pub fn bundled() -> Registry {
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(LinearFactory::new()));
    registry.add_tracker(Arc::new(MemoryFactory::new()));
    registry.add_agent(Arc::new(CodexFactory::new()));
    registry.add_agent(Arc::new(ScriptedFactory::new(stand_in())));
    registry
}

/// How long a turn lasts that is to end by its timeout.
const SHORT_TURN: Duration = Duration::from_millis(300);

/// An agent that costs nothing: it notes that it was there and calls the work done. For trying a
/// workflow file out. Labels make it misbehave, to see what the service does then.
fn stand_in() -> ScriptedAgent {
    let here = || AgentScript::new().say("the stand-in was here");
    let done = here().append("stand-in.txt", "The stand-in was here.\n").set_state("Done");
    let timed_out = here().wait(SHORT_TURN).fail(AgentErrorKind::TurnTimeout, "no end in sight");
    ScriptedAgent::new(done)
        .without_entries()
        .for_label("hang", here().hang())
        .for_label("stall", here().stall())
        .for_label("turn-timeout", timed_out)
        .for_label("fail", here().fail(AgentErrorKind::TurnFailed, "as the label says"))
}
