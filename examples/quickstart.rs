//! A service in a few lines: a board in memory, an agent that follows a script.
//!
//!     cargo run --example quickstart

use symphony::memory::{AgentScript, MemoryFactory, MemoryTracker, ScriptedAgent, ScriptedFactory};
use symphony::{Service, ServiceEnd};

const WORKFLOW: &str = "---
tracker:
  kind: memory
  provider:
    issues:
      - {identifier: MT-1, title: Fix the door, state: Todo}
      - {identifier: MT-2, title: Paint it, state: Todo, blocked_by: [MT-1]}
polling:
  interval_ms: 200
workspace:
  root: ./workspaces
agent:
  kind: scripted
---
Please do this: {{ issue.title }}.
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    symphony::host::init(); // agents and hooks end with this program, however it ends
    let folder = tempfile::tempdir()?;
    let workflow = folder.path().join("WORKFLOW.md");
    std::fs::write(&workflow, WORKFLOW)?;

    let board = MemoryTracker::new();
    let agent = ScriptedAgent::new(AgentScript::new().say("on it").set_state("Done"));
    let service = Service::builder()
        .workflow(&workflow)
        .tracker(MemoryFactory::serving(board.clone()))
        .agent(ScriptedFactory::new(agent))
        .build()
        .await?;
    let handle = service.handle();
    let running = tokio::spawn(service.run());

    board.wait_until(|board| board.is_in("MT-2", "Done")).await;
    handle.shut_down()?;
    assert_eq!(running.await?, ServiceEnd::Drained);
    println!("both are done");
    Ok(())
}
