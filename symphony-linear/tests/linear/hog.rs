//! One agent calls the tool in a tight loop (contract 12.6).

use std::time::Duration;

use serde_json::json;
use symphony_core::IssueId;
use symphony_linear::LINEAR_GRAPHQL;
use symphony_linear_fake::{Fake, FakeIssue, MadeRequest};
use symphony_memory::{AgentScript, ScriptedAgent};

use crate::service::Live;

const HOG: &str = "{ viewer { name } }";
const OTHER: &str = "{ viewer { email } }";

fn calls(count: usize, query: &str, pause: Duration) -> AgentScript {
    let arguments = json!({ "query": query });
    (0..count).fold(AgentScript::new(), |script, _| {
        script.wait(pause).call(LINEAR_GRAPHQL, arguments.clone())
    })
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_a_hog_starves_neither_refresh_nor_other_agents_and_is_shown() {
    let fake = Fake::new();
    fake.put([
        FakeIssue { labels: vec!["hog".to_owned()], ..FakeIssue::new(1) },
        FakeIssue::new(2),
    ]);
    let hog = calls(10_000, HOG, Duration::ZERO).hang();
    let other = calls(200, OTHER, Duration::from_secs(60)).hang();
    let agent = ScriptedAgent::new(other).for_label("hog", hog).without_entries();
    let live = Live::start_with(&fake, 2, agent).await;
    live.until("both run", |seen| seen.running.len() == 2).await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;

    let made = fake.made();
    let count =
        |is_it: &dyn Fn(&MadeRequest) -> bool| made.iter().filter(|made| is_it(made)).count();
    let asked = |query: &'static str| count(&move |made: &MadeRequest| made.query == query);
    let (hogs, others) = (asked(HOG), asked(OTHER));
    let polls = count(&|made: &MadeRequest| made.query.contains("candidates"));
    assert!(hogs > 3_000, "it gets what nobody else wants: {hogs}");
    assert!((110..=120).contains(&others), "the other gets all it wants: {others}");
    assert!((235..=242).contains(&polls), "refresh keeps its pace: {polls}");
    assert!(made.iter().all(|made| made.status == 200), "Linear refuses nobody");

    live.handle.poll_now().unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let spent = live.handle.last_snapshot().polling.budget.clone().unwrap().tools;
    let of = |issue: &str| spent[&IssueId::from(issue)];
    assert!(of("id-1") > 20 * of("id-2") && of("id-2") > 100, "{spent:?}");
    live.shut_down().await;
}
