//! Every way in which Linear fails to answer: its category, and what the operator reads (11.2).

use std::time::Duration;

use symphony_core::tracker::{TrackerError, TrackerErrorKind};
use symphony_linear_fake::{Fake, FakeFault, FakeIssue};

use crate::harness::{factory, settings, try_build};
use crate::polls::{poll, refresh};

/// What a poll and a read by id say of a fault. Both must fail, in every part.
async fn told(fault: FakeFault) -> TrackerError {
    let fake = Fake::new();
    fake.put((1..=3).map(FakeIssue::new));
    let mut settings = settings(&serde_json::json!({}));
    settings.tracker.timeout = Duration::from_secs(30);
    let tracker = try_build(&factory(&fake), &settings, &[]).unwrap().tracker;
    fake.fail_next(1, fault.clone());
    let polled = tracker.poll(&poll(5, &["id-1"])).await;
    assert_eq!(polled.requests, 1);
    let error = polled.candidates.unwrap().unwrap_err();
    let by_id = polled.by_id.unwrap_err();
    assert_eq!((by_id.kind, &by_id.message), (error.kind, &error.message), "{fault:?}");
    error
}

fn is(error: &TrackerError, kind: TrackerErrorKind, message: &str) {
    assert_eq!((error.kind, error.message.as_str()), (kind, message));
    let waits = error.retry_at.is_some();
    assert_eq!(waits, kind == TrackerErrorKind::RateLimited);
}

#[tokio::test]
async fn rule_11_2_errors_with_status_200_are_a_status_error_with_linears_words() {
    let error = told(FakeFault::error(200, "INPUT_ERROR", "Argument Validation Error")).await;
    is(&error, TrackerErrorKind::Status, "Linear reports an error: Argument Validation Error");
}

#[tokio::test]
async fn rule_11_2_errors_with_status_400_are_a_status_error_with_linears_words() {
    let error = told(FakeFault::error(400, "GRAPHQL_VALIDATION_FAILED", "Unknown field")).await;
    is(&error, TrackerErrorKind::Status, "Linear answered HTTP 400: Unknown field");
}

#[tokio::test]
async fn rule_11_2_a_refused_key_says_what_to_check() {
    let code = "AUTHENTICATION_ERROR";
    for status in [401, 400, 200] {
        let error = told(FakeFault::error(status, code, "Authentication required")).await;
        let message = format!(
            "Linear refuses the API key (HTTP {status}): Authentication required; check \
             tracker.provider.api_key or LINEAR_API_KEY"
        );
        is(&error, TrackerErrorKind::Status, &message);
    }
    let error = told(FakeFault::answer(403, "")).await;
    assert!(error.message.starts_with("Linear refuses the API key (HTTP 403)"), "{error}");
}

#[tokio::test]
async fn rule_11_2_a_rate_limit_by_code_says_when_to_come_back() {
    let message = "Linear's rate limit is reached: Rate limit exceeded (Rate limit exceeded. \
                   Please try again later.)";
    let error = told(FakeFault::RateLimited { retry_after: Some(90) }).await;
    is(&error, TrackerErrorKind::RateLimited, message);
    let error = told(FakeFault::RateLimited { retry_after: None }).await;
    is(&error, TrackerErrorKind::RateLimited, message);
}

#[tokio::test]
async fn rule_11_2_a_bare_429_is_a_rate_limit() {
    let error = told(FakeFault::answer(429, "")).await;
    is(&error, TrackerErrorKind::RateLimited, "Linear's rate limit is reached");
    let error = told(FakeFault::html(429)).await;
    is(&error, TrackerErrorKind::RateLimited, "Linear's rate limit is reached");
}

#[tokio::test]
async fn rule_11_2_a_server_error_is_a_status_error() {
    let error = told(FakeFault::answer(500, "oops")).await;
    is(&error, TrackerErrorKind::Status, "Linear answered HTTP 500: its body is text, not JSON");
    let error = told(FakeFault::error(503, "INTERNAL", "down for maintenance")).await;
    is(&error, TrackerErrorKind::Status, "Linear answered HTTP 503: down for maintenance");
}

#[tokio::test]
async fn rule_11_2_html_from_a_proxy_is_told_as_such() {
    let error = told(FakeFault::html(200)).await;
    let message =
        "Linear's answer is HTML, not JSON: a proxy or a captive portal may have answered";
    is(&error, TrackerErrorKind::Response, message);
    let error = told(FakeFault::html(502)).await;
    is(&error, TrackerErrorKind::Status, "Linear answered HTTP 502: its body is HTML, not JSON");
}

#[tokio::test]
async fn rule_11_2_truncated_json_is_a_response_error() {
    let error = told(FakeFault::Truncate).await;
    assert_eq!(error.kind, TrackerErrorKind::Response);
    let begins = "Linear's answer cannot be understood: EOF while parsing";
    assert!(error.message.starts_with(begins), "{error}");
}

#[tokio::test]
async fn rule_11_2_an_answer_that_breaks_off_is_a_request_error() {
    let error = told(FakeFault::BreakOff).await;
    is(&error, TrackerErrorKind::Request, "Linear's answer broke off: cut");
}

#[tokio::test]
async fn rule_11_2_partial_data_with_errors_is_not_an_answer() {
    let error = told(FakeFault::Partial).await;
    let message = "Linear answered only in part: a part could not be read";
    is(&error, TrackerErrorKind::Response, message);
    let null = r#"{"data":{"candidates":null,"claimed":7},"errors":[{"message":"no access"}]}"#;
    let error = told(FakeFault::answer(200, null)).await;
    is(&error, TrackerErrorKind::Response, "Linear answered only in part: no access");
}

#[tokio::test]
async fn rule_11_2_missing_fields_are_a_response_error_of_the_part_they_belong_to() {
    let fake = Fake::new();
    fake.put((1..=3).map(FakeIssue::new));
    let tracker = crate::harness::tracker(&fake);
    fake.fail_next(1, FakeFault::Without("claimed".to_owned()));
    let polled = tracker.poll(&poll(5, &["id-1"])).await;
    assert_eq!(polled.candidates.unwrap().unwrap().issues.len(), 3);
    let message = "Linear's answer cannot be understood: the issues by id are missing";
    is(&polled.by_id.unwrap_err(), TrackerErrorKind::Response, message);
    fake.fail_next(1, FakeFault::Without("candidates".to_owned()));
    let polled = tracker.poll(&poll(5, &["id-1"])).await;
    assert_eq!(polled.by_id.unwrap().found.len(), 1);
    let message = "Linear's answer cannot be understood: the candidates are missing";
    is(&polled.candidates.unwrap().unwrap_err(), TrackerErrorKind::Response, message);

    let error = told(FakeFault::answer(200, "{}")).await;
    let message = "Linear's answer cannot be understood: it has neither data nor errors";
    is(&error, TrackerErrorKind::Response, message);
    let bare = r#"{"data":{"candidates":{},"claimed":{"nodes":[]}}}"#;
    let error = told(FakeFault::answer(200, bare)).await;
    assert_eq!(error.kind, TrackerErrorKind::Response);
    assert!(error.message.contains("missing field"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rule_11_2_no_answer_in_time_is_a_request_error() {
    let error = told(FakeFault::Hang).await;
    is(&error, TrackerErrorKind::Request, "Linear did not answer within 30 s");
}

#[tokio::test]
async fn rule_11_2_a_closed_connection_is_a_request_error() {
    let error = told(FakeFault::Close).await;
    is(&error, TrackerErrorKind::Request, "Linear cannot be reached: connection closed");
}

#[tokio::test]
async fn rule_11_2_pages_that_do_not_fit_together_are_told() {
    let page = |info: &str| {
        let body = format!(
            r#"{{"data":{{"candidates":{{"nodes":[],"pageInfo":{info}}},"claimed":{{"nodes":[],"pageInfo":{{"hasNextPage":false,"endCursor":null}}}},"projects":{{"nodes":[{{"name":"x","teams":null}}]}}}}}}"#
        );
        FakeFault::answer(200, &body)
    };
    let fake = Fake::new();
    let tracker = crate::harness::tracker(&fake);
    for (info, why) in [
        (r#"{"hasNextPage":true,"endCursor":null}"#, "more is said to follow, but not where"),
        (r#"{"hasNextPage":true,"endCursor":"again"}"#, "the same page follows itself"),
    ] {
        fake.fail(Some(page(info)));
        let polled = tracker.poll(&poll(5, &["id-1"])).await;
        let error = polled.candidates.unwrap().unwrap_err();
        let message = format!("Linear's pages do not fit together: {why}");
        is(&error, TrackerErrorKind::Pagination, &message);
        assert!(polled.by_id.is_ok());
    }
}

#[tokio::test]
async fn rule_11_2_a_record_of_another_sort_is_a_response_error() {
    let odd = r#"{"data":{"claimed":{"nodes":[{"id":"id-1","title":{"a":1}}],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}"#;
    let fake = Fake::new();
    fake.fail(Some(FakeFault::answer(200, odd)));
    let polled = crate::harness::tracker(&fake).poll(&refresh(&["id-1"])).await;
    assert_eq!(polled.by_id.unwrap_err().kind, TrackerErrorKind::Response);
}

#[tokio::test]
async fn rule_13_1_linears_words_are_plain_in_an_error() {
    let error = told(FakeFault::error(200, "X", "red \u{1b}[31m\nline\u{202e}")).await;
    assert_eq!(error.message, "Linear reports an error: red \\u{1b}[31m\\nline\\u{202e}");
    let error = told(FakeFault::error(200, "X", &"long ".repeat(1000))).await;
    assert!(error.message.len() < 600, "{}", error.message.len());
}
