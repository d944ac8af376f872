//! What Linear delivers by itself (contract 12.8): which deliveries are believed, and what comes of them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;
use symphony_core::IssueId;
use symphony_core::time::Wall;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::webhook::{Delivery, DeliveryRefused, Webhook};
use symphony_http::{Config, Server};
use symphony_linear_fake::{Fake, FakeIssue, KEY};
use symphony_memory::{AgentScript, ScriptedAgent, ScriptedFactory};
use symphony_runtime::{Handle, NotReceived, Received, Service};

use crate::harness::{factory, settings, tracker, tracker_with, try_build};
use crate::service::{Here, Live, seconds, since};

const SECRET: &str = "lin_wh_0123456789abcdef";

/// `2026-02-18T09:30:00Z`
const NOW: i64 = 1_771_407_000_000;

const ID: &str = "2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9";

fn webhook() -> Arc<dyn Webhook> {
    tracker_with(&Fake::new(), &json!({ "webhook_secret": SECRET })).webhook().unwrap()
}

fn sign(body: &[u8], secret: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body);
    mac.finalize().into_bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn about(kind: &str, data: &Value, sent: i64) -> String {
    json!({ "action": "update", "type": kind, "data": data, "webhookTimestamp": sent }).to_string()
}

/// What comes of a body with this signature, a minute-proof while after it was sent.
fn receive(
    body: &[u8],
    headers: &[(&str, &[u8])],
    now: i64,
) -> Result<Vec<IssueId>, DeliveryRefused> {
    webhook().receive(&Delivery::new(headers, body), Wall::from_unix_millis(now))
}

/// The same with the right signature.
fn signed(body: &str, now: i64) -> Result<Vec<IssueId>, DeliveryRefused> {
    let signature = sign(body.as_bytes(), SECRET);
    receive(body.as_bytes(), &[("Linear-Signature", signature.as_bytes())], now)
}

#[test]
fn rule_12_8_linears_signature_is_the_hmac_of_the_body_as_it_was_sent() {
    let body = format!(
        r#"{{"action":"update","type":"Issue","data":{{"id":"{ID}"}},"webhookTimestamp":{NOW}}}"#
    );
    // Made with another program.
    let known = "38885797ef364654ea31026c1aafbe2959c5c64c53d782fa0e8e0985dcbb56be";
    assert_eq!(sign(body.as_bytes(), SECRET), known);
    let upper = known.to_uppercase();
    for (name, value) in
        [("linear-signature", known), ("LINEAR-SIGNATURE", known), ("Linear-Signature", &upper)]
    {
        let received = receive(body.as_bytes(), &[(name, value.as_bytes())], NOW);
        assert_eq!(received, Ok(vec![IssueId::from(ID)]), "{name}: {value}");
    }
}

#[test]
fn rule_12_8_a_forged_or_altered_delivery_is_refused() {
    let body = about("Issue", &json!({ "id": ID }), NOW);
    let right = sign(body.as_bytes(), SECRET);
    let other = sign(body.as_bytes(), "lin_wh_another_secret_of_somebody");
    let plain = right.as_bytes();
    let long = format!("{right}00");
    let mut turned = right.clone().into_bytes();
    turned.reverse();
    type Headers<'a> = Vec<(&'a str, &'a [u8])>;
    let cases: [(&str, Headers<'_>); 9] = [
        ("no signature", vec![]),
        ("an empty one", vec![("linear-signature", b"")]),
        ("another secret's", vec![("linear-signature", other.as_bytes())]),
        ("one in another header", vec![("signature", plain)]),
        ("half of it", vec![("linear-signature", &plain[..32])]),
        ("more than it", vec![("linear-signature", long.as_bytes())]),
        ("backwards", vec![("linear-signature", &turned)]),
        ("no digits", vec![("linear-signature", &[b'z'; 64])]),
        ("two of them", vec![("linear-signature", plain), ("linear-signature", plain)]),
    ];
    for (what, headers) in cases {
        assert_eq!(
            receive(body.as_bytes(), &headers, NOW),
            Err(DeliveryRefused::Signature),
            "{what}"
        );
    }
    for altered in [
        body.replace(ID, "00000000-f7c8-44e3-bbf3-2d60b5ea8bc9"),
        body.replace("update", "remove"),
        format!("{body} "),
        body[1..].to_owned(),
        String::new(),
    ] {
        let headers: [(&str, &[u8]); 1] = [("linear-signature", plain)];
        assert_eq!(receive(altered.as_bytes(), &headers, NOW), Err(DeliveryRefused::Signature));
    }
}

#[test]
fn rule_12_8_every_bit_of_the_signature_counts() {
    let body = about("Issue", &json!({ "id": ID }), NOW);
    let right = sign(body.as_bytes(), SECRET);
    for place in 0..right.len() {
        let mut wrong = right.clone().into_bytes();
        wrong[place] = if wrong[place] == b'0' { b'1' } else { b'0' };
        let headers: [(&str, &[u8]); 1] = [("linear-signature", &wrong)];
        assert_eq!(
            receive(body.as_bytes(), &headers, NOW),
            Err(DeliveryRefused::Signature),
            "{place}"
        );
    }
}

#[test]
fn rule_12_8_a_delivery_is_good_for_a_minute() {
    for (ahead, is_good) in [
        (0, true),
        (60_000, true),
        (-60_000, true),
        (60_001, false),
        (-60_001, false),
        (i64::MAX - NOW, false),
        (i64::MIN + 1, false),
    ] {
        let body = about("Issue", &json!({ "id": ID }), NOW.saturating_add(ahead));
        let expected =
            if is_good { Ok(vec![IssueId::from(ID)]) } else { Err(DeliveryRefused::Time) };
        assert_eq!(signed(&body, NOW), expected, "{ahead}");
    }
    // The time is signed too: a header says nothing.
    let body = about("Issue", &json!({ "id": ID }), NOW - 600_000);
    let (signature, time) = (sign(body.as_bytes(), SECRET), NOW.to_string());
    let headers: [(&str, &[u8]); 2] =
        [("linear-signature", signature.as_bytes()), ("linear-timestamp", time.as_bytes())];
    assert_eq!(receive(body.as_bytes(), &headers, NOW), Err(DeliveryRefused::Time));
}

#[test]
fn rule_12_8_what_changes_no_issue_is_taken_and_reads_nothing() {
    for kind in ["Comment", "Reaction", "IssueLabel", "Project", "Cycle", "User", "IssueSLA", ""] {
        let body = about(kind, &json!({ "id": 7, "issueId": ID, "issue": { "id": ID } }), NOW);
        assert_eq!(signed(&body, NOW), Ok(vec![]), "{kind}");
    }
    let bare = json!({ "type": "OAuthApp", "webhookTimestamp": NOW }).to_string();
    assert_eq!(signed(&bare, NOW), Ok(vec![]));
    let both = json!({ "issueId": "a", "relatedIssueId": "b" });
    let ids = vec![IssueId::from("a"), IssueId::from("b")];
    assert_eq!(signed(&about("IssueRelation", &both, NOW), NOW), Ok(ids));
}

#[test]
fn rule_12_8_a_signed_body_that_makes_no_sense_is_refused() {
    let long = "x".repeat(65);
    let deep = "[".repeat(100_000);
    for body in [
        "".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "{\"type\":\"Issue\"".to_owned(),
        "\u{0}".to_owned(),
        deep,
        json!({ "type": "Issue", "data": { "id": ID } }).to_string(),
        json!({ "type": "Issue", "data": { "id": ID }, "webhookTimestamp": "now" }).to_string(),
        json!({ "type": "Issue", "data": { "id": ID }, "webhookTimestamp": 1e300 }).to_string(),
        json!({ "type": 7, "webhookTimestamp": NOW }).to_string(),
        about("Issue", &json!(null), NOW),
        about("Issue", &json!({}), NOW),
        about("Issue", &json!({ "id": 7 }), NOW),
        about("Issue", &json!({ "id": "" }), NOW),
        about("Issue", &json!({ "id": long }), NOW),
        about("Issue", &json!({ "id": "a\"b" }), NOW),
        about("Issue", &json!({ "id": "\u{1b}[2J" }), NOW),
    ] {
        assert_eq!(signed(&body, NOW), Err(DeliveryRefused::Content), "{body:.80}");
    }
}

proptest! {
    #[test]
    fn rule_12_8_whatever_is_sent_is_answered(
        body in prop::collection::vec(any::<u8>(), 0..400),
        name in "(?i)linear-signature|[a-z-]{0,20}",
        value in prop::collection::vec(any::<u8>(), 0..80),
        now in any::<i64>(),
    ) {
        let received = receive(&body, &[(&name, &value)], now);
        prop_assert_eq!(received, Err(DeliveryRefused::Signature));
    }

    #[test]
    fn rule_12_8_whatever_linear_signs_is_answered(
        body in "[\\[{](\"[a-zA-Z]{0,8}\":)?.{0,200}",
        kind in "Issue|IssueRelation|Comment|.{0,10}",
        data in ".{0,40}",
        now in any::<i64>(),
    ) {
        let _ = signed(&body, now);
        let body = about(&kind, &json!({ "id": data, "issueId": data }), now);
        if let Ok(ids) = signed(&body, now) {
            prop_assert!(ids.iter().all(|id| id.as_str().chars().all(symphony_core::is_plain)));
        }
    }
}

// The secret.

#[test]
fn rule_12_8_without_a_secret_there_is_no_webhook() {
    assert!(tracker(&Fake::new()).webhook().is_none());
    for blank in ["", "  "] {
        let tracker = tracker_with(&Fake::new(), &json!({ "webhook_secret": blank }));
        assert!(tracker.webhook().is_none());
    }
}

#[test]
fn rule_2_9_the_signing_secret_comes_from_a_variable_that_agents_do_not_see() {
    let settings = settings(&json!({ "webhook_secret": "$HOOK" }));
    let factory = factory(&Fake::new());
    let built = try_build(&factory, &settings, &[("HOOK", SECRET)]).unwrap();
    assert_eq!(built.secret_names, ["LINEAR_API_KEY", "HOOK"]);
    assert!(built.tracker.webhook().is_some());
    let error = try_build(&factory, &settings, &[]).unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::MissingSecret);
    let begins = "tracker.provider.webhook_secret: the environment variable HOOK is not set";
    assert!(error.message.starts_with(begins), "{error}");
}

#[test]
fn rule_2_9_the_signing_secret_is_in_nothing_that_prints() {
    let settings = settings(&json!({ "webhook_secret": "$HOOK" }));
    let factory = factory(&Fake::new());
    let built = try_build(&factory, &settings, &[("HOOK", SECRET)]).unwrap();
    let body = about("Issue", &json!({ "id": ID }), NOW);
    let refused = receive(body.as_bytes(), &[("linear-signature", b"wrong")], NOW).unwrap_err();
    let delivery = Delivery::new(&[("linear-signature", b"wrong")], body.as_bytes());
    let printed = format!(
        "{built:?} {factory:?} {:?} {refused:?} {refused} {delivery:?}",
        built.tracker.webhook()
    );
    for secret in ["0123456789abcdef", "wrong\"", ID] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let short = crate::harness::settings(&json!({ "webhook_secret": "$HOOK" }));
    let error = try_build(&factory, &short, &[("HOOK", "0xshort")]).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("0xshort"));
}

// A whole service.

async fn live(fake: &Fake, agents: u32) -> Live {
    let agent = ScriptedAgent::new(AgentScript::new().hang()).without_entries();
    Live::start_by(fake, agents, agent, &json!({ "webhook_secret": SECRET })).await
}

fn real_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn delivery(id: &str) -> (String, String) {
    let body = about("Issue", &json!({ "id": id }), real_now());
    let signature = sign(body.as_bytes(), SECRET);
    (body, signature)
}

fn deliver(handle: &Handle, id: &str) -> Result<Received, NotReceived> {
    let (body, signature) = delivery(id);
    let headers: [(&str, &[u8]); 1] = [("linear-signature", signature.as_bytes())];
    handle.deliver("linear", &Delivery::new(&headers, body.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn rule_12_8_a_delivery_starts_an_issue_for_two_requests_and_no_poll() {
    let fake = Fake::new();
    let live = live(&fake, 10).await;
    seconds(5).await;
    since(&fake);
    fake.put([FakeIssue::new(1)]);
    assert_eq!(deliver(&live.handle, "id-1").map(|received| received.is_duplicate), Ok(false));
    live.until("it runs", |s| s.running.len() == 1).await;
    // The look because of the delivery, and the one before the start.
    assert_eq!(since(&fake), [(false, 1), (false, 1)]);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_12_8_a_delivery_stops_an_agent_for_one_request() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1), FakeIssue::new(2)]);
    let live = live(&fake, 10).await;
    live.until("both run", |s| s.running.len() == 2).await;
    seconds(5).await;
    since(&fake);
    fake.move_to("id-1", "Canceled");
    deliver(&live.handle, "id-1").unwrap();
    live.until("one is stopped", |s| s.running.len() == 1).await;
    assert_eq!(since(&fake), [(false, 1)]);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_12_8_a_replayed_or_forged_delivery_asks_for_nothing() {
    let fake = Fake::new();
    let live = live(&fake, 10).await;
    seconds(5).await;
    let (body, signature) = delivery("id-1");
    let headers: [(&str, &[u8]); 1] = [("linear-signature", signature.as_bytes())];
    let delivery = Delivery::new(&headers, body.as_bytes());
    assert_eq!(
        live.handle.deliver("linear", &delivery).map(|received| received.is_duplicate),
        Ok(false)
    );
    live.until("it is read", |s| s.polling.requests_today.contains_key("delivery")).await;
    seconds(5).await;
    since(&fake);
    for _ in 0..1_000 {
        assert_eq!(
            live.handle.deliver("linear", &delivery).map(|received| received.is_duplicate),
            Ok(true)
        );
        let forged = Delivery::new(&headers, b"{}");
        let refused = live.handle.deliver("linear", &forged);
        assert_eq!(refused, Err(NotReceived::Refused(DeliveryRefused::Signature)));
    }
    assert_eq!(live.handle.deliver("memory", &delivery), Err(NotReceived::NoWebhook));
    seconds(5).await;
    assert_eq!(since(&fake), []);
    assert_eq!(live.handle.refused_deliveries(), 1_000);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_12_8_a_healthy_day_is_a_quarter_of_the_polls_and_a_lost_delivery_is_found() {
    let fake = Fake::new();
    let live = live(&fake, 10).await;
    seconds(5).await;
    deliver(&live.handle, "id-404").unwrap();
    seconds(130).await;
    since(&fake);
    seconds(1_200).await;
    assert_eq!(since(&fake), [(true, 0); 10], "every two minutes instead of every half");
    // This one has no delivery.
    fake.put([FakeIssue::new(1)]);
    live.until("a poll finds it", |s| s.running.len() == 1).await;
    live.until("and nobody relies on deliveries", |s| {
        s.polling.webhook.as_ref().is_some_and(|webhook| !webhook.healthy && webhook.missed == 1)
    })
    .await;
    since(&fake);
    seconds(310).await;
    assert_eq!(since(&fake), [(true, 1); 10]);
    live.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_another_secret_is_in_force_after_an_edit() {
    let folder = tempfile::Builder::new().prefix("linear-").tempdir().unwrap();
    let path = folder.path().join("WORKFLOW.md");
    let write = |secret: &str| {
        let text = format!(
            "---\ntracker:\n  kind: linear\n  provider:\n    api_key: {KEY}\n    \
             project_slug: abc123\n    webhook_secret: {secret}\nworkspace:\n  root: work\n\
             agent:\n  kind: scripted\n---\nDo {{{{ issue.title }}}}.\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    write("lin_wh_another_secret");
    let agent = ScriptedAgent::new(AgentScript::new()).without_entries();
    let service = Service::builder()
        .workflow(&path)
        .tracker(factory(&Fake::new()))
        .agent(ScriptedFactory::new(agent))
        .host(Arc::new(Here))
        .build()
        .await
        .unwrap();
    let handle = service.handle();
    let running = tokio::spawn(service.run());
    let refused = Err(NotReceived::Refused(DeliveryRefused::Signature));
    assert_eq!(deliver(&handle, "id-1"), refused);
    let mut settings = handle.settings_changes();
    write(SECRET);
    let edited = tokio::time::timeout(Duration::from_secs(60), settings.changed()).await;
    assert!(matches!(edited, Ok(Ok(()))), "the edit is in force");
    let taken = tokio::time::timeout(Duration::from_secs(60), async {
        while deliver(&handle, "id-1").is_err() {
            tokio::task::yield_now().await;
        }
    });
    assert!(taken.await.is_ok(), "so is its secret");
    handle.shut_down().unwrap();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_linears_delivery_comes_in_over_http() {
    let fake = Fake::new();
    let live = live(&fake, 10).await;
    live.until("the first list", |s| s.candidates.read_at.is_some()).await;
    let server = Server::bind(&Config::default()).await.unwrap();
    let address = server.address();
    let serving = tokio::spawn(server.serve(live.handle.clone()));
    fake.put([FakeIssue::new(1)]);
    let (body, signature) = delivery("id-1");
    let post = |signature: String| {
        let body = body.clone();
        async move {
            let client = reqwest::Client::new();
            let request = client.post(format!("http://{address}/webhooks/linear"));
            let request = request.header("Linear-Signature", signature);
            let reply =
                request.header("Content-Type", "application/json").body(body).send().await.unwrap();
            (reply.status().as_u16(), reply.text().await.unwrap())
        }
    };
    let (status, text) = post(sign(body.as_bytes(), "lin_wh_of_somebody_else")).await;
    assert_eq!(status, 401);
    assert!(!text.contains("0123456789abcdef") && !text.contains("id-1"), "{text}");
    let taken = r#"{"received":true,"duplicate":false}"#.to_owned();
    assert_eq!(post(signature.clone()).await, (200, taken));
    let again = r#"{"received":true,"duplicate":true}"#.to_owned();
    assert_eq!(post(signature).await, (200, again));
    live.until("it runs", |s| s.running.len() == 1).await;
    serving.abort();
    live.shut_down().await;
}
