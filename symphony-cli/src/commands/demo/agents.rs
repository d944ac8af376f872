//! What the demo's agents do.

use std::time::Duration;

use symphony_core::agent::AgentErrorKind;
use symphony_memory::{Opening, Script, ScriptedAgent};

/// One agent for each opening, by the issue it is for.
pub(super) fn agents() -> ScriptedAgent {
    ScriptedAgent::choosing(script)
}

fn script(opening: &Opening<'_>) -> Script {
    let issue = opening.issue;
    let begin = |say: &str| {
        Script::new().set_state("In Progress").say(say).wait(Duration::from_millis(250))
    };
    match issue.identifier.as_str() {
        "DEMO-4" if opening.session == 1 => begin("calling the shop")
            .append("report.md", "Nobody answers.\n")
            .spend(900, 60)
            .fail(AgentErrorKind::ProcessExit, "the line went dead"),
        "DEMO-5" => begin("first coat")
            .append("report.md", "The first coat is on.\n")
            .spend(1_200, 300)
            .next_turn()
            .say("second coat")
            .wait(Duration::from_millis(250))
            .append("report.md", "The second coat is on.\n")
            .spend(1_500, 280)
            .set_state("Done"),
        _ => begin("at work")
            .append("report.md", format!("{}: done.\n", issue.title))
            .spend(1_000, 200)
            .say("finished")
            .wait(Duration::from_millis(150))
            .set_state("Done"),
    }
}
