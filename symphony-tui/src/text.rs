//! Text in cells: what fits, and how long, how many, when.

use ratatui::style::Style;
use ratatui::text::Span;
use symphony_core::time::Wall;

/// How many cells a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// As much of a text as fits, by whole characters, with a mark where something is missing.
#[must_use]
pub fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let more = width(grapheme.symbol);
        if used + more + 1 > cells {
            break;
        }
        out.push_str(grapheme.symbol);
        used += more;
    }
    if cells > 0 {
        out.push('…');
    }
    out
}

/// The same, and as many cells as told, neither more nor fewer.
#[must_use]
pub fn fit(text: &str, cells: usize) -> String {
    let mut out = cut(text, cells);
    let missing = cells.saturating_sub(width(&out));
    out.extend(std::iter::repeat_n(' ', missing));
    out
}

/// The same with the text at the right.
#[must_use]
pub fn fit_right(text: &str, cells: usize) -> String {
    let out = cut(text, cells);
    let missing = cells.saturating_sub(width(&out));
    " ".repeat(missing) + &out
}

/// A text in lines of this many cells, broken between words where that is possible.
#[must_use]
pub fn wrap(text: &str, cells: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let length = width(word.trim_end());
        if used > 0 && used + length > cells {
            lines.push(String::new());
            used = 0;
        }
        for grapheme in Span::raw(word).styled_graphemes(Style::new()) {
            let more = width(grapheme.symbol);
            if used > 0 && used + more > cells {
                if grapheme.symbol == " " {
                    continue;
                }
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(grapheme.symbol);
            }
            used += more;
        }
    }
    lines
}

/// A time between two others, in two units at most.
#[must_use]
pub fn span(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        86_400..8_640_000 => format!("{days}d{:02}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// How long ago that was.
#[must_use]
pub fn since(now: Wall, then: Wall) -> String {
    span(now.as_unix_millis().saturating_sub(then.as_unix_millis()))
}

/// How long until then.
#[must_use]
pub fn until(now: Wall, then: Wall) -> String {
    // The last second is one too: a countdown ends with `now`.
    let millis = then.as_unix_millis().saturating_sub(now.as_unix_millis());
    if millis <= 0 { "now".to_owned() } else { span(millis.saturating_add(999)) }
}

/// The time of day, in UTC.
#[must_use]
pub fn time_of_day(at: Wall) -> String {
    let text = at.to_string();
    text.get(11..19).map_or_else(|| text.clone(), str::to_owned)
}

/// A number in few characters.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it is rounded in any case")]
pub fn count(number: u64) -> String {
    let scaled = |by: f64, unit: &str| {
        let value = number as f64 / by;
        let digits = if value < 9.95 { 1 } else { 0 };
        format!("{value:.digits$}{unit}")
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..999_500 => scaled(1e3, "k"),
        999_500..999_500_000 => scaled(1e6, "M"),
        _ => scaled(1e9, "G"),
    }
}

/// So much of a whole, as a bar of this many cells. Whatever there is is seen.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of at most a whole, of a few cells"
)]
pub fn bar(part: f64, cells: usize) -> String {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    let full =
        ((part * cells as f64).round() as usize).clamp(usize::from(part > 0.0), cells.max(1));
    let full = full.min(cells);
    "█".repeat(full) + &"░".repeat(cells - full)
}

/// Numbers as bars of one cell each, beside the highest.
#[must_use]
pub fn sparks(numbers: impl Iterator<Item = u64> + Clone) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = u128::from(numbers.clone().max().unwrap_or_default().max(1));
    let height = |number: u64| match number {
        0 => ' ',
        _ => {
            let at = usize::try_from(u128::from(number) * 7 / most).unwrap_or_default();
            HEIGHTS[at.min(7)]
        }
    };
    numbers.map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_as_many_cells_as_it_is_given() {
        for text in
            ["", "a", "abcdef", "日本語テキスト", "e\u{301}e\u{301}e\u{301}", "👩‍👩‍👧 x", "שלום עולם"]
        {
            for cells in 0..12 {
                assert_eq!(width(&fit(text, cells)), cells, "{text:?} in {cells}");
                assert_eq!(width(&fit_right(text, cells)), cells, "{text:?} in {cells}");
            }
        }
        assert_eq!(fit("日本語", 4), "日… ", "half a character is none");
        assert_eq!(cut("abc", 2), "a…");
    }

    #[test]
    fn lines_break_between_words_and_within_those_that_are_too_long() {
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
        assert!(wrap("日本語", 1).len() == 3, "one that never fits is not lost");
    }

    #[test]
    fn numbers_and_times_are_short() {
        let counts = [0, 999, 1_000, 9_949, 12_345, 999_499, 999_500, 1_234_567, u64::MAX];
        let counts = counts.map(count);
        let wanted = ["0", "999", "1.0k", "9.9k", "12k", "999k", "1.0M", "1.2M", "18446744074G"];
        assert_eq!(counts, wanted);
        let spans = [-5, 0, 59_999, 60_000, 3_599_000, 7_500_000, 90_000_000, 864_000_000_000];
        let spans = spans.map(span);
        assert_eq!(spans, ["0s", "0s", "59s", "1m00s", "59m59s", "2h05m", "1d01h", "10000d"]);
    }

    #[test]
    fn bars_show_parts_of_a_whole() {
        assert_eq!(bar(0.0, 4), "░░░░");
        assert_eq!(bar(0.001, 4), "█░░░");
        assert_eq!(bar(0.5, 4), "██░░");
        assert_eq!(bar(7.0, 4), "████");
        assert_eq!(bar(f64::NAN, 2), "░░");
        assert_eq!(bar(1.0, 0), "");
        assert_eq!(sparks([0, 1, 50, 100].into_iter()), " ▁▄█");
    }
}
