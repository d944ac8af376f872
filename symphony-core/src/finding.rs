//! What an adapter finds when it looks at the world it is to work with, for a person who wants to
//! know before anything is started.

/// One thing that was found. The text may be untrusted: the code that prints it sanitizes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Whether it keeps the service from working.
    pub severity: Severity,
    /// What it is about, in a word or two: `project`, `codex`.
    pub subject: String,
    /// What was found and, where it is bad, what to do.
    pub text: String,
}

/// Whether the service could work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// It could not be seen, or it is probably not what is meant.
    Doubtful,
    /// It will not work.
    Wrong,
}

impl Finding {
    /// Makes a finding that all is as it should be.
    pub fn fine(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, subject: subject.into(), text: text.into() }
    }

    /// Makes a finding that could not be seen, or that is probably not what is meant.
    pub fn doubtful(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Doubtful, ..Self::fine(subject, text) }
    }

    /// Makes a finding that keeps the service from working.
    pub fn wrong(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Wrong, ..Self::fine(subject, text) }
    }
}
