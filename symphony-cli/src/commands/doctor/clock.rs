//! Whether the clock is right, as far as the tracker's server tells.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::DATE;
use reqwest::redirect::Policy;
use symphony_core::Settings;
use symphony_core::env::Env as _;
use symphony_core::finding::Finding;
use symphony_core::settings::env_reference;

use crate::commands::CliEnv;
use crate::local::wall_now;

/// Where Linear is, unless `tracker.provider.endpoint` says otherwise.
const LINEAR: (&str, &str) = ("linear", "https://api.linear.app/graphql");

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers tell whole seconds, and an answer takes a moment.
const MAX_SKEW_S: u64 = 5;

/// Beyond this, certificates and signed deliveries are refused.
const MAX_USABLE_SKEW_S: u64 = 60;

/// Compares the clock here with that of the tracker's server. Nothing secret is sent.
pub(super) async fn finding(settings: &Settings, offline: bool) -> Finding {
    let unchecked = |why: &str| Finding::fine("clock", format!("not checked: {why}"));
    if settings.tracker.kind != LINEAR.0 {
        return unchecked("this tracker has no server whose clock could be asked");
    }
    if offline {
        return unchecked("--offline");
    }
    let given = settings.tracker.provider.raw().get("endpoint").and_then(|url| url.as_str());
    let given = given.map(|text| match env_reference(text) {
        Some(name) => CliEnv.var(name).unwrap_or_default(),
        None => text.to_owned(),
    });
    match there(given.as_deref().unwrap_or(LINEAR.1)).await {
        Some(seconds) => judged(wall_now().as_unix_millis().div_euclid(1_000) - seconds),
        None => unchecked("the tracker's server did not tell its time"),
    }
}

/// The time of a server, in seconds since 1970.
async fn there(url: &str) -> Option<i64> {
    let client = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).redirect(Policy::none());
    let answer = client.build().ok()?.head(url).send().await.ok()?;
    let date = answer.headers().get(DATE)?.to_str().ok()?;
    Some(DateTimeParser::new().parse_timestamp(date).ok()?.as_second())
}

/// By how many seconds the clock here is ahead.
fn judged(ahead: i64) -> Finding {
    let skew = ahead.unsigned_abs();
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    let text = format!("is {skew} s {side} the tracker's; set it by NTP");
    if skew <= MAX_SKEW_S {
        Finding::fine("clock", "agrees with the tracker's")
    } else if skew <= MAX_USABLE_SKEW_S {
        Finding::doubtful("clock", text)
    } else {
        Finding::wrong("clock", text)
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::finding::Severity;

    use super::*;

    #[test]
    fn rule_14_9_a_clock_that_is_wrong_is_told() {
        for (ahead, wanted) in [
            (0, Severity::Fine),
            (-5, Severity::Fine),
            (6, Severity::Doubtful),
            (-60, Severity::Doubtful),
            (61, Severity::Wrong),
            (i64::MIN, Severity::Wrong),
        ] {
            assert_eq!(judged(ahead).severity, wanted, "{ahead}");
        }
        assert_eq!(judged(-9).text, "is 9 s behind the tracker's; set it by NTP");
    }
}
