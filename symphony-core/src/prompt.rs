//! The prompt layer (contract section 15).

use crate::problem::{Position, Problem, ProblemKind};
use crate::settings::PromptEngine;

/// A prompt, ready to be rendered.
#[derive(Clone, Debug)]
pub struct Prompt {
    body: String,
}

impl Prompt {
    /// Compiles a trimmed body that begins at this line of the file.
    ///
    /// # Errors
    /// Every problem of the template.
    pub fn compile(
        body: &str,
        first_line: u32,
        _engine: Option<PromptEngine>,
    ) -> Result<Self, Vec<Problem>> {
        if body.contains("{{") && !body.contains("}}") {
            let at = Position { line: first_line, column: 1 };
            let problem = Problem::new(ProblemKind::TemplateParseError, "unclosed");
            return Err(vec![problem.at(Some(at))]);
        }
        Ok(Self { body: body.to_owned() })
    }

    /// The template's text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.body
    }
}
