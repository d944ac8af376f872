//! Which language renders a prompt: decided once, when the file is loaded (contract 15.1).

use std::fmt;
use std::sync::Arc;

use crate::prompt::source::{RenderError, Source};
use crate::prompt::variables::Sample;
use crate::prompt::{Template, hints, liquid, tera};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::PromptEngine;

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
            Why::PromptLanguage => write!(f, "{engine}: the default, and it renders this prompt"),
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

impl Choice {
    fn tera() -> Self {
        Self { engine: PromptEngine::Tera, why: Why::PromptLanguage }
    }

    fn only_liquid(reason: Option<Problem>) -> Self {
        let unknown = || Problem::new(ProblemKind::TemplateRenderError, "no reason was given");
        Self {
            engine: PromptEngine::Liquid,
            why: Why::OnlyLiquid(Box::new(reason.unwrap_or_else(unknown))),
        }
    }
}

/// What a body is in this language.
pub(super) fn pinned(source: &Source, engine: PromptEngine) -> Result<Draft, Vec<Problem>> {
    match EngineTrial::run(source, engine) {
        EngineTrial::Renders(draft) | EngineTrial::RendersFull(draft) => Ok(draft),
        EngineTrial::Fails(problems) => Err(problems),
    }
}

/// Tera before Liquid, and what renders both samples before what renders only the full one.
pub(super) fn choose(source: &Source) -> Result<(Draft, Choice), Vec<Problem>> {
    let tera = match EngineTrial::run(source, PromptEngine::Tera) {
        EngineTrial::Renders(draft) => return Ok((draft, Choice::tera())),
        other => other,
    };
    let liquid = EngineTrial::run(source, PromptEngine::Liquid);
    let reason = tera.reason();
    match (tera, liquid) {
        (_, EngineTrial::Renders(draft))
        | (EngineTrial::Fails(_), EngineTrial::RendersFull(draft)) => {
            Ok((draft, Choice::only_liquid(reason)))
        }
        (EngineTrial::Renders(draft) | EngineTrial::RendersFull(draft), _) => {
            Ok((draft, Choice::tera()))
        }
        (EngineTrial::Fails(tera), EngineTrial::Fails(liquid)) => {
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

/// A compiled body that waits for the choice.
pub(super) struct Draft {
    pub(super) template: Template,
    pub(super) warnings: Vec<Problem>,
}

/// What one engine makes of a body and the two sample issues.
enum EngineTrial {
    Renders(Draft),
    /// The sparse sample fails: with some issues the attempt will.
    RendersFull(Draft),
    Fails(Vec<Problem>),
}

impl EngineTrial {
    fn run(source: &Source, engine: PromptEngine) -> Self {
        let compiled = match engine {
            PromptEngine::Tera => tera::compile(&source.body)
                .map(|compiled| compiled.into_template(|own| Template::Tera(Arc::new(own)))),
            PromptEngine::Liquid => liquid::compile(&source.body)
                .map(|compiled| compiled.into_template(Template::Liquid)),
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
        match fails(&draft.template, Sample::full()) {
            None => {}
            Some(broken) if is_native(&broken) => {}
            Some(broken) => {
                let problem = source.render_problem(broken, ProblemKind::TemplateRenderError);
                return Self::Fails(vec![problem]);
            }
        }
        match fails(&draft.template, Sample::sparse()) {
            None => Self::Renders(draft),
            Some(broken) => {
                let problem = source.render_problem(broken, ProblemKind::TemplateWarning);
                draft.warnings.push(problem.with_help("it fails for an issue without this"));
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

fn fails(template: &Template, sample: Option<Sample>) -> Option<RenderError> {
    template.render(&sample?.input()).err()
}

/// What a tracker puts into `native_ref` is known only when an issue is there.
fn is_native(broken: &RenderError) -> bool {
    let name = broken.name.as_deref().unwrap_or_default();
    name.contains("native_ref")
}
