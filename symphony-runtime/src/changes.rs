//! Settings and prompt, changed from code while the service runs (contract 2.11).

use std::sync::Arc;

use symphony_core::Settings;
use symphony_core::problem::Problem;
use tokio::sync::{mpsc, oneshot};

use crate::handle::ServiceStopped;
use crate::loader::CodeWorkflow;
use crate::service::problem_lines;

/// How many changes may wait; a caller of another one waits too.
const CHANGE_CAPACITY: usize = 16;

/// Why a change of settings or prompt was not made. What was in force is still in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// It cannot be used, for these reasons.
    #[error("the change was refused:\n{}", problem_lines(.0))]
    Refused(Vec<Problem>),
    /// Settings and prompt are those of this workflow file, which a change is made in.
    #[error("settings and prompt are those of a workflow file: edit {0}")]
    WorkflowFile(Arc<str>),
    /// The service does not run yet.
    #[error("the service does not run yet: its builder takes settings and prompt until then")]
    NotRunning,
    /// The service has ended.
    #[error(transparent)]
    Stopped(#[from] ServiceStopped),
}

/// What is in force after a change: the warnings, if there are any.
pub(crate) type ChangeReply = oneshot::Sender<Result<Arc<[Problem]>, ChangeError>>;

/// What is to be changed.
#[derive(Debug)]
pub(crate) enum Change {
    Settings(Box<Settings>),
    Template(String),
}

impl Change {
    /// Returns what is made in code after the change.
    pub(crate) fn apply(self, before: &CodeWorkflow) -> CodeWorkflow {
        match self {
            Self::Settings(settings) => {
                CodeWorkflow { settings: *settings, template: before.template.clone() }
            }
            Self::Template(template) => {
                CodeWorkflow { settings: before.settings.clone(), template }
            }
        }
    }
}

/// Where changes go: to the watch of the workflow, which builds what they need.
#[derive(Clone, Debug)]
pub(crate) struct ChangeSender(mpsc::Sender<(Change, ChangeReply)>);

impl ChangeSender {
    pub(crate) fn new() -> (Self, mpsc::Receiver<(Change, ChangeReply)>) {
        let (sender, receiver) = mpsc::channel(CHANGE_CAPACITY);
        (Self(sender), receiver)
    }

    /// Asks for a change, and waits until it is in force or refused.
    pub(crate) async fn change(&self, change: Change) -> Result<Arc<[Problem]>, ChangeError> {
        let (reply, answer) = oneshot::channel();
        self.0.send((change, reply)).await.map_err(|_| ServiceStopped)?;
        answer.await.map_err(|_| ServiceStopped)?
    }
}
