//! What is wrong with a workflow file, and where (contract 2.2).

use std::fmt;

use serde::{Deserialize, Serialize};

/// One problem of a workflow file. A file's problems are reported together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// What sort of problem it is.
    pub kind: ProblemKind,
    /// The YAML path of the setting, such as `agent.max_turns`.
    pub path: Option<String>,
    /// Where it stands in the file.
    pub at: Option<Position>,
    /// What is wrong, without path and position.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// A place in the workflow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The line, from one.
    pub line: u32,
    /// The column in characters, from one.
    pub column: u32,
}

/// The typed errors of contract 2.2, and warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file is not there or cannot be read.
    MissingWorkflowFile,
    /// The front matter is not YAML, or has a key twice.
    WorkflowParseError,
    /// The front matter is YAML, but not a map.
    WorkflowFrontMatterNotAMap,
    /// The prompt cannot be parsed.
    TemplateParseError,
    /// The prompt cannot be rendered.
    TemplateRenderError,
    /// The prompt renders, but not for every issue or not as expected.
    TemplateWarning,
    /// `tracker.kind` names no registered adapter.
    UnsupportedTrackerKind,
    /// A setting has a value it cannot have.
    InvalidSetting,
    /// The file names an agent other than the one that would run.
    AnotherAgent,
    /// A key that nothing reads, one or two letters off one that is read.
    MisspeltKey,
    /// A key that nothing reads: kept and ignored.
    UnknownKey,
    /// A value that is ignored, with the default in its place.
    IgnoredSetting,
    /// A setting that was changed in a running service and is read at its start only.
    NeedsRestart,
}

impl ProblemKind {
    /// The name of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingWorkflowFile => "missing_workflow_file",
            Self::WorkflowParseError => "workflow_parse_error",
            Self::WorkflowFrontMatterNotAMap => "workflow_front_matter_not_a_map",
            Self::TemplateParseError => "template_parse_error",
            Self::TemplateRenderError => "template_render_error",
            Self::TemplateWarning => "template_warning",
            Self::UnsupportedTrackerKind => "unsupported_tracker_kind",
            Self::InvalidSetting => "invalid_setting",
            Self::AnotherAgent => "another_agent",
            Self::MisspeltKey => "misspelt_key",
            Self::UnknownKey => "unknown_key",
            Self::IgnoredSetting => "ignored_setting",
            Self::NeedsRestart => "needs_restart",
        }
    }

    /// Whether the file can be used all the same.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::UnknownKey | Self::IgnoredSetting | Self::TemplateWarning | Self::NeedsRestart
        )
    }
}

impl Problem {
    /// Makes a problem without a place.
    #[must_use]
    pub fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, path: None, at: None, message: message.into(), help: None }
    }

    /// Sets the YAML path of the setting.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets its place in the file.
    #[must_use]
    pub fn with_position(mut self, at: Option<Position>) -> Self {
        self.at = at;
        self
    }

    /// Sets what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Problem {
    /// `line 7: agent.max_turns: must be a positive integer, got 0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "line {}: ", at.line)?;
        }
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.message)
    }
}
