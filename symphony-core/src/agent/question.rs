//! What an agent asks a person (contract 10.6).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::text_newtype;

text_newtype! {
    /// Identifies a question within its run. An answer names the question it is for.
    QuestionId
}

/// A question that only a person can answer.
///
/// [`Display`](fmt::Display) words it in one line, with the labels of its options.
///
/// ```
/// use symphony_core::agent::{Question, QuestionItem, QuestionKind};
///
/// let colour = QuestionItem::new("colour", "Which colour?").with_options(["red", "blue"]);
/// let question = Question::new("q-1", QuestionKind::Choice, vec![colour]);
/// assert_eq!(question.to_string(), "Which colour? (red / blue)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The backend's name for it. Two questions of one run never share it.
    pub id: QuestionId,
    /// What kind of answer it wants.
    pub kind: QuestionKind,
    /// Its parts, at least one, in the agent's order.
    pub items: Vec<QuestionItem>,
}

/// What kind of answer a question wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionKind {
    /// One option of each item that offers some.
    Choice,
    /// Free text.
    Text,
    /// What an MCP server asks for by an elicitation.
    Form,
    /// Permission for something the agent may not do by itself.
    Approval,
}

/// One part of a question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuestionItem {
    /// The agent's name for this part; the answer is returned under it.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// The answers the agent offers. Empty for free text.
    pub options: Vec<QuestionOption>,
    /// Whether an answer may differ from all [`options`](Self::options), where there are any.
    pub accepts_other: bool,
    /// Whether the answer is a secret, to be kept out of files and logs.
    pub is_secret: bool,
}

/// One answer that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuestionOption {
    /// The answer itself.
    pub label: String,
    /// What choosing it means.
    pub description: Option<String>,
}

impl Question {
    /// Makes a question of its parts.
    #[must_use]
    pub fn new(id: impl Into<QuestionId>, kind: QuestionKind, items: Vec<QuestionItem>) -> Self {
        Self { id: id.into(), kind, items }
    }

    /// Makes a question with one part that takes free text.
    #[must_use]
    pub fn text(id: impl Into<QuestionId>, text: impl Into<String>) -> Self {
        Self::new(id, QuestionKind::Text, vec![QuestionItem::new("answer", text)])
    }
}

impl QuestionItem {
    /// Makes a part that takes free text.
    #[must_use]
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, text) = (id.into(), text.into());
        Self { id, text, options: Vec::new(), accepts_other: false, is_secret: false }
    }

    /// Offers these answers.
    #[must_use]
    pub fn with_options<O: Into<QuestionOption>>(
        mut self,
        options: impl IntoIterator<Item = O>,
    ) -> Self {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }
}

impl QuestionOption {
    /// Makes an option that says what choosing it means.
    #[must_use]
    pub fn new(label: impl Into<String>, description: Option<String>) -> Self {
        Self { label: label.into(), description }
    }
}

impl From<&str> for QuestionOption {
    fn from(label: &str) -> Self {
        Self::new(label, None)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, item) in self.items.iter().enumerate() {
            let gap = if number == 0 { "" } else { " " };
            write!(f, "{gap}{item}")?;
        }
        Ok(())
    }
}

impl fmt::Display for QuestionItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        for (number, option) in self.options.iter().enumerate() {
            let before = if number == 0 { " (" } else { " / " };
            write!(f, "{before}{}", option.label)?;
        }
        if self.options.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
