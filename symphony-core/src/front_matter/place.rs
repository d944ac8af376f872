//! Places in the file. The YAML parser breaks lines at more characters than editors do.

use crate::problem::Position;

/// The line of the file on which a text that follows this one begins.
pub(super) fn line(before: &str) -> u32 {
    number(before.matches('\n').count() + 1)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Turns the parser's lines into the file's.
pub(super) struct Places<'a> {
    text: &'a str,
    /// Where each of the parser's lines begins in the file.
    starts: Vec<Position>,
    end: Position,
}

impl<'a> Places<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut at = Position { line: 1, column: 1 };
        let mut starts = vec![at];
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            at = after(at, char);
            let ends_line = match char {
                '\r' => chars.peek() != Some(&'\n'),
                '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => true,
                _ => false,
            };
            if ends_line {
                starts.push(at);
            }
        }
        let end = at;
        Self { text, starts, end }
    }

    /// The place of the parser's line and column, both counted from one. Where the parser is a
    /// line ahead of a text without a last line break, it is the end.
    pub(super) fn at(&self, line: usize, column: usize) -> Option<Position> {
        let Some(start) = self.starts.get(line.checked_sub(1)?) else {
            return Some(self.end);
        };
        let column = number(column.checked_sub(1)?).saturating_add(start.column);
        Some(Position { column, ..*start })
    }

    /// The place of a byte.
    pub(super) fn at_byte(&self, index: usize) -> Option<Position> {
        let before = self.text.get(..index)?;
        let start = Position { line: 1, column: 1 };
        Some(before.chars().fold(start, after))
    }
}

fn after(at: Position, char: char) -> Position {
    match char {
        '\n' => Position { line: at.line.saturating_add(1), column: 1 },
        _ => Position { column: at.column.saturating_add(1), ..at },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parsers_lines_become_the_files() {
        let places = Places::of("a\r\nb\u{2028}cd\re\nf");
        let at = |line, column| places.at(line, column).map(|at| (at.line, at.column));
        assert_eq!(at(1, 1), Some((1, 1)));
        assert_eq!(at(2, 1), Some((2, 1)));
        assert_eq!(at(3, 2), Some((2, 4)));
        assert_eq!(at(4, 1), Some((2, 6)));
        assert_eq!(at(5, 1), Some((3, 1)));
        assert_eq!(at(6, 1), Some((3, 2)));
        assert_eq!(at(0, 1), None);
        assert_eq!(places.at_byte(3), Some(Position { line: 2, column: 1 }));
        assert_eq!(places.at_byte(99), None);
    }
}
