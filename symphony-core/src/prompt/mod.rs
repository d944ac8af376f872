//! The prompt layer (contract section 15).
//!
//! A [`Prompt`] is compiled once, when the workflow file is loaded, and rendered for every first
//! turn of a run. `docs/prompts.md` describes the language to those who write prompts.

mod hints;
mod liquid;
mod marks;
mod meter;
mod names;
mod tera;
mod variables;

use std::fmt;
use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::issue::Issue;
use crate::problem::{Position, Problem, ProblemKind};
use crate::prompt::marks::Fault;
use crate::prompt::meter::{MAX_BODY, Meter};
use crate::prompt::variables::{Sample, variables};
use crate::settings::PromptEngine;

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
/// use symphony_core::prompt::{Prompt, PromptInput};
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
    Tera(Arc<tera::Template>),
    Liquid(liquid::Template),
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

/// Which language renders a prompt, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The language.
    pub engine: PromptEngine,
    /// The reason.
    pub why: Why,
}

/// Why a language was chosen (contract 15.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The body is empty, so the default prompt is used.
    EmptyBody,
    /// `prompt.engine` says so.
    Pinned,
    /// Tera is the prompt language, and it renders the body.
    PromptLanguage,
    /// Liquid renders the body and Tera does not, for this reason.
    OnlyLiquid(Box<Problem>),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = engine_name(self.engine);
        match &self.why {
            Why::EmptyBody => write!(f, "{engine}: the body is empty, the default prompt is used"),
            Why::Pinned => write!(f, "{engine}: set by prompt.engine"),
            Why::PromptLanguage => write!(f, "{engine}: the prompt language"),
            Why::OnlyLiquid(tera) => write!(f, "{engine}: Tera cannot render it ({tera})"),
        }
    }
}

fn engine_name(engine: PromptEngine) -> &'static str {
    match engine {
        PromptEngine::Tera => "tera",
        PromptEngine::Liquid => "liquid",
    }
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

/// What an engine makes of a body that it can read.
struct Compiled<T> {
    template: T,
    warnings: Vec<Fault>,
}

/// Why a rendering ended, with its offset in the body.
#[derive(Debug)]
struct Broken {
    at: Option<usize>,
    name: Option<String>,
    message: String,
}

impl Broken {
    fn new(at: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            at,
            name: None,
            message: message.into(),
        }
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
        let source = Source {
            body: if empty { DEFAULT_BODY } else { body }.into(),
            first_line,
        };
        if source.body.len() > MAX_BODY {
            let message = format!("the prompt is longer than {MAX_BODY} bytes");
            return Err(vec![Problem::new(ProblemKind::TemplateParseError, message)]);
        }
        let pinned = engine.or(empty.then_some(PromptEngine::Tera));
        if let Some(engine) = pinned {
            let why = if empty { Why::EmptyBody } else { Why::Pinned };
            return match Trial::run(&source, engine) {
                Trial::Renders(draft) | Trial::RendersFull(draft) => {
                    Ok(draft.finish(source, Choice { engine, why }))
                }
                Trial::Fails(problems) => Err(problems),
            };
        }
        Self::choose(source)
    }

    /// Tera before Liquid, and what renders both samples before what renders only the full one.
    fn choose(source: Source) -> Result<Self, Vec<Problem>> {
        let tera = match Trial::run(&source, PromptEngine::Tera) {
            Trial::Renders(draft) => return Ok(draft.finish(source, Choice::tera())),
            other => other,
        };
        let liquid = Trial::run(&source, PromptEngine::Liquid);
        let reason = tera.reason();
        match (tera, liquid) {
            (_, Trial::Renders(draft)) | (Trial::Fails(_), Trial::RendersFull(draft)) => {
                Ok(draft.finish(source, Choice::only_liquid(reason)))
            }
            (Trial::Renders(draft) | Trial::RendersFull(draft), _) => {
                Ok(draft.finish(source, Choice::tera()))
            }
            (Trial::Fails(tera), Trial::Fails(liquid)) => {
                if let Some(fault) = hints::other_language(&source.body) {
                    return Err(vec![source.problem(fault, ProblemKind::TemplateParseError)]);
                }
                Err(match hints::likely_engine(&source.body) {
                    PromptEngine::Tera => tera,
                    PromptEngine::Liquid => liquid,
                })
            }
        }
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

impl Template {
    fn render(&self, input: &PromptInput<'_>) -> Result<String, Broken> {
        let meter = Meter::new(text_len(input.issue));
        match self {
            Self::Tera(template) => template.render(variables(input), meter),
            Self::Liquid(template) => template.render(variables(input), &meter),
        }
    }
}

/// How much text an issue has. The rest of it is short.
fn text_len(issue: &Issue) -> usize {
    let description = issue.description.as_deref().map_or(0, str::len);
    issue.title.len() + description
}

impl Choice {
    fn tera() -> Self {
        Self {
            engine: PromptEngine::Tera,
            why: Why::PromptLanguage,
        }
    }

    fn only_liquid(reason: Option<Problem>) -> Self {
        let unknown = || Problem::new(ProblemKind::TemplateRenderError, "no reason was given");
        Self {
            engine: PromptEngine::Liquid,
            why: Why::OnlyLiquid(Box::new(reason.unwrap_or_else(unknown))),
        }
    }
}

/// A compiled body that waits for the choice.
struct Draft {
    template: Template,
    warnings: Vec<Problem>,
}

impl Draft {
    fn finish(self, source: Source, choice: Choice) -> Prompt {
        Prompt {
            source,
            template: self.template,
            choice,
            warnings: self.warnings,
        }
    }
}

/// What one engine makes of a body and the two sample issues.
enum Trial {
    Renders(Draft),
    /// The sparse sample fails: with some issues the attempt will.
    RendersFull(Draft),
    Fails(Vec<Problem>),
}

impl Trial {
    fn run(source: &Source, engine: PromptEngine) -> Self {
        let compiled = match engine {
            PromptEngine::Tera => tera::compile(&source.body).map(|compiled| Compiled {
                template: Template::Tera(Arc::new(compiled.template)),
                warnings: compiled.warnings,
            }),
            PromptEngine::Liquid => liquid::compile(&source.body).map(|compiled| Compiled {
                template: Template::Liquid(compiled.template),
                warnings: compiled.warnings,
            }),
        };
        let problem = |fault| source.problem(fault, ProblemKind::TemplateParseError);
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(faults) => return Self::Fails(faults.into_iter().map(problem).collect()),
        };
        let warning = |fault| source.problem(fault, ProblemKind::TemplateWarning);
        let mut draft = Draft {
            template: compiled.template,
            warnings: compiled.warnings.into_iter().map(warning).collect(),
        };
        match source.fails(&draft.template, Sample::full()) {
            None => {}
            Some(broken) if source.is_native(&broken) => {}
            Some(broken) => {
                let problem = source.render_problem(broken, ProblemKind::TemplateRenderError);
                return Self::Fails(vec![problem]);
            }
        }
        match source.fails(&draft.template, Sample::sparse()) {
            None => Self::Renders(draft),
            Some(broken) => {
                let problem = source.render_problem(broken, ProblemKind::TemplateWarning);
                draft
                    .warnings
                    .push(problem.help("it fails for an issue without this"));
                Self::RendersFull(draft)
            }
        }
    }

    /// Why a language is not chosen.
    fn reason(&self) -> Option<Problem> {
        match self {
            Self::Renders(_) => None,
            Self::RendersFull(draft) => draft.warnings.last().cloned(),
            Self::Fails(problems) => problems.first().cloned(),
        }
    }
}

/// The body, and where it stands in the file.
#[derive(Clone, Debug)]
struct Source {
    body: Arc<str>,
    first_line: u32,
}

impl Source {
    fn fails(&self, template: &Template, sample: Option<Sample>) -> Option<Broken> {
        template.render(&sample?.input()).err()
    }

    /// What a tracker puts into `native_ref` is known only when an issue is there.
    fn is_native(&self, broken: &Broken) -> bool {
        let name = broken.name.as_deref().unwrap_or_default();
        name.contains("native_ref")
    }

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

    fn problem(&self, fault: Fault, kind: ProblemKind) -> Problem {
        let problem = Problem::new(kind, fault.message).at(Some(self.position(fault.at)));
        Problem {
            help: fault.help,
            ..problem
        }
    }

    fn error(&self, broken: Broken) -> PromptError {
        PromptError {
            at: broken.at.map(|at| self.position(at)),
            name: broken.name,
            message: broken.message,
        }
    }

    fn render_problem(&self, broken: Broken, kind: ProblemKind) -> Problem {
        let error = self.error(broken);
        let message = match &error.name {
            Some(name) => format!("`{name}`: {}", error.message),
            None => error.message,
        };
        Problem::new(kind, message).at(error.at)
    }
}

/// What an agent is told at the start of a later turn on the same thread (contract 10.1).
///
/// ```
/// let guidance = symphony_core::prompt::continuation(3, 20);
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
