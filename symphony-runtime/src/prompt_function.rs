//! A prompt that an embedder's code makes, within bounds (contract 15.3).

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::failure::chain;
use symphony_core::run::RunId;
use symphony_core::{Failure, FailureKind, Issue};
use symphony_workflow::prompt::MAX_PROMPT_BYTES;

use crate::panics::isolated;

/// What a prompt function is told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PromptContext {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// `None` on the first run, then counted from one.
    pub attempt: Option<u32>,
    /// How many turns the run may take.
    pub max_turns: u32,
    /// Which run it is.
    pub run: RunId,
    /// The folder in which the agent is about to work. `before_run` has run there.
    pub workspace: PathBuf,
    /// What the template says: the body of the workflow file, or the one given with the settings.
    pub rendered: String,
}

type PromptFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// An embedder's function that makes prompts.
#[derive(Clone)]
pub(crate) struct PromptFunction(Arc<dyn Fn(PromptContext) -> PromptFuture + Send + Sync>);

impl fmt::Debug for PromptFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PromptFunction")
    }
}

impl PromptFunction {
    pub(crate) fn new<F, E>(function: impl Fn(PromptContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move |context| {
            let made = function(context);
            Box::pin(async move { made.await.map_err(|error| chain(&*error.into())) })
        }))
    }

    /// Makes the prompt of one run. Whatever the function does, the run alone fails.
    pub(crate) async fn call(
        &self,
        context: PromptContext,
        limit: Duration,
    ) -> Result<String, Failure> {
        let function = Arc::clone(&self.0);
        // Within the task, so that a panic before the first await is caught too.
        let task = isolated(async move { function(context).await });
        let failed = |why: String| {
            Failure::new(FailureKind::Prompt, format!("the prompt function failed: {why}"))
        };
        match tokio::time::timeout(limit, task).await {
            Err(_) => {
                let bound = limit.as_millis();
                Err(failed(format!("it took longer than {bound} ms (hooks.timeout_ms)")))
            }
            Ok(Err(panic)) => Err(failed(panic.message)),
            Ok(Ok(Err(error))) => Err(failed(error)),
            Ok(Ok(Ok(text))) if text.trim().is_empty() => {
                Err(failed("it returned a blank text".to_owned()))
            }
            Ok(Ok(Ok(text))) if text.len() > MAX_PROMPT_BYTES => {
                let bytes = text.len();
                Err(failed(format!("its text has {bytes} bytes, of at most {MAX_PROMPT_BYTES}")))
            }
            Ok(Ok(Ok(text))) => Ok(text),
        }
    }
}
