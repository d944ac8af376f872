//! What the service hears of the world around it, and how often it speaks.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use symphony_core::snapshot::Mode;
use symphony_memory::AgentScript;
use symphony_runtime::ServiceEnd;

use crate::harness::{Harness, within};

#[tokio::test(start_paused = true)]
async fn rule_12_2_a_touched_file_and_a_webhook_are_activity() {
    let harness = Harness::new(AgentScript::new());
    let activity = "activity: {idle_after_ms: 5000, idle_ms: 20000}";
    harness.write(&format!("polling:\n  {activity}\n  activity_file: touched"));
    let live = harness.start().await;
    live.until("idle", |s| s.polling.mode == Mode::Idle).await;
    fs::write(harness.dir.path().join("touched"), "").unwrap();
    live.until("active", |s| s.polling.mode == Mode::Active).await;
    live.until("idle again", |s| s.polling.mode == Mode::Idle).await;
    live.handle.activity().unwrap();
    live.until("active again", |s| s.polling.mode == Mode::Active).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

/// Dormant after two seconds of silence, and then asks for new work once a day.
const SLEEPY: &str = "polling:\n  activity: {idle_after_ms: 1000, idle_ms: 86400000, \
    dormant_after_ms: 2000, dormant_ms: 86400000}\n  quiet_hours: {from: '00:00', to: '23:59'}\n";

#[tokio::test(start_paused = true)]
async fn rule_12_1_what_is_local_is_acted_on_at_once_also_when_polling_sleeps() {
    // It works for five minutes, and then its process ends.
    let harness = Harness::new(AgentScript::new().wait(Duration::from_secs(300)).exit("boom"));
    harness.issue("1", "MT-1");
    harness.write(&format!("  stall_timeout_ms: 0\n{SLEEPY}"));
    let live = harness.start().await;
    live.until("asleep", |s| s.running.len() == 1 && s.polling.mode == Mode::Dormant).await;
    live.until("a retry", |s| s.waiting.len() == 1).await;
    let ended = live.handle.snapshot().unwrap().now.mono;
    live.until("the next run", |s| s.running.len() == 1).await;
    let waited = live.handle.snapshot().unwrap().now.mono.since(ended);
    assert!(waited < Duration::from_secs(60), "after its backoff, not after a poll: {waited:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_12_2_a_cancel_is_noticed_within_the_active_interval_also_in_quiet_hours() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    harness.write(&format!("  stall_timeout_ms: 0\n{SLEEPY}"));
    let live = harness.start().await;
    live.until("asleep", |s| s.running.len() == 1 && s.polling.mode == Mode::Dormant).await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    let cancelled = live.handle.snapshot().unwrap().now.mono;
    harness.board.set_state("1", "Cancelled");
    live.until("a stop", |s| s.totals.cancelled == 1).await;
    let noticed = live.handle.snapshot().unwrap().now.mono.since(cancelled);
    assert!(noticed < Duration::from_secs(40), "{noticed:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_12_3_quiet_hours_are_told_when_they_begin_and_end() {
    let harness = Harness::new(AgentScript::new());
    let minute = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60 % 1440;
    let clock = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    let (from, to) = (clock(minute + 1380), clock(minute + 60));
    harness
        .write(&format!("polling:\n  quiet_hours: {{from: '{from}', to: '{to}', timezone: UTC}}"));
    let live = harness.start().await;
    live.until("quiet", |s| s.polling.quiet).await;
    harness.write("");
    live.until("not quiet", |s| !s.polling.quiet).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_13_2_a_flood_of_news_is_published_ten_times_a_second_at_most() {
    let mut script = AgentScript::new();
    for number in 0..500 {
        script = script.say(format!("line {number}")).wait(Duration::from_millis(10));
    }
    let harness = Harness::new(script.set_state("Done"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    let mut snapshots = live.handle.snapshots();
    let counting = tokio::spawn(async move {
        let (mut count, mut last, mut closest) = (0_u32, None, u64::MAX);
        while snapshots.changed().await.is_ok() {
            let now = snapshots.borrow_and_update().now.mono;
            if let Some(last) = last.replace(now) {
                closest = closest.min(now.since(last).as_millis().try_into().unwrap());
            }
            count += 1;
        }
        (count, closest)
    });
    within("the board", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let (count, closest) = within("the last snapshot", counting).await.unwrap();
    assert!(count > 20, "{count}");
    // The last one of all is published whenever the end comes.
    assert!(closest >= 100 || count < 120, "{count} snapshots, {closest} ms apart");
}
