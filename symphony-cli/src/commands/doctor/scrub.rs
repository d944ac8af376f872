//! Text that is passed on: without what looks like a secret, wherever it comes from.

use symphony_core::redact::is_secret_name;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// How keys of well-known services begin.
const KEY_BEGINNINGS: [&str; 13] = [
    "AKIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "lin_api_",
    "lin_oauth_",
    "lin_wh_",
    "sk-",
    "xoxb-",
    "xoxp-",
];

/// Fewer characters after it make no key.
const MIN_KEY_CHARS: usize = 8;

/// Takes out of a line: values that are assigned to a name of a secret or of a variable, keys of
/// well-known services, passwords in addresses, and what follows `Bearer`.
pub(super) fn scrubbed(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut hides_next = false;
    for word in line.split_inclusive(char::is_whitespace) {
        let text = word.trim_end();
        let space = &word[text.len()..];
        if text.is_empty() {
            shown.push_str(space);
            continue;
        }
        let hidden = std::mem::take(&mut hides_next);
        let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
        let announces = ["bearer", "basic"].iter().any(|scheme| bare.eq_ignore_ascii_case(scheme));
        let names_secret = text.ends_with([':', '=']) && is_secret_name(bare);
        // After the name of a scheme comes the secret, and a list may hold another one.
        hides_next = announces || names_secret || (hidden && text.ends_with([',', '[', '{']));
        match hidden && !announces {
            true => shown.push_str(REDACTED),
            false => shown.push_str(&word_scrubbed(text)),
        }
        shown.push_str(space);
    }
    shown
}

fn word_scrubbed(word: &str) -> String {
    let mut word = without_password(word);
    for (at, _) in word.match_indices(['=', ':']).collect::<Vec<_>>() {
        let (name, value) = (&word[..at], &word[at + 1..]);
        let mut name = name.rsplit(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
        let name = name.find(|part| !part.is_empty()).unwrap_or_default();
        let is_variable = word[at..].starts_with('=') && is_variable_name(name);
        let is_value = !value.trim_matches(['"', '\'']).is_empty() && !value.starts_with("//");
        if is_value && (is_variable || is_secret_name(name)) {
            word = format!("{}{REDACTED}", &word[..=at]);
            break;
        }
    }
    without_keys(&word)
}

/// Whether a name is written as those of environment variables are.
fn is_variable_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_part)
}

/// `https://user:password@host` without what is before the `@`.
fn without_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://{REDACTED}{}", &rest[at..]),
        None => word.to_owned(),
    }
}

fn without_keys(word: &str) -> String {
    let mut word = word.to_owned();
    for beginning in KEY_BEGINNINGS {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let Some(at) = word.find(beginning) else { continue };
        let rest = &word[at + beginning.len()..];
        let length = rest.find(|c| !is_of_key(c)).unwrap_or(rest.len());
        let is_inside = word[..at].ends_with(is_of_key);
        if length >= MIN_KEY_CHARS && !is_inside {
            let end = at + beginning.len() + length;
            word.replace_range(at..end, REDACTED);
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_9_what_looks_like_a_secret_is_taken_out() {
        const SECRET: &str = "s3cr3t-0123456789";
        for line in [
            "api_key: s3cr3t-0123456789",
            "  token: \"s3cr3t-0123456789\"",
            "GITHUB_TOKEN=s3cr3t-0123456789 codex",
            "env FOO=s3cr3t-0123456789 codex",
            "authorization: Bearer s3cr3t-0123456789",
            "Authorization: Basic s3cr3t-0123456789,",
            "-H 'Authorization: Bearer s3cr3t-0123456789'",
            "git clone https://me:s3cr3t-0123456789@example.com/x.git",
            "postgres://s3cr3t-0123456789@db/x",
            "{\"password\":\"s3cr3t-0123456789\"}",
            "clientSecret=s3cr3t-0123456789",
            "--password=s3cr3t-0123456789",
            "error=denied for sk-s3cr3t-0123456789.",
            "(ghp_s3cr3t-0123456789)",
            "x lin_api_s3cr3t-0123456789",
            "tokens: [a, s3cr3t-0123456789]",
        ] {
            let shown = scrubbed(line);
            if line.starts_with("tokens:") {
                assert_eq!(shown, line, "a list of words is not called a secret");
                continue;
            }
            assert!(!shown.contains(SECRET), "{line} -> {shown}");
            assert!(shown.contains(REDACTED), "{line} -> {shown}");
        }
        for line in [
            "03:49:02 MT-1 run started issue_id=1 run=4.12 attempt=1 state=Todo",
            "tokens 1.2k (in 1k, out 200)",
            "listening on http://127.0.0.1:4000/",
            "api_key: $LINEAR_API_KEY",
            "risk-assessment of ask-me-anything",
            "  interval_ms: 30000",
        ] {
            let wanted = line.replace("$LINEAR_API_KEY", REDACTED);
            assert_eq!(scrubbed(line), wanted);
        }
    }
}
