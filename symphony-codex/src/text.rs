//! Foreign text made fit for one line.

use symphony_core::is_plain;

/// One line of at most `limit` characters: whatever breaks a line, steers a terminal or hides text
/// is a space. What an agent writes is prose, so it is shortened, where a log line shows such
/// characters by their names.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut left = limit;
    for word in text.split(|c: char| c.is_whitespace() || !is_plain(c)) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
            left = left.saturating_sub(1);
        }
        for c in word.chars() {
            if left == 0 {
                line.push('…');
                return line;
            }
            line.push(c);
            left -= 1;
        }
    }
    line
}

/// As much of a text as fits, cut between characters.
pub(crate) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[cut: the result was too long]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_breaks_and_no_escapes_and_an_end() {
        assert_eq!(one_line(" a\n\tb\u{1b}[2Jc \r\n", 100), "a b [2Jc");
        assert_eq!(one_line("a\u{202e}b\u{200b}c\u{feff}", 100), "a b c", "contract 13.1");
        assert_eq!(one_line("äöüß", 3), "äöü…");
        assert_eq!(one_line(&"x".repeat(1_000_000), 5), "xxxxx…");
    }

    #[test]
    fn a_cut_splits_no_character() {
        assert!(cut("öö".to_owned(), 3).starts_with("ö\n[cut"));
        assert_eq!(cut("öö".to_owned(), 4), "öö");
    }
}
