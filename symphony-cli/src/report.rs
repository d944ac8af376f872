//! What goes wrong, for people: with file, line and a caret where there is one.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstream::{eprintln, stdout};
use serde::Serialize;
use symphony_core::plain_json;
use symphony_core::problem::{Position, Problem, ProblemKind};
use symphony_runtime::plain;

use crate::masked::{Hide, masked};

/// How much of one problem's text is shown.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// An error of the command as a whole, with its causes.
pub(crate) fn error(error: &anyhow::Error) {
    let bold = anstyle::AnsiColor::Red.on_default().bold();
    eprintln!("{bold}error{bold:#}: {}", plain(&error.to_string(), MAX_TEXT_BYTES));
    for cause in error.chain().skip(1) {
        eprintln!("  because {}", plain(&cause.to_string(), MAX_TEXT_BYTES));
    }
}

/// What is meant for programs, on standard output; people look at it too, so nothing in it steers a
/// terminal.
pub(crate) fn write_json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    let lines: Vec<String> = text.lines().map(plain_json).collect();
    writeln!(stdout().lock(), "{}", lines.join("\n"))?;
    Ok(())
}

/// The problems of a file, on standard error.
pub(crate) fn to_stderr(path: &Path, text: &str, problems: &[Problem]) {
    for problem in problems {
        eprintln!("{}\n", render(path, text, problem));
    }
}

/// The problems of a file.
pub(crate) fn write(
    out: &mut impl Write,
    path: &Path,
    text: &str,
    problems: &[Problem],
) -> std::io::Result<()> {
    problems.iter().try_for_each(|problem| writeln!(out, "{}\n", render(path, text, problem)))
}

/// A stranger's text, line by line, which must not steer a terminal (contract 13.1).
pub(crate) fn for_a_screen(text: &str) -> String {
    let lines = text.lines().map(|line| plain(&line.replace('\t', "    "), usize::MAX));
    lines.collect::<Vec<_>>().join("\n")
}

fn render(path: &Path, text: &str, problem: &Problem) -> String {
    let level = if problem.kind.is_warning() { Level::WARNING } else { Level::ERROR };
    let message = plain(&problem.message, MAX_TEXT_BYTES);
    let title = match &problem.path {
        Some(setting) => format!("{}: {message}", plain(setting, MAX_TEXT_BYTES)),
        None => message,
    };
    let name = plain(&path.display().to_string(), MAX_TEXT_BYTES);
    let mut group = Group::with_title(level.primary_title(title).id(problem.kind.as_str()));
    if let Some((line, (source, marked))) = problem.at.and_then(|at| shown(text, at, problem.kind))
    {
        let mark = AnnotationKind::Primary.span(marked);
        let snippet = Snippet::source(source).line_start(line).path(name);
        group = group.element(snippet.annotation(mark));
    }
    let help = problem.help.as_deref().map(|help| plain(help, MAX_TEXT_BYTES));
    if let Some(help) = help {
        group = group.element(Level::HELP.message(help));
    }
    Renderer::styled().render(&[group])
}

/// The line of a problem as it is shown, with its number and the bytes that are marked.
fn shown(text: &str, at: Position, kind: ProblemKind) -> Option<(usize, (String, Range<usize>))> {
    let marked = span(text, at)?;
    let number = usize::try_from(at.line).ok()?;
    let start = text[..marked.start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let marked = marked.start - start..marked.end - start;
    let is_template = matches!(
        kind,
        ProblemKind::TemplateParseError
            | ProblemKind::TemplateRenderError
            | ProblemKind::TemplateWarning
    );
    Some((
        number,
        match kind {
            // A prompt is not a setting: what it says of tokens is to be read.
            _ if is_template => (line.to_owned(), marked),
            ProblemKind::UnknownKey | ProblemKind::MisspeltKey | ProblemKind::AnotherAgent => {
                masked(&text[..start], line, marked, Hide::AndTheMarked)
            }
            _ => masked(&text[..start], line, marked, Hide::Secrets),
        },
    ))
}

/// The bytes of the word at a place.
fn span(text: &str, at: Position) -> Option<Range<usize>> {
    let line_index = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let start_of_line: usize = text.split_inclusive('\n').take(line_index).map(str::len).sum();
    let line = text.get(start_of_line..)?.lines().next()?;
    let before: usize = line.chars().take(column).map(char::len_utf8).sum();
    let word = line.get(before..)?.split(char::is_whitespace).next()?;
    let start = start_of_line + before;
    Some(start..start + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn a_place_is_found_in_characters_and_marked_in_bytes() {
        let text = "eins\nzwölf drei\r\nvier";
        let word = |place| span(text, place).map(|span| &text[span]);
        assert_eq!(word(at(1, 1)), Some("eins"));
        assert_eq!(word(at(2, 7)), Some("drei"));
        assert_eq!(word(at(3, 2)), Some("ier"));
        assert_eq!(word(at(3, 5)), Some(""), "the end of a line has nothing to mark");
    }

    #[test]
    fn rule_13_1_a_text_on_a_screen_keeps_its_lines_and_steers_nothing() {
        assert_eq!(for_a_screen("one\n\n\ttwo \u{1b}[2J"), "one\n\n    two \\u{1b}[2J");
    }

    #[test]
    fn a_place_beyond_the_text_is_no_place() {
        assert_eq!(span("one", at(0, 1)), None);
        assert_eq!(span("one", at(9, 1)), None);
        assert_eq!(span("", at(1, 1)), None);
    }
}
