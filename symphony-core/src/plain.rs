//! Foreign text, made safe for a line that people read (contract 13.1).

use std::fmt::Write as _;

use crate::text::is_plain;

/// The text on one line, without anything that moves a cursor or turns the reading direction, cut
/// to about this many bytes. Of a longer text the end is kept: that is where errors are.
#[must_use]
pub fn plain(text: &str, limit: usize) -> String {
    let cut = text.len().saturating_sub(limit);
    let start = (cut..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let mut line = String::with_capacity(text.len() - start);
    if start > 0 {
        line.push('…');
    }
    push(&mut line, text[start..].trim_end());
    line
}

/// The same, but of a longer text the beginning is kept: that is where a title says what it is about.
#[must_use]
pub fn plain_start(text: &str, limit: usize) -> String {
    let end = (0..=limit.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    let start = &text[..end.unwrap_or(0)];
    let mut line = String::with_capacity(start.len());
    push(&mut line, start.trim_end());
    if start.len() < text.len() {
        line.push('…');
    }
    line
}

fn push(line: &mut String, text: &str) {
    for c in text.chars() {
        if is_plain(c) {
            line.push(c);
        } else {
            let _ = write!(line, "{}", c.escape_default());
        }
    }
}

/// The same for JSON: whatever steers a screen is spelled out as JSON spells it, and what the text
/// means stays as it is.
///
/// ```
/// let line = symphony_core::plain_json("{\"a\":\t\"\u{202e}\"}");
/// assert_eq!(line, r#"{"a": "\u202e"}"#);
/// ```
#[must_use]
pub fn plain_json(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Within a string of JSON they cannot be.
            '\t' | '\n' | '\r' => line.push(' '),
            c if is_plain(c) => line.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_1_escapes_controls_and_bidirectional_marks_do_not_reach_a_log() {
        let foreign = "a\u{1b}[2Jb\nc\u{202e}d\u{9b}e\u{200b}";
        let line = plain(foreign, 100);
        assert_eq!(line, "a\\u{1b}[2Jb\\nc\\u{202e}d\\u{9b}e\\u{200b}");
        assert!(plain("Ünïcödé is fine", 100) == "Ünïcödé is fine");
    }

    #[test]
    fn rule_13_1_invisible_characters_are_written_out() {
        for hidden in ['\u{ad}', '\u{180e}', '\u{2060}', '\u{fffa}', '\u{e0041}'] {
            let written = format!("a{}b", hidden.escape_unicode());
            assert_eq!(plain(&format!("a{hidden}b"), 100), written);
        }
        assert_eq!(
            plain("❤\u{fe0f} e\u{301}", 100),
            "❤\u{fe0f} e\u{301}",
            "what changes a character"
        );
    }

    #[test]
    fn the_end_of_a_long_text_is_kept_and_no_character_is_split() {
        assert_eq!(plain("ööö", 3), "…ö");
        assert_eq!(plain("abc", 3), "abc");
        assert_eq!(plain("", 0), "");
    }

    #[test]
    fn the_beginning_of_a_long_title_is_kept_and_no_character_is_split() {
        assert_eq!(plain_start("ööö", 3), "ö…");
        assert_eq!(plain_start("abc\u{1b}", 4), "abc\\u{1b}");
        assert_eq!(plain_start("abc", 3), "abc");
        assert_eq!(plain_start("abc", 0), "…");
    }
}
