//! Tables of foreign text, for people.

use std::io::{self, Write};

use anstyle::Style;
use symphony_core::plain;
use symphony_tui::text::{cut, fit, width};

/// The most cells of a column that is not the last.
const MAX_COLUMN_CELLS: usize = 30;

/// The most cells of the last column.
const MAX_LAST_COLUMN_CELLS: usize = 200;

/// Writes rows under the names of their columns. Whatever the cells hold, they steer no terminal.
pub(crate) fn write(out: &mut impl Write, names: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let dim = Style::new().dimmed();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell, usize::MAX)).collect()).collect();
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
            cells.chain([width(name)]).max().unwrap_or_default().min(MAX_COLUMN_CELLS)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (at, cell) in cells.enumerate() {
            match widths.get(at) {
                Some(width) if at + 1 < names.len() => {
                    text.push_str(&fit(cell, *width));
                    text.push_str("  ");
                }
                _ => text.push_str(&cut(cell, MAX_LAST_COLUMN_CELLS)),
            }
        }
        text.trim_end().to_owned()
    };
    writeln!(out, "{dim}{}{dim:#}", line(&mut names.iter().copied()))?;
    for row in &rows {
        writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_1_columns_stand_below_their_names_and_cells_stay_cells() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["MT-1", "日本", "a\u{1b}[2Jb\nc"]), row(["MT-100", "x", ""])];
        let mut out = Vec::new();
        write(&mut out, &["ISSUE", "STATE", "WHY"], &rows).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        let wanted = "ISSUE   STATE  WHY\nMT-1    日本   a\\u{1b}[2Jb\\nc\nMT-100  x\n";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }
}
