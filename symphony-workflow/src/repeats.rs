//! The same finding at several places of a file, reported once with all its lines.

use std::collections::BTreeMap;

use symphony_core::problem::Problem;

/// How many further lines a message names.
const MAX_LINES_NAMED: usize = 5;

/// Keeps the first of findings that differ in nothing but their place, and names the lines of the
/// others in its message.
pub(crate) fn folded(problems: Vec<Problem>) -> Vec<Problem> {
    let mut kept: Vec<(Problem, Vec<u32>)> = Vec::new();
    let mut known: BTreeMap<_, usize> = BTreeMap::new();
    for problem in problems {
        let what = (problem.kind, problem.path.clone(), problem.message.clone());
        let index = *known.entry(what).or_insert(kept.len());
        match (kept.get_mut(index), problem.at) {
            (None, _) => kept.push((problem, Vec::new())),
            (Some((first, lines)), Some(at)) => {
                let last = lines.last().copied().or(first.at.map(|at| at.line));
                if last != Some(at.line) {
                    lines.push(at.line);
                }
            }
            (Some(_), None) => {}
        }
    }
    kept.into_iter().map(|(problem, lines)| with_lines(problem, &lines)).collect()
}

fn with_lines(mut problem: Problem, lines: &[u32]) -> Problem {
    let named: Vec<String> = lines.iter().take(MAX_LINES_NAMED).map(ToString::to_string).collect();
    let more = lines.len().saturating_sub(MAX_LINES_NAMED);
    let also = match (named.as_slice(), more) {
        ([], _) => return problem,
        ([line], _) => format!("line {line}"),
        ([first @ .., last], 0) => format!("lines {} and {last}", first.join(", ")),
        (all, more) => format!("lines {} and {more} more", all.join(", ")),
    };
    problem.message.push_str(&format!(" (also on {also})"));
    problem
}

#[cfg(test)]
mod tests {
    use symphony_core::problem::{Position, ProblemKind};

    use super::*;

    fn at(line: u32, message: &str) -> Problem {
        let problem = Problem::new(ProblemKind::TemplateParseError, message);
        problem.with_position(Some(Position { line, column: 1 }))
    }

    #[test]
    fn a_finding_is_reported_once_with_all_its_lines() {
        let texts = |lines: &[u32]| -> Vec<String> {
            let found = lines.iter().map(|line| at(*line, "no `x`"));
            folded(found.collect()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(&[3]), ["line 3: no `x`"]);
        assert_eq!(texts(&[3, 3]), ["line 3: no `x`"]);
        assert_eq!(texts(&[3, 5]), ["line 3: no `x` (also on line 5)"]);
        assert_eq!(texts(&[3, 5, 5, 9]), ["line 3: no `x` (also on lines 5 and 9)"]);
        assert_eq!(
            texts(&[1, 2, 3, 4, 5, 6, 7, 8]),
            ["line 1: no `x` (also on lines 2, 3, 4, 5, 6 and 2 more)"]
        );
        let two = folded(vec![at(1, "a"), at(1, "b"), at(2, "a")]);
        assert_eq!(
            two.iter().map(|p| p.message.as_str()).collect::<Vec<_>>(),
            ["a (also on line 2)", "b"]
        );
    }
}
