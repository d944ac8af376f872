//! The tracker's tools, run for the agent beside the reading of its lines (contract 10.7).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::Issue;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::answers::tool_result;
use crate::text::{cut, one_line};
use crate::wire::ToolCalled;

/// How long a tool may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest arguments, and the longest result, that are passed on.
const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// At most so many calls at once.
const MAX_CALLS: usize = 16;

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct ToolEnd {
    /// The id of the request.
    pub(crate) id: Box<RawValue>,
    pub(crate) result: Value,
    /// Whether it changed the tracker.
    pub(crate) changed: bool,
}

/// The calls that are being run. Dropped, they end.
#[derive(Debug)]
pub(crate) struct ToolCalls {
    tools: Option<Arc<dyn AgentTools>>,
    names: Vec<String>,
    issue: Arc<Issue>,
    calls: JoinSet<ToolEnd>,
}

impl ToolCalls {
    pub(crate) fn new(tools: Option<Arc<dyn AgentTools>>, issue: Arc<Issue>) -> Self {
        let specs = tools.as_ref().map(|tools| tools.specs()).unwrap_or_default();
        let names = specs.into_iter().map(|spec| spec.name).collect();
        Self { tools, names, issue, calls: JoinSet::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Starts a call and says so; or says why it is refused.
    pub(crate) fn call(&mut self, id: Box<RawValue>, called: ToolCalled) -> Result<String, String> {
        let name = one_line(&called.tool, 100);
        let is_known = called.namespace.is_none() && self.names.contains(&called.tool);
        let Some(tools) = self.tools.as_ref().filter(|_| is_known) else {
            let known = if self.names.is_empty() { "none".into() } else { self.names.join(", ") };
            return Err(format!("there is no tool {name}; there are: {known}"));
        };
        if self.calls.len() >= MAX_CALLS {
            return Err(format!("{MAX_CALLS} calls are running; call {name} again later"));
        }
        let arguments = called.arguments.as_deref().unwrap_or(RawValue::NULL).get();
        if arguments.len() > MAX_RESULT_BYTES {
            return Err(format!("the arguments of {name} have more than {MAX_RESULT_BYTES} bytes"));
        }
        let Ok(arguments) = serde_json::from_str(arguments) else {
            return Err(format!("the arguments of {name} are nested too deeply"));
        };
        let (tools, issue) = (Arc::clone(tools), Arc::clone(&self.issue));
        let call = ToolCall { name: called.tool, arguments, issue };
        // In a task of its own: a tool that panics is a tool that failed.
        let task = AbortOnDropHandle::new(tokio::spawn(async move { tools.call(call).await }));
        self.calls.spawn(async move {
            // How far the call came is unknown.
            let failed = |text: &str| ToolResult::failure(text).with_change(true);
            let result = match tokio::time::timeout(CALL_TIMEOUT, task).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => failed("the tool failed inside Symphony; see its log"),
                Err(_) => {
                    failed(&format!("the tool took longer than {} s", CALL_TIMEOUT.as_secs()))
                }
            };
            let changed = result.changed;
            let result = tool_result(result.success, &cut(result.text, MAX_RESULT_BYTES));
            ToolEnd { id, result, changed }
        });
        Ok(format!("calls {name}"))
    }

    /// The next call that has ended. Safe to drop.
    pub(crate) async fn finished(&mut self) -> ToolEnd {
        loop {
            match self.calls.join_next().await {
                Some(Ok(finished)) => return finished,
                Some(Err(_)) => {} // the task cannot panic and is never cancelled
                None => std::future::pending().await,
            }
        }
    }
}
