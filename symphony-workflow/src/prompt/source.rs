//! The body as a part of the file, and what engines say about it.

use std::sync::Arc;

use crate::prompt::marks::PromptFault;
use crate::prompt::{PromptError, Template};
use symphony_core::problem::{Position, Problem, ProblemKind};

/// What to do about marks that are meant for others.
const RAW_HELP: &str =
    "if it is to stand in the prompt as it is, put it between `{% raw %}` and `{% endraw %}`";

/// The body, and where it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) body: Arc<str>,
    pub(super) first_line: u32,
}

impl Source {
    fn position(&self, at: usize) -> Position {
        let before = self.body.get(..at).unwrap_or(&self.body);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let lines = count(before.matches('\n').count());
        Position {
            line: self.first_line.saturating_add(lines),
            column: count(line.chars().count()).saturating_add(1),
        }
    }

    pub(super) fn problem(&self, fault: PromptFault, kind: ProblemKind) -> Problem {
        let mut problem =
            Problem::new(kind, fault.message).with_position(Some(self.position(fault.at)));
        problem.help = match self.is_behind_dollar(fault.at) {
            true => Some(RAW_HELP.to_owned()),
            false => fault.help,
        };
        problem
    }

    /// Whether a place is the beginning of a mark such as `${{ github.ref }}`, which other programs
    /// are to read.
    fn is_behind_dollar(&self, at: usize) -> bool {
        let before = self.body.get(..at).unwrap_or_default();
        let open = before.trim_end_matches([' ', '-', '{']);
        open.ends_with('$') && before[open.len()..].starts_with("{{")
    }

    pub(super) fn error(&self, broken: RenderError) -> PromptError {
        PromptError {
            at: broken.at.map(|at| self.position(at)),
            name: broken.name,
            message: broken.message,
        }
    }

    pub(super) fn render_problem(&self, broken: RenderError, kind: ProblemKind) -> Problem {
        let error = self.error(broken);
        let message = match &error.name {
            Some(name) => format!("`{name}`: {}", error.message),
            None => error.message,
        };
        Problem::new(kind, message).with_position(error.at)
    }
}

/// What an engine makes of a body that it can read.
pub(super) struct Compiled<T> {
    pub(super) template: T,
    pub(super) warnings: Vec<PromptFault>,
}

impl<T> Compiled<T> {
    pub(super) fn into_template(self, wrap: impl FnOnce(T) -> Template) -> Compiled<Template> {
        Compiled { template: wrap(self.template), warnings: self.warnings }
    }
}

/// Why a rendering ended, with its offset in the body.
#[derive(Debug)]
pub(super) struct RenderError {
    pub(super) at: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) message: String,
}

impl RenderError {
    pub(super) fn new(at: Option<usize>, message: impl Into<String>) -> Self {
        Self { at, name: None, message: message.into() }
    }
}
