//! What a tracker gives to agents (contract 10.7).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{TrackerFixture, TrackerTrial};
use crate::conformance::{Deviation, RuleResult, Unable, ensure, ensure_eq};
use crate::tracker::{AgentTools, ToolCall, ToolResult};

/// An agent can tell them apart and knows what to send.
pub fn rule_10_7_tools_have_distinct_names_and_object_schemas<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let specs = tools(fixture)?.specs();
    let names: BTreeSet<_> = specs.iter().map(|spec| spec.name.trim()).collect();
    ensure_eq("distinct names", names.len(), specs.len())?;
    for spec in &specs {
        ensure(!spec.name.trim().is_empty(), || "a tool has no name".to_owned())?;
        ensure(spec.input_schema.is_object(), || {
            format!("the schema of {} is {}", spec.name, spec.input_schema)
        })?;
    }
    Ok(())
}

/// The session goes on.
pub fn rule_10_7_an_unknown_tool_is_a_failure_result<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let result = call(fixture, "no_such_tool", json!({}))?;
    ensure(!result.success, || format!("no_such_tool answered {:?}", result.text))
}

/// The session goes on, and the agent can read what was wrong.
pub fn rule_10_7_wrong_arguments_are_a_failure_result<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    for spec in tools(fixture)?.specs() {
        let result = call(fixture, &spec.name, json!(["not", "an", "object"]))?;
        ensure(!result.success && !result.text.trim().is_empty(), || {
            format!("{} answered a list with {result:?}", spec.name)
        })?;
    }
    Ok(())
}

/// What the agent is told has happened, has happened; and it is known as a change by the agent itself
/// (contract 8.2).
pub fn rule_10_7_a_tool_that_moves_an_issue_moves_its_own_and_no_other<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let tools = tools(fixture)?;
    let trial = TrackerTrial::new(fixture);
    let before = trial.put("Before")?;
    let own = trial.put("The agent's own")?;
    let after = trial.put("After")?;
    let call = fixture.move_call(&Arc::new(trial.one(&own)?), &trial.other)?;
    let result = fixture.block_on(tools.call(call));
    ensure(result.success, || format!("the tool answered {:?}", result.text))?;
    ensure(result.changed, || "the result does not say that it changed something".to_owned())?;
    ensure_eq("the state of its own issue", &trial.one(&own)?.state, &trial.other)?;
    for other in [&before, &after] {
        ensure_eq("the state of another issue", &trial.one(other)?.state, &trial.open)?;
    }
    Ok(())
}

fn tools<F: TrackerFixture>(fixture: &F) -> Result<Arc<dyn AgentTools>, Deviation> {
    let tools = fixture.tracker().tools();
    tools.ok_or(Deviation::Skipped(Unable("the tracker has no tools")))
}

fn call<F: TrackerFixture>(
    fixture: &F,
    name: &str,
    arguments: Value,
) -> Result<ToolResult, Deviation> {
    let tools = tools(fixture)?;
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("The agent's own")?;
    let call = ToolCall { name: name.to_owned(), arguments, issue: Arc::new(trial.one(&id)?) };
    Ok(fixture.block_on(tools.call(call)))
}
