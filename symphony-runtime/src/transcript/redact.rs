//! Takes secrets out of what is kept: values that are known, and values that are called secret.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use symphony_core::Settings;
use symphony_core::env::Env;
use symphony_core::settings::env_reference;

/// What stands in the place of a secret.
const MARK: &str = "[redacted]";

/// A shorter value is not looked for: it would be found everywhere.
const SHORTEST: usize = 8;

/// What members of JSON objects are called whose text is nobody's business: in lower case, without
/// what joins words.
const SECRET: [&str; 15] = [
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

/// The longest of those names as it may be written, with what joins its words.
const LONGEST_NAME: usize = 20;

/// The secrets that a run could come by. It prints none.
#[derive(Default)]
pub(crate) struct Secrets(Vec<SecretString>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of these variables, and those that stand in the settings themselves.
    pub(crate) fn of(settings: &Settings, names: &[String], env: &dyn Env) -> Self {
        let provider = settings.tracker.provider.raw().iter();
        let written = provider.filter(|(name, _)| is_secret(name.as_bytes()));
        let written = written.filter_map(|(_, value)| value.as_str());
        let written = written.chain(settings.server.token.as_deref());
        let written = written.filter(|text| env_reference(text).is_none()).map(str::to_owned);
        let values = names.iter().filter_map(|name| env.var(name)).chain(written);
        let values = values.map(|value| value.trim().to_owned());
        let long_enough = values.filter(|value| value.chars().count() >= SHORTEST);
        let mut secrets: Vec<String> = long_enough.collect();
        // One may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets.into_iter().map(SecretString::from).collect())
    }

    /// The text without them. JSON stays JSON.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = without_secret_members(text);
        for secret in &self.0 {
            if let Some(redacted) = without(&text, secret.expose_secret()) {
                text = redacted;
            }
        }
        text
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
                redacted.push_str(MARK);
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
            redacted.push_str(MARK);
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
    let before = bytes[..name_end].iter().rev().take(LONGEST_NAME).take_while(|b| is_of_name(b));
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
    let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let name: Vec<u8> = letters.map(u8::to_ascii_lowercase).collect();
    SECRET.iter().any(|secret| secret.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use symphony_core::StateSet;
    use symphony_core::settings::Provider;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets(values.iter().map(|value| SecretString::from(*value)).collect())
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
            assert_eq!(shown.matches(MARK).count(), 2, "{spelled}: {shown}");
            assert!(!shown.contains("lin") && !shown.contains('y'), "{spelled}: {shown}");
        }
        let other = r"lin\/x \u006cin\/\ lin";
        assert_eq!(secrets(&[secret]).redact(other), other);
    }

    #[test]
    fn rule_13_1_members_that_are_called_secret_lose_their_text_at_any_depth() {
        let told = |text: &str| Secrets::default().redact(text);
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
        let states = StateSet::new(["Todo"]);
        let mut settings = Settings::new("linear", states.clone(), states, "/tmp".into());
        let provider =
            serde_json::json!({"api_key": "in the file", "project_slug": "not a secret"});
        settings.tracker.provider = Provider::new(provider.as_object().unwrap().clone());
        settings.server.token = Some("$TOKEN".to_owned());
        let env = [("KEY", "lin_api_0123"), ("SHORT", "1234567"), ("TOKEN", " a-long-token\n")];
        let env: BTreeMap<String, String> =
            env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let names = ["KEY", "SHORT", "TOKEN", "UNSET"].map(str::to_owned);
        let secrets = Secrets::of(&settings, &names, &env);
        let shown = secrets.redact("lin_api_0123 1234567 a-long-token in the file not a secret");
        assert_eq!(shown, "[redacted] 1234567 [redacted] [redacted] not a secret");
        assert_eq!(format!("{secrets:?}"), "Secrets(3)");
    }
}
