//! Takes secrets out of text: values that are known, and, where text is kept, values that are
//! called secret.

use std::borrow::Cow;
use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

use crate::env::Env;
use crate::settings::{Provider, env_reference};

/// What stands in the place of a secret.
const REPLACEMENT: &str = "[redacted]";

/// A shorter value is not looked for: it would be found everywhere.
const MIN_SECRET_CHARS: usize = 8;

/// The names of JSON members whose text is secret: in lower case, without what joins words.
const SECRET_NAMES: [&str; 15] = [
    "accesstoken",
    "apikey",
    "authorization",
    "authtoken",
    "bearertoken",
    "clientsecret",
    "cookie",
    "idtoken",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "setcookie",
    "token",
];

/// How the name of a setting ends whose value may be a secret, in the same spelling.
const SECRET_ENDINGS: [&str; 14] = [
    "accesskey",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "signingkey",
    "token",
];

/// The longest of those names as it may be written, with what joins its words.
const MAX_NAME_BYTES: usize = 20;

/// Secret values, to be taken out of text. It prints none.
///
/// ```
/// use symphony_core::redact::Redactor;
///
/// let redactor = Redactor::new(["lin_api_0123456789".to_owned()]);
/// assert_eq!(redactor.clean("denied for lin_api_0123456789"), "denied for [redacted]");
/// ```
#[derive(Clone, Default)]
pub struct Redactor(Vec<SecretString>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({})", self.0.len())
    }
}

impl Redactor {
    /// A redactor of these values, without the space around them. Short ones are not looked for.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let values = values.into_iter().map(|value| value.trim().to_owned());
        let long_enough = values.filter(|value| value.chars().count() >= MIN_SECRET_CHARS);
        let mut secrets: Vec<String> = long_enough.collect();
        // One may be a part of another.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self(secrets.into_iter().map(SecretString::from).collect())
    }

    /// The secrets of a tracker: the values of these variables, and of the keys of
    /// `tracker.provider` that the adapter declares as secret or that are called so.
    #[must_use]
    pub fn of_tracker(
        provider: &Provider,
        secret_keys: &[&str],
        secret_names: &[String],
        env: &dyn Env,
    ) -> Self {
        let entries = provider.raw().iter();
        let is_secret = |name: &str| secret_keys.contains(&name) || is_secret_name(name);
        let texts = entries.filter(|(name, _)| is_secret(name)).filter_map(|(_, v)| v.as_str());
        let written = texts.filter_map(|text| match env_reference(text) {
            Some(name) => env.var(name),
            None => Some(text.to_owned()),
        });
        Self::new(written.chain(secret_names.iter().filter_map(|name| env.var(name))))
    }

    /// Adds values to be redacted.
    #[must_use]
    pub fn with_values(self, more: impl IntoIterator<Item = String>) -> Self {
        let known = self.0.iter().map(|secret| secret.expose_secret().to_owned());
        Self::new(known.chain(more))
    }

    /// The text without the values, however JSON may have spelled them. Text without one is not
    /// copied.
    #[must_use]
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.0 {
            let secret = secret.expose_secret();
            // Where nothing is escaped there is one spelling, and looking for that is quick.
            let may_hold = text.contains('\\') || text.contains(secret);
            if let Some(redacted) = may_hold.then(|| without(&text, secret)).flatten() {
                text = Cow::Owned(redacted);
            }
        }
        text
    }

    /// The text without the values, and without what members of JSON objects hold that are called
    /// secret. JSON stays JSON.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.clean(&without_secret_members(text)).into_owned()
    }
}

/// The text without a value, however JSON may have spelled it; `None` where it is not in it.
fn without(text: &str, secret: &str) -> Option<String> {
    let first = secret.chars().next()?;
    let mut redacted: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        // Where it can begin: with its first letter, or with an escape of it.
        let Some(next) = rest.find([first, '\\']) else { break };
        at += next;
        match end_of(text, at, secret) {
            Some(end) => {
                let redacted = redacted.get_or_insert_default();
                redacted.push_str(&text[copied..at]);
                redacted.push_str(REPLACEMENT);
                (copied, at) = (end, end);
            }
            // A row of backslashes is looked at once.
            None if text[at..].starts_with('\\') => {
                at = text.len() - text[at..].trim_start_matches('\\').len();
            }
            None => at += first.len_utf8(),
        }
    }
    let mut redacted = redacted?;
    redacted.push_str(&text[copied..]);
    Some(redacted)
}

/// Where a secret ends that begins here.
fn end_of(text: &str, mut at: usize, secret: &str) -> Option<usize> {
    for (index, wanted) in secret.char_indices() {
        let length = length_of(&text[at..], wanted)?;
        if wanted == '\\' && text.as_bytes()[at + length - 1] == b'\\' {
            // The last of them may belong to an escape of what follows.
            let rest = &secret[index + 1..];
            let own = [0, 1, 3, 7].into_iter().filter_map(|others| length.checked_sub(others));
            return own.filter(|own| *own > 0).find_map(|own| end_of(text, at + own, rest));
        }
        at += length;
    }
    Some(at)
}

/// How many bytes at the beginning of a text spell this character: the character itself, or an
/// escape of it. JSON within JSON has more backslashes, so any number will do.
fn length_of(text: &str, wanted: char) -> Option<usize> {
    let rest = text.trim_start_matches('\\');
    let backslashes = text.len() - rest.len();
    if backslashes == 0 {
        return rest.starts_with(wanted).then(|| wanted.len_utf8());
    }
    let escaped = match wanted {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        other => other,
    };
    match by_number(text, wanted) {
        Some(length) => Some(length),
        None if wanted == '\\' => Some(backslashes),
        None => rest.starts_with(escaped).then(|| backslashes + escaped.len_utf8()),
    }
}

/// The same for an escape that is the character's number, once or in two halves.
fn by_number(text: &str, wanted: char) -> Option<usize> {
    let mut rest = text;
    for unit in wanted.encode_utf16(&mut [0; 2]) {
        let number = rest.trim_start_matches('\\').strip_prefix('u')?;
        let (digits, more) = number.split_at_checked(4)?;
        if u16::from_str_radix(digits, 16).ok()? != *unit {
            return None;
        }
        rest = more;
    }
    Some(text.len() - rest.len())
}

/// The text without what members of JSON objects hold that are called secret, also in JSON that is
/// written within a string.
fn without_secret_members(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut redacted = String::new();
    let mut copied = 0;
    let colons = text.match_indices(':').map(|(at, _)| at);
    for colon in colons {
        if colon < copied {
            continue; // within what was taken out
        }
        if let Some((begin, end)) = secret_around(bytes, colon) {
            redacted.push_str(&text[copied..begin]);
            redacted.push_str(REPLACEMENT);
            copied = end;
        }
    }
    redacted.push_str(&text[copied..]);
    redacted
}

/// Where the text of a secret member begins and ends, if this colon stands before one.
fn secret_around(bytes: &[u8], colon: usize) -> Option<(usize, usize)> {
    let quote = bytes[..colon].iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    if bytes[quote] != b'"' {
        return None;
    }
    let depth = backslashes_before(bytes, quote);
    let name_end = quote - depth;
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let before = bytes[..name_end].iter().rev().take(MAX_NAME_BYTES).take_while(|b| is_of_name(b));
    let name = &bytes[name_end - before.count()..name_end];
    if !is_secret(name) || !bytes[..name_end - name.len()].ends_with(b"\"") {
        return None;
    }
    let value = colon + 1 + bytes[colon + 1..].iter().position(|b| !b.is_ascii_whitespace())?;
    let escapes = bytes[value..].iter().take_while(|byte| **byte == b'\\').count();
    if escapes != depth || bytes.get(value + depth) != Some(&b'"') {
        return None;
    }
    let begin = value + depth + 1;
    // Each level of JSON within JSON doubles the backslashes and adds one for the quote.
    let is_end = |at: &usize| {
        bytes[*at] == b'"' && backslashes_before(bytes, *at) % (2 * (depth + 1)) == depth
    };
    // One that was cut off has no end.
    let end = (begin..bytes.len()).find(is_end).map_or(bytes.len(), |at| at - depth);
    Some((begin, end.max(begin)))
}

fn backslashes_before(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count()
}

fn is_secret(name: &[u8]) -> bool {
    let name = folded(name);
    SECRET_NAMES.iter().any(|secret| secret.as_bytes() == name)
}

/// Whether a setting of this name may hold a secret: `api_key`, `apiKey`, `GITHUB_TOKEN`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = folded(name.as_bytes());
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// A name in lower case, without what joins its words.
fn folded(name: &[u8]) -> Vec<u8> {
    let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    letters.map(u8::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn secrets(values: &[&str]) -> Redactor {
        Redactor::new(values.iter().map(|value| (*value).to_owned()))
    }

    #[test]
    fn rule_13_1_a_value_is_taken_out_however_json_spells_it() {
        let secret = "lin/\"k€y\\🦀";
        let once = serde_json::to_string(secret).unwrap();
        let twice = serde_json::to_string(&once).unwrap();
        let thrice = serde_json::to_string(&twice).unwrap();
        let ascii: String =
            secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect::<String>();
        let nested = ascii.replace('\\', "\\\\");
        for spelled in [
            secret,
            &once,
            &twice,
            &thrice,
            &ascii,
            &nested,
            "lin\\/\\\"k\\u20acy\\\\\\ud83e\\udd80",
        ] {
            let shown = secrets(&[secret]).redact(&format!("a {spelled} b{spelled}"));
            assert_eq!(shown.matches(REPLACEMENT).count(), 2, "{spelled}: {shown}");
            assert!(!shown.contains("lin") && !shown.contains('y'), "{spelled}: {shown}");
        }
        let other = r"lin\/x \u006cin\/\ lin";
        assert_eq!(secrets(&[secret]).redact(other), other);
    }

    #[test]
    fn rule_13_1_members_that_are_called_secret_lose_their_text_at_any_depth() {
        let told = |text: &str| Redactor::default().redact(text);
        let json = r#"{"accessToken":"a\"b\\","api_key" : "c","n":{"Authorization":"Bearer x"}}"#;
        let clean = r#"{"accessToken":"[redacted]","api_key" : "[redacted]","n":{"Authorization":"[redacted]"}}"#;
        assert_eq!(told(json), clean);
        let (mut json, mut clean) = (json.to_owned(), clean.to_owned());
        for _ in 0..3 {
            json = serde_json::to_string(&json).unwrap();
            clean = serde_json::to_string(&clean).unwrap();
            assert_eq!(told(&json), clean);
        }
        assert_eq!(told(r#"{"token":"begun and never end"#), r#"{"token":"[redacted]"#);
        for open in [
            r#"{"tokenUsage":{"total":7},"token":7,"text":"the token: \"x\"","a_token_of_ours":"x"}"#,
            r#"warning: "password" is: "weak""#,
            "::\":\":",
        ] {
            assert_eq!(told(open), open);
        }
    }

    #[test]
    fn rule_13_1_what_is_secret_comes_from_the_environment_and_the_file() {
        let provider = serde_json::json!({
            "api_key": "in the file", "apiKey": "odd spelling", "project_slug": "not a secret",
            "signed_with": "$SIGNED", "webhook_secret": "${HOOK}",
        });
        let provider = Provider::new(provider.as_object().unwrap().clone());
        let env = [
            ("KEY", "lin_api_0123"),
            ("SHORT", "1234567"),
            ("SIGNED", " a-long-secret\n"),
            ("HOOK", "lin_wh_0123"),
        ];
        let env: BTreeMap<String, String> =
            env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let names = ["KEY", "SHORT", "UNSET"].map(str::to_owned);
        let redactor = Redactor::of_tracker(&provider, &["signed_with"], &names, &env);
        let text = "lin_api_0123 1234567 a-long-secret in the file odd spelling lin_wh_0123 \
                    not a secret";
        let clean = "[redacted] 1234567 [redacted] [redacted] [redacted] [redacted] not a secret";
        assert_eq!(redactor.clean(text), clean);
        assert_eq!(format!("{redactor:?}"), "Redactor(5)");
        let more = redactor.with_values(["another one".to_owned()]);
        assert_eq!(more.clean("another one, lin_api_0123"), "[redacted], [redacted]");
    }

    #[test]
    fn rule_11_7_text_without_a_secret_is_not_copied() {
        let redactor = secrets(&["lin_api_0123", "another one"]);
        for text in ["", "plain", r"lin_api_ \n \\ lin_api_012", &"l".repeat(100_000)] {
            assert!(matches!(redactor.clean(text), Cow::Borrowed(_)), "{text}");
        }
        // What members of objects are called is not looked at: an issue may well speak of tokens.
        let json = r#"{"token": "of an example"}"#;
        assert_eq!(redactor.clean(json), json);
    }

    #[test]
    fn rule_2_2_settings_are_called_secret_in_any_spelling() {
        for name in [
            "api_key",
            "apiKey",
            "API-KEY",
            "LINEAR_API_KEY",
            "token",
            "githubToken",
            "secret",
            "webhook_secret",
            "password",
            "Authorization",
            "client_credentials",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["project_slug", "team_key", "max_tokens", "tokenizer", "kind", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
