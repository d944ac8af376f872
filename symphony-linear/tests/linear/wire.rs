//! The real HTTP client: connections, redirects, time, and where the key goes (contract 11.3).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use symphony_core::tracker::{Tracker, TrackerErrorKind};
use symphony_linear::LinearFactory;
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, FakeServer};

use crate::harness::{settings, try_build};
use crate::polls::refresh;

async fn over_http(fake: &Fake, time: Duration) -> (FakeServer, Arc<dyn Tracker>) {
    let server = FakeServer::start(fake.clone()).await.unwrap();
    let mut settings = settings(&json!({ "endpoint": server.endpoint() }));
    settings.tracker.timeout = time;
    let tracker = try_build(&LinearFactory::new(), &settings, &[]).unwrap().tracker;
    (server, tracker)
}

const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn rule_11_3_requests_share_a_connection() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let (_server, tracker) = over_http(&fake, LONG).await;
    for _ in 0..10 {
        assert!(tracker.poll(&refresh(&["id-1"])).await.by_id.is_ok());
    }
    assert_eq!((fake.requests(), fake.connections()), (10, 1));
}

#[tokio::test]
async fn rule_11_3_the_key_does_not_follow_a_redirect() {
    let (fake, elsewhere) = (Fake::new(), Fake::new());
    let thief = FakeServer::start(elsewhere.clone()).await.unwrap();
    let (_server, tracker) = over_http(&fake, LONG).await;
    for status in [301, 302, 307, 308] {
        let headers = vec![("location".to_owned(), thief.endpoint())];
        fake.fail(Some(FakeFault::Answer { status, headers, body: Vec::new() }));
        let error = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
        assert_eq!(error.kind, TrackerErrorKind::Status);
        let message = format!(
            "Linear answered HTTP {status}: a redirect, which is not followed: check \
             tracker.provider.endpoint"
        );
        assert_eq!(error.message, message);
    }
    assert_eq!((fake.requests(), elsewhere.connections()), (4, 0));
}

#[tokio::test]
async fn rule_11_2_a_server_that_hangs_is_given_up() {
    let fake = Fake::new();
    fake.fail(Some(FakeFault::Hang));
    let (_server, tracker) = over_http(&fake, Duration::from_millis(1500)).await;
    let error = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::Request);
    assert_eq!(error.message, "Linear did not answer within 1 s");
}

#[tokio::test]
async fn rule_11_2_what_goes_wrong_on_the_way_is_a_request_error_without_the_key() {
    let fake = Fake::new();
    let (server, tracker) = over_http(&fake, LONG).await;
    fake.fail(Some(FakeFault::Close));
    let closed = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
    fake.fail(Some(FakeFault::BreakOff));
    let broken = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
    assert!(broken.message.starts_with("Linear's answer broke off"), "{broken}");
    drop(server);
    let mut gone = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
    // The listener goes a moment after its task is told to.
    while gone.message.contains("broke off") {
        tokio::task::yield_now().await;
        gone = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
    }
    assert!(gone.message.starts_with("Linear cannot be reached"), "{gone}");
    for error in [closed, broken, gone] {
        assert_eq!(error.kind, TrackerErrorKind::Request);
        assert!(!format!("{error:?}").contains(symphony_linear_fake::KEY));
    }
}

#[tokio::test]
async fn rule_11_4_a_change_whose_connection_was_closed_may_have_been_made() {
    let fake = Fake::new();
    let (_server, tracker) = over_http(&fake, LONG).await;
    let tools = tracker.tools().unwrap();
    // It got there: what is lost is only the answer.
    fake.fail(Some(FakeFault::Close));
    let query = json!({ "query": "mutation { issueUpdate(id: \"id-1\", input: {}) { success } }" });
    let result = crate::tool::call(&*tools, symphony_linear::LINEAR_GRAPHQL, query).await;
    assert_eq!(fake.requests(), 1);
    assert!(result.text.contains("may have been made"), "{}", result.text);
}

#[tokio::test]
async fn rule_11_3_a_key_that_linear_does_not_know_is_refused() {
    let fake = Fake::new();
    let server = FakeServer::start(fake.clone()).await.unwrap();
    for key in ["lin_api_wrong", "lin_oauth_wrong"] {
        let settings = settings(&json!({ "endpoint": server.endpoint(), "api_key": key }));
        let tracker = try_build(&LinearFactory::new(), &settings, &[]).unwrap().tracker;
        let error = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
        assert!(error.message.starts_with("Linear refuses the API key (HTTP 401)"), "{error}");
        assert!(!format!("{error:?}").contains(key));
    }
}

/// `{"data":{"claimed":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`, packed.
const PACKED: [u8; 96] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 74, 73, 44, 73, 84, 178, 170, 86, 74, 206, 73, 204,
    204, 77, 77, 1, 49, 243, 242, 83, 82, 139, 149, 172, 162, 99, 117, 148, 10, 18, 211, 83, 61,
    243, 210, 242, 65, 194, 25, 137, 197, 126, 169, 21, 37, 1, 64, 33, 37, 171, 180, 196, 156, 226,
    84, 29, 165, 212, 188, 20, 231, 210, 162, 226, 252, 34, 37, 171, 188, 210, 156, 156, 90, 32, 0,
    0, 126, 37, 39, 97, 83, 0, 0, 0,
];

#[tokio::test]
async fn rule_11_3_packed_answers_are_read() {
    let fake = Fake::new();
    let (_server, tracker) = over_http(&fake, LONG).await;
    let headers = vec![("content-encoding".to_owned(), "gzip".to_owned())];
    fake.fail(Some(FakeFault::Answer { status: 200, headers, body: PACKED.to_vec() }));
    let polled = tracker.poll(&refresh(&["id-1"])).await;
    assert!(polled.by_id.is_ok(), "{:?}", polled.by_id);
}
