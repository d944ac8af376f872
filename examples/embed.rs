//! Symphony inside another program: settings made in code, a handle to watch and steer it.
//!
//!     cargo run --example embed

use std::sync::Arc;

use symphony::core::orchestrator::NoticeKind;
use symphony::core::{Issue, Settings, StateSet};
use symphony::memory::{AgentScript, MemoryTracker, ScriptedAgent};
use symphony::{FixedAgent, FixedTracker, NoticeItem, Service, ServiceEnd};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    symphony::host::init();
    let folder = tempfile::tempdir()?;
    let board = MemoryTracker::new();
    board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);

    // An agent that needs a person before it goes on.
    let asks = AgentScript::new().ask("Which door?");
    let works = AgentScript::new().say("ah, that one").set_state("Done");
    let agent = ScriptedAgent::new([asks, works]);

    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("board", active, over, folder.path().to_owned());
    settings.agent.kind = "scripted".to_owned();
    let service = Service::builder()
        .settings(settings, "Please do this: {{ issue.title }}.")
        .tracker(FixedTracker::new("board", Arc::new(board.clone())))
        .agent(FixedAgent::new("scripted", Arc::new(agent)))
        .build()
        .await?;
    let handle = service.handle();
    let mut notices = handle.subscribe()?;
    let running = tokio::spawn(service.run());

    // What happens arrives as data; what we want goes in through the handle.
    let mut runs = 0;
    while let Some(item) = notices.next().await {
        let notice = match item {
            NoticeItem::Notice(notice) => notice,
            // Read too slowly: what was missed is in `handle.snapshot()`.
            NoticeItem::Missed(count) => {
                println!("missed {count} notices; {:?}", handle.snapshot()?.totals);
                continue;
            }
        };
        let Some(issue) = &notice.issue else {
            continue;
        };
        match &notice.what {
            NoticeKind::Started { .. } => runs += 1,
            NoticeKind::Blocked { why } => {
                println!("{} is blocked: {why:?}", issue.identifier);
                handle.retry(issue.id.clone()).await?;
            }
            NoticeKind::Cleaned => {
                println!("{} is done, after {runs} runs", issue.identifier);
                handle.shut_down()?;
            }
            _ => {}
        }
    }
    assert_eq!(running.await?, ServiceEnd::Drained);
    Ok(())
}
