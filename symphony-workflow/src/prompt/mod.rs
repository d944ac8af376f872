//! The prompt layer (contract section 15).
//!
//! A [`Prompt`] is compiled once, when the workflow file is loaded, and rendered for every first
//! turn of a run. `docs/guide/prompts.md` describes the language to those who write prompts.

mod choice;
mod hints;
mod liquid;
mod marks;
mod meter;
mod names;
mod source;
mod tera;
mod variables;

use std::fmt;
use std::sync::Arc;

use crate::prompt::meter::{MAX_BODY_BYTES, StepMeter};
use crate::prompt::source::{RenderError, Source};
use crate::prompt::variables::{text_bytes, variables};
use crate::repeats;
use symphony_core::failure::{Failure, FailureKind};
use symphony_core::issue::Issue;
use symphony_core::problem::{Position, Problem, ProblemKind};
use symphony_core::settings::PromptEngine;

pub use choice::{Choice, Why};

/// What an agent is told when the workflow file has no prompt. It reads the same in both
/// languages.
const DEFAULT_BODY: &str = "\
You are working on {{ issue.identifier }}: {{ issue.title }}

{% if issue.description %}{{ issue.description }}{% else %}It has no description.{% endif %}
{% if issue.url %}
More about it: {{ issue.url }}
{% endif %}
Do what the issue asks for in the current folder, check that it works, and say what you did.";

/// A prompt, ready to be rendered.
///
/// ```
/// use symphony_core::Issue;
/// use symphony_workflow::prompt::{Prompt, PromptInput};
///
/// let prompt = Prompt::compile("Fix {{ issue.title }}.", 1, None).unwrap();
/// let issue = Issue::new("id-1", "MT-1", "the {{ door }}", "Todo").unwrap();
/// let input = PromptInput { issue: &issue, attempt: None, turn: 1, max_turns: 20 };
/// assert_eq!(prompt.render(&input).unwrap(), "Fix the {{ door }}.");
/// ```
#[derive(Clone, Debug)]
pub struct Prompt {
    source: Source,
    template: Template,
    choice: Choice,
    warnings: Vec<Problem>,
}

#[derive(Clone, Debug)]
enum Template {
    Tera(Arc<tera::TeraTemplate>),
    Liquid(liquid::LiquidTemplate),
}

/// What a prompt is rendered for.
#[derive(Clone, Copy, Debug)]
pub struct PromptInput<'a> {
    /// The issue, as last read.
    pub issue: &'a Issue,
    /// `None` on the first run, then counted from one.
    pub attempt: Option<u32>,
    /// The turn that begins, counted from one.
    pub turn: u32,
    /// How many turns a run may take.
    pub max_turns: u32,
}

/// A prompt could not be rendered for one issue: the attempt fails (contract 15.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PromptError {
    /// Where in the workflow file.
    pub at: Option<Position>,
    /// The variable or filter that failed, as the file writes it.
    pub name: Option<String>,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for PromptError {
    /// `line 12: issue.native_ref.number: it has no value for this issue`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "line {}: ", at.line)?;
        }
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl From<PromptError> for Failure {
    fn from(error: PromptError) -> Self {
        Self::new(FailureKind::Prompt, error.to_string())
    }
}

impl Prompt {
    /// Compiles the body of a workflow file. `first_line` is the line of the file on which it
    /// begins, and `engine` is `prompt.engine`.
    ///
    /// # Errors
    /// What is wrong with the body, in the language that its author most likely meant.
    pub fn compile(
        body: &str,
        first_line: u32,
        engine: Option<PromptEngine>,
    ) -> Result<Self, Vec<Problem>> {
        let empty = body.trim().is_empty();
        let source = Source { body: if empty { DEFAULT_BODY } else { body }.into(), first_line };
        if source.body.len() > MAX_BODY_BYTES {
            let message = format!("the prompt is longer than {MAX_BODY_BYTES} bytes");
            return Err(vec![Problem::new(ProblemKind::TemplateParseError, message)]);
        }
        let pinned = engine.or(empty.then_some(PromptEngine::Tera));
        let (draft, choice) = match pinned {
            Some(engine) => {
                let why = if empty { Why::EmptyBody } else { Why::Pinned };
                let draft = choice::pinned(&source, engine);
                (draft.map_err(repeats::folded)?, Choice { engine, why })
            }
            None => choice::choose(&source).map_err(repeats::folded)?,
        };
        let warnings = repeats::folded(draft.warnings);
        Ok(Self { source, template: draft.template, choice, warnings })
    }

    /// The language that renders it.
    #[must_use]
    pub const fn engine(&self) -> PromptEngine {
        self.choice.engine
    }

    /// The language and why it was chosen.
    #[must_use]
    pub const fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What is doubtful in the body: it renders, but not for every issue or not as expected.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Renders the prompt for an issue. Its text is data: marks inside it mean nothing (15.2).
    ///
    /// # Errors
    /// What depends on the issue, such as a field of `native_ref` that it does not have.
    pub fn render(&self, input: &PromptInput<'_>) -> Result<String, PromptError> {
        let broken = |broken| self.source.error(broken);
        self.template.render(input).map_err(broken)
    }
}

/// Prompts of the same text in the same place are equal.
impl PartialEq for Prompt {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.choice == other.choice
    }
}

impl Template {
    fn render(&self, input: &PromptInput<'_>) -> Result<String, RenderError> {
        let variables = variables(input);
        let meter = StepMeter::new(text_bytes(&variables));
        match self {
            Self::Tera(template) => template.render(variables, meter),
            Self::Liquid(template) => template.render(variables, &meter),
        }
    }
}

/// What a conversation that ended with a question is told first when it is resumed without an
/// answer (contract 10.6). The prompt follows, in case the conversation is lost.
pub const UNANSWERED: &str = "No answer was given to your question: decide yourself, or ask again \
     if you cannot go on without an answer. What was done so far is in this folder and in this \
     conversation; the task was and is:\n\n";

/// What a resumed conversation is told whose turn a restart of the service cut off (contract 16.3).
pub const RESTARTED: &str = "Symphony was restarted while you worked, and your last turn was cut \
     off. Commands that were running then may have been stopped halfway. Look at what is done in \
     this folder and in this conversation, then go on from there; do not repeat finished steps.";

/// Returns the same as [`RESTARTED`], with the whole prompt for reference: for an agent that cannot
/// say whether it was given it.
#[must_use]
pub fn restarted_with(prompt: &str) -> String {
    format!(
        "{RESTARTED}\n\nFor reference, this is your task; you may have been given it already: \
         look first.\n\n{prompt}"
    )
}

/// What an agent is told at the start of a later turn on the same thread (contract 10.1).
///
/// ```
/// let guidance = symphony_workflow::prompt::continuation(3, 20);
/// assert!(guidance.starts_with("This is turn 3 of at most 20"));
/// ```
#[must_use]
pub fn continuation(turn: u32, max_turns: u32) -> String {
    format!(
        "This is turn {turn} of at most {max_turns} in the same session. The issue is still open \
         for work. Resume where the last turn ended: the folder and this conversation hold what \
         has been done so far. Do not start over, and do not repeat finished steps. If nothing \
         is left to do, bring the issue into the state that says so. If you are stuck, say what \
         you need."
    )
}
