//! `tracker.provider` of a workflow file (contract 2.4, 2.5, 2.9, 11.3).

use serde_json::json;
use symphony_core::tracker::TrackerErrorKind;
use symphony_linear::LinearFactory;
use symphony_linear_fake::Fake;

use crate::harness::{self, settings, try_build};

/// One that makes no connection: a machine without certificates can run these tests too.
fn factory() -> LinearFactory {
    harness::factory(&Fake::new())
}

fn problem(provider: &serde_json::Value, env: &[(&str, &str)]) -> (TrackerErrorKind, String) {
    let built = try_build(&factory(), &settings(provider), env);
    let error = built.unwrap_err();
    (error.kind, error.message)
}

#[test]
fn rule_11_3_the_key_comes_from_the_file_or_its_variable_or_linear_api_key() {
    let env = [("LINEAR_API_KEY", "lin_api_a"), ("OTHER", " lin_api_b ")];
    for (api_key, secrets) in [
        (json!(null), vec!["LINEAR_API_KEY"]),
        (json!(""), vec!["LINEAR_API_KEY"]),
        (json!("$OTHER"), vec!["LINEAR_API_KEY", "OTHER"]),
        (json!("${OTHER}"), vec!["LINEAR_API_KEY", "OTHER"]),
        (json!("lin_api_c"), vec!["LINEAR_API_KEY"]),
    ] {
        let settings = settings(&json!({ "api_key": api_key }));
        let built = try_build(&factory(), &settings, &env).unwrap();
        assert_eq!(built.secret_names, secrets, "{api_key}");
    }
}

#[test]
fn rule_11_2_a_missing_key_is_a_missing_secret_that_names_its_variable() {
    for (api_key, name) in [(json!(null), "LINEAR_API_KEY"), (json!("$OTHER"), "OTHER")] {
        let env = [("LINEAR_API_KEY", "  ")];
        let (kind, message) = problem(&json!({ "api_key": api_key }), &env);
        assert_eq!(kind, TrackerErrorKind::MissingSecret);
        let begins =
            format!("tracker.provider.api_key: the environment variable {name} is not set");
        assert!(message.starts_with(&begins), "{message}");
    }
}

#[test]
fn rule_11_2_settings_that_cannot_work_are_refused_by_their_path() {
    let env = [("LINEAR_API_KEY", "lin_api_a")];
    for (provider, words) in [
        (json!({ "project_slug": null }), "tracker.provider.project_slug: is missing"),
        (json!({ "project_slug": ["x"] }), "tracker.provider.project_slug: must be a text"),
        (json!({ "project_slug": "$NOPE" }), "tracker.provider.project_slug: the environment"),
        (json!({ "tool": "maybe" }), "tracker.provider.tool: must be read_write, read_only or off"),
        (json!({ "endpoint": "no address" }), "tracker.provider.endpoint: must be the address"),
        (json!({ "endpoint": "http://linear.example" }), "tracker.provider.endpoint: must begin"),
        (json!({ "endpoint": "ftp://127.0.0.1" }), "tracker.provider.endpoint: must begin"),
        (json!({ "endpoint": "http://127.0.0.1.evil.example" }), "tracker.provider.endpoint: must"),
        (
            json!({ "endpoint": "https://a:b@linear.example" }),
            "tracker.provider.endpoint: must have",
        ),
        (json!({ "api_key": "two\nlines" }), "tracker.provider.api_key: has characters"),
        (json!({ "api_key": 7 }), "tracker.provider.api_key: must be a text"),
        (json!({ "webhook_secret": 7 }), "tracker.provider.webhook_secret: must be a text"),
        (json!({ "webhook_secret": "short" }), "tracker.provider.webhook_secret: is too short"),
    ] {
        let (kind, message) = problem(&provider, &env);
        assert_eq!(kind, TrackerErrorKind::InvalidConfig, "{message}");
        assert!(message.starts_with(words), "{message}");
    }
}

#[test]
fn rule_11_3_an_endpoint_on_this_machine_needs_no_tls() {
    for endpoint in ["http://localhost:1/graphql", "http://127.0.0.1:1/", "http://[::1]:1/"] {
        let settings = settings(&json!({ "endpoint": endpoint }));
        assert!(try_build(&LinearFactory::new(), &settings, &[]).is_ok(), "{endpoint}");
    }
}

#[test]
fn rule_2_9_the_key_is_in_nothing_that_prints() {
    let key = "lin_api_very_secret";
    let settings = settings(&json!({ "api_key": "$KEY", "endpoint": "http://127.0.0.1:1/" }));
    let factory = LinearFactory::new();
    let built = try_build(&factory, &settings, &[("KEY", key)]).unwrap();
    let printed = format!("{built:?} {factory:?} {:?} {:?}", built.tracker.tools(), settings);
    assert!(!printed.contains("very_secret"), "{printed}");
    let odd = harness::settings(&json!({ "api_key": "lin_api_\u{7}very_secret" }));
    let error = try_build(&factory, &odd, &[]).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("very_secret"));
}

#[test]
fn rule_6_5_the_scope_names_project_team_and_another_endpoint() {
    let scope = |provider| {
        let settings = settings(&provider);
        try_build(&factory(), &settings, &[]).unwrap().scope.to_string()
    };
    assert_eq!(scope(json!({})), "linear project:abc123");
    assert_eq!(scope(json!({ "team_key": "MT" })), "linear project:abc123 team:MT");
    assert_eq!(
        scope(json!({ "endpoint": "http://localhost:1/x" })),
        "linear project:abc123 at http://localhost:1/x"
    );
}
