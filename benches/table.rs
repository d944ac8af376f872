//! Answers as Markdown, so that what is printed can stand in `docs/design/benchmarks.md`.

use std::fmt;

const HEAD: [&str; 7] = ["what", "ours", "limit", "ratio", "goal", "met", "reference"];

/// The answer to one question.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: &'static str,
    rows: Vec<[String; HEAD.len()]>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) const fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row.0);
    }

    pub(crate) fn note(&mut self, note: impl fmt::Display) {
        self.notes.push(note.to_string());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = HEAD.map(str::to_owned);
        let widths: Vec<usize> = (0..HEAD.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&head]).map(|row| row[column].chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        writeln!(f, "### {}\n", self.title)?;
        let rule = std::array::from_fn(|column| "-".repeat(widths[column]));
        for row in [&head, &rule].into_iter().chain(&self.rows) {
            for (cell, width) in row.iter().zip(&widths) {
                write!(f, "| {cell:width$} ")?;
            }
            writeln!(f, "|")?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}

/// One line: what was measured, then whatever there is to say of it.
#[derive(Clone, Debug)]
pub(crate) struct Row([String; HEAD.len()]);

impl Row {
    pub(crate) fn of(what: impl fmt::Display, ours: impl fmt::Display) -> Self {
        let mut cells: [String; HEAD.len()] = Default::default();
        cells[0] = what.to_string();
        cells[1] = ours.to_string();
        Self(cells)
    }

    pub(crate) fn limit(mut self, limit: impl fmt::Display) -> Self {
        self.0[2] = limit.to_string();
        self
    }

    pub(crate) fn ratio(mut self, ratio: impl fmt::Display) -> Self {
        self.0[3] = ratio.to_string();
        self
    }

    pub(crate) fn goal(mut self, goal: impl fmt::Display, is_met: bool) -> Self {
        self.0[4] = goal.to_string();
        self.0[5] = if is_met { "yes" } else { "NO" }.to_owned();
        self
    }

    pub(crate) fn reference(mut self, reference: impl fmt::Display) -> Self {
        self.0[6] = reference.to_string();
        self
    }
}
