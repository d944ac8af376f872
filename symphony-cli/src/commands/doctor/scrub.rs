//! Text that is passed on: without what looks like a secret, wherever it comes from.

use symphony_core::redact::is_secret_name;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// How keys of well-known services begin.
const KEY_BEGINNINGS: [&str; 24] = [
    "AIza",
    "AKIA",
    "ASIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "lin_api_",
    "lin_oauth_",
    "lin_wh_",
    "npm_",
    "pypi-",
    "rk_live_",
    "sk-",
    "sk_live_",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
];

/// Fewer characters after it make no key.
const MIN_KEY_CHARS: usize = 8;

/// Words after which a secret comes, wherever they stand.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Headers whose secret has several words.
const HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Where a private key begins and ends, in a line or over several.
const PRIVATE_KEY: (&str, &str) = ("PRIVATE KEY-----", "-----END ");

/// Takes secrets out of lines: values that are assigned to a name of a secret or of a variable, keys
/// of well-known services, private keys, passwords in addresses, and what follows `Bearer`.
pub(super) fn scrubbed(lines: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut is_in_key = false;
    lines.map(move |line| {
        let line = without_private_key(&line, &mut is_in_key);
        let (mut shown, mut hidden) = (String::with_capacity(line.len()), Hidden::Nothing);
        let mut before = "";
        for word in line.split_inclusive(char::is_whitespace) {
            let text = word.trim_end();
            if !text.is_empty() {
                let (shown_text, then) = hidden.next(before, text);
                shown.push_str(&shown_text);
                (hidden, before) = (then, bare(text));
            }
            shown.push_str(&word[text.len()..]);
        }
        shown
    })
}

/// What of the next words is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// The next word, if a sign of assignment comes before it.
    Assigned,
    Word,
    /// Up to the end of a quoted text.
    Until(char),
    Rest,
}

impl Hidden {
    /// Returns what is shown of a word that comes after another one, and what is hidden after it.
    fn next(self, before: &str, word: &str) -> (String, Self) {
        let redacted = REDACTED.to_owned();
        match self {
            Self::Rest => (redacted, Self::Rest),
            Self::Until(quote) if word.contains(quote) => (redacted, Self::Nothing),
            Self::Until(_) => (redacted, self),
            Self::Word if is_scheme(word) || bare(word).eq_ignore_ascii_case("token") => {
                (word.to_owned(), Self::Word)
            }
            // A list may hold another one.
            Self::Word if word.ends_with([',', '[', '{']) => (redacted, Self::Word),
            Self::Word => (redacted, Self::after_value(word)),
            Self::Assigned if matches!(word, "=" | ":" | ":=" | "=>") => {
                (word.to_owned(), Self::Word)
            }
            Self::Assigned | Self::Nothing => Self::unless_named(before, word),
        }
    }

    /// The same for a word before which nothing is named.
    fn unless_named(before: &str, word: &str) -> (String, Self) {
        let (shown, after) = word_scrubbed(word);
        let name = bare(word);
        let is_assigned = word.ends_with([':', '=']);
        // `API key: ...`
        let is_named =
            is_secret_name(name) || is_assigned && is_secret_name(&format!("{before}{name}"));
        let then = match after {
            Some(after) => after,
            None if is_scheme(word) => Self::Word,
            None if !is_named => Self::Nothing,
            None if is_assigned && is_header(name) => Self::Rest,
            None if is_assigned || word.starts_with('-') => Self::Word,
            None => Self::Assigned,
        };
        (shown, then)
    }

    /// What is hidden after the first word of a value.
    fn after_value(value: &str) -> Self {
        let value = value.trim_start_matches('\\');
        match value.chars().next().filter(|first| "\"'".contains(*first)) {
            Some(quote) if !value[1..].contains(quote) => Self::Until(quote),
            _ => Self::Nothing,
        }
    }
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| bare(word).eq_ignore_ascii_case(scheme))
}

fn is_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HEADERS.iter().any(|header| name.ends_with(header))
}

/// Hides a private key, which may go on in the next line.
fn without_private_key(line: &str, is_in_key: &mut bool) -> String {
    let begin = match (*is_in_key, line.find(PRIVATE_KEY.0)) {
        (true, _) => 0,
        // The mark of the end is not one of a beginning.
        (false, Some(at)) if !line[..at].contains(PRIVATE_KEY.1) => at + PRIVATE_KEY.0.len(),
        (false, _) => return line.to_owned(),
    };
    let end = line[begin..].find(PRIVATE_KEY.1).map(|at| begin + at);
    *is_in_key = end.is_none();
    format!("{}{REDACTED}{}", &line[..begin], &line[end.unwrap_or(line.len())..])
}

/// Returns a word without secrets, and what is hidden after it if a value begins in it.
fn word_scrubbed(word: &str) -> (String, Option<Hidden>) {
    let mut word = without_passwords(word);
    let mut then = None;
    for (at, _) in word.match_indices(['=', ':']).collect::<Vec<_>>() {
        let (name, value) = (&word[..at], &word[at + 1..]);
        let mut name = name.rsplit(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
        let name = name.find(|part| !part.is_empty()).unwrap_or_default();
        let is_variable = word[at..].starts_with('=') && is_variable_name(name);
        let is_value = !value.trim_matches(['"', '\'']).is_empty() && !value.starts_with("//");
        if is_value && (is_variable || is_secret_name(name)) {
            then = Some(match Hidden::after_value(value) {
                Hidden::Nothing if is_scheme(value) => Hidden::Word,
                Hidden::Nothing if is_header(name) => Hidden::Rest,
                then => then,
            });
            word = format!("{}{REDACTED}", &word[..=at]);
            break;
        }
    }
    (without_keys(&word), then)
}

/// Whether a name is written as those of environment variables are.
fn is_variable_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_part)
}

/// `https://user:password@host` without what is before the `@`, as often as there is one.
fn without_passwords(word: &str) -> String {
    let mut parts = word.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        shown.push_str("://");
        match rest[..authority].rfind('@') {
            Some(at) => shown.extend([REDACTED, &rest[at..]]),
            None => shown.push_str(rest),
        }
    }
    shown
}

fn without_keys(word: &str) -> String {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut word = word.to_owned();
    for beginning in KEY_BEGINNINGS {
        let mut from = 0;
        while let Some(at) = word[from..].find(beginning).map(|at| from + at) {
            let rest = &word[at + beginning.len()..];
            let length = rest.find(|c| !is_of_key(c)).unwrap_or(rest.len());
            let is_inside = word[..at].ends_with(is_of_key);
            from = at + beginning.len();
            if length >= MIN_KEY_CHARS && !is_inside {
                word.replace_range(at..from + length, REDACTED);
                from = at + REDACTED.len();
            }
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_line(line: &str) -> String {
        scrubbed(std::iter::once(line.to_owned())).next().unwrap()
    }

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
            "command: my-agent --token s3cr3t-0123456789 serve",
            "--api-key 's3cr3t-0123456789 and more'",
            "token = s3cr3t-0123456789",
            "\"api_key\" : \"s3cr3t-0123456789\"",
            "password=\"two s3cr3t-0123456789 words\" user=me",
            "{\"authorization\":\"Basic s3cr3t-0123456789\",\"a\":1}",
            "{\\\"password\\\":\\\"two s3cr3t-0123456789\\\"}",
            "authorization=Custom s3cr3t-0123456789",
            "Authorization: token s3cr3t-0123456789",
            "wrong API key: s3cr3t-0123456789",
            "Cookie: a=1; session=2, s3cr3t-0123456789",
            "ask-me,sk-aaaaaaaaa,sk-s3cr3t-0123456789",
            "http://x/,https://me:s3cr3t-0123456789@x/",
            "-----BEGIN PRIVATE KEY-----\\ns3cr3t-0123456789",
        ] {
            let shown = of_line(line);
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
            assert_eq!(of_line(line), wanted);
        }
    }

    #[test]
    fn rule_14_9_a_private_key_over_several_lines_is_taken_out() {
        let lines = [
            "a",
            "b -----BEGIN EC PRIVATE KEY-----",
            "MIIE",
            "x",
            "-----END EC PRIVATE KEY-----",
            "c",
        ];
        let shown: Vec<String> = scrubbed(lines.into_iter().map(str::to_owned)).collect();
        let begin = "b -----BEGIN EC PRIVATE KEY-----[redacted]";
        let end = "[redacted]-----END EC PRIVATE KEY-----";
        assert_eq!(shown, ["a", begin, REDACTED, REDACTED, end, "c"]);
    }
}
