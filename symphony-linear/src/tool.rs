//! The tool `linear_graphql`: an agent asks Linear one thing at a time, with Symphony's key and
//! within its budget (contract 10.7, 11.4).

use std::sync::Arc;
use std::time::Duration;

use apollo_parser::cst::{Definition, OperationType};
use apollo_parser::{Parser, SyntaxToken};
use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value, json};
use symphony_core::budget::Spender;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec};
use symphony_core::{IssueId, plain};

use crate::answer;
use crate::client::Client;
use crate::error::LinearError;
use crate::transport::{Bounds, Reply};

/// The tool's name.
pub const LINEAR_GRAPHQL: &str = "linear_graphql";

/// Bounds of one call: a document, its variables, what is read and what the agent is shown.
const MAX_QUERY_BYTES: usize = 64 << 10;
const MAX_VARIABLES_BYTES: usize = 1 << 20;
const MAX_ANSWER_BYTES: usize = 8 << 20;
const MAX_RESULT_BYTES: usize = 128 << 10;

/// How deep a document may be nested.
const MAX_DEPTH: usize = 100;

/// What a call is taken to cost until Linear says what it did.
const ASSUMED_POINTS: u64 = 200;

/// How long a call waits for the budget before the agent is told to.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(20);

/// The tool, with the connection of the tracker that it belongs to.
#[derive(Debug)]
pub(crate) struct LinearGraphql {
    client: Arc<Client>,
    read_only: bool,
    timeout: Duration,
}

impl LinearGraphql {
    pub(crate) const fn new(client: Arc<Client>, read_only: bool, timeout: Duration) -> Self {
        Self { client, read_only, timeout }
    }

    /// What the agent is shown, and whether the call changed something.
    async fn answer(&self, call: ToolCall) -> Result<(String, bool), Refusal> {
        if call.name != LINEAR_GRAPHQL {
            return Err(Refusal::new("unknown_tool", format!("there is only {LINEAR_GRAPHQL}")));
        }
        let request = Request::read(call.arguments)?;
        let writes = request.check(self.read_only)?;
        let body = serde_json::to_vec(&request)
            .map_err(|error| Refusal::new("invalid_arguments", error.to_string()))?;
        let reply =
            self.post(&call.issue.id, body).await.map_err(|error| failed(&error, writes))?;
        result(&reply, writes).map(|text| (text, writes))
    }

    /// Makes the request as soon as the budget lets it, unless that takes too long.
    async fn post(&self, issue: &IssueId, body: Vec<u8>) -> Result<Reply, LinearError> {
        let (spender, body) = (Spender::Tool(issue.clone()), bytes::Bytes::from(body));
        let bounds = Bounds { time: self.timeout, bytes: MAX_ANSWER_BYTES };
        let mut patience = BUDGET_TIMEOUT;
        loop {
            let error = match self.client.post(&spender, ASSUMED_POINTS, body.clone(), bounds).await
            {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            // A call that was refused, by us or by Linear, has changed nothing and may be repeated.
            let wait = error.retry_at().and_then(|at| self.client.now().wall.until(at));
            let Some(wait) = wait.filter(|wait| *wait <= patience) else { return Err(error) };
            let wait = wait.max(Duration::from_millis(100));
            patience = patience.saturating_sub(wait);
            tokio::time::sleep(wait).await;
        }
    }
}

#[async_trait]
impl AgentTools for LinearGraphql {
    fn specs(&self) -> Vec<ToolSpec> {
        let what = if self.read_only {
            "Reads Linear with one GraphQL query. Mutations are refused."
        } else {
            "Reads or changes Linear with one GraphQL query or mutation."
        };
        vec![ToolSpec::new(
            LINEAR_GRAPHQL,
            format!(
                "{what} One operation per call; values belong into `variables`. Ask for few fields \
                 and small pages (`first`): answers are limited in size, and all agents share one \
                 rate limit. A state is changed by its id, which the issue's team knows."
            ),
            json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "maxLength": MAX_QUERY_BYTES,
                        "description": "A GraphQL document with exactly one operation.",
                    },
                    "variables": {
                        "type": ["object", "null"],
                        "description": "The values of its variables.",
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        )]
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        match self.answer(call).await {
            Ok((text, changed)) => ToolResult::success(text).with_change(changed),
            Err(refusal) => {
                let changed = refusal.may_have_changed;
                ToolResult::failure(refusal.shown()).with_change(changed)
            }
        }
    }
}

/// What an agent asks for. Exactly what is checked is sent.
#[derive(Debug, Serialize)]
struct Request {
    query: String,
    variables: Map<String, Value>,
}

impl Request {
    fn read(arguments: Value) -> Result<Self, Refusal> {
        let invalid = |message: &str| Refusal::new("invalid_arguments", message.to_owned());
        let mut arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::String(query) => Map::from_iter([("query".to_owned(), query.into())]),
            _ => return Err(invalid("give an object with `query` and, if needed, `variables`")),
        };
        let query = match arguments.remove("query") {
            Some(Value::String(query)) if !query.trim().is_empty() => query,
            _ => return Err(invalid("`query` must be a GraphQL document")),
        };
        let variables = match arguments.remove("variables") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(variables)) => variables,
            Some(_) => return Err(invalid("`variables` must be an object")),
        };
        if let Some(key) = arguments.keys().next() {
            let key = plain(key, 100);
            return Err(invalid(&format!("there is no argument `{key}`")));
        }
        if query.len() > MAX_QUERY_BYTES {
            return Err(invalid(&format!("`query` must have at most {MAX_QUERY_BYTES} bytes")));
        }
        let length = serde_json::to_vec(&variables).map_or(0, |text| text.len());
        if length > MAX_VARIABLES_BYTES {
            let most = MAX_VARIABLES_BYTES;
            return Err(invalid(&format!("`variables` must have at most {most} bytes")));
        }
        // A line that ends in another way for Linear than for us could hide what follows it.
        let query = query.replace("\r\n", "\n").replace('\r', "\n");
        Ok(Self { query, variables })
    }

    /// Whether it changes something, if it may be sent at all.
    fn check(&self, read_only: bool) -> Result<bool, Refusal> {
        let invalid = |message: String| Refusal::new("invalid_query", message);
        let tree = Parser::new(&self.query).recursion_limit(MAX_DEPTH).parse();
        if let Some(error) = tree.errors().next() {
            let error = plain(error.message(), 500);
            return Err(invalid(format!("this is not a GraphQL document: {error}")));
        }
        let mut operations = Vec::new();
        for definition in tree.document().definitions() {
            match definition {
                Definition::OperationDefinition(operation) => operations.push(operation),
                Definition::FragmentDefinition(_) => {}
                _ => return Err(invalid("only operations and fragments can be sent".to_owned())),
            }
        }
        let [operation] = &operations[..] else {
            let message = format!(
                "a document must have exactly one operation, this one has {}: make one call for \
                 each",
                operations.len()
            );
            return Err(Refusal::new("not_one_operation", message));
        };
        // Without a word it is a query.
        let kind = operation.operation_type();
        let is = |token: fn(&OperationType) -> Option<SyntaxToken>| {
            kind.as_ref().is_some_and(|kind| token(kind).is_some())
        };
        if kind.is_none() || is(OperationType::query_token) {
            Ok(false)
        } else if !is(OperationType::mutation_token) {
            let message = "subscriptions cannot be used here: ask again when needed";
            Err(invalid(message.to_owned()))
        } else if read_only {
            Err(Refusal::new("read_only", "the tool may only read here".to_owned()))
        } else {
            Ok(true)
        }
    }
}

/// What the agent is shown of an answer.
fn result(reply: &Reply, wrote: bool) -> Result<String, Refusal> {
    match answer::data::<Value>(reply) {
        Ok(data) => shown(&json!({ "data": data }), wrote),
        Err(error) => {
            let mut refusal = failed(&error, wrote);
            // What Linear says of a wrong field or a wrong value helps the agent most.
            let body = serde_json::from_slice::<Value>(&reply.body).ok();
            let response = body.filter(|body| body.get("errors").is_some());
            refusal.response = response.filter(|body| body.to_string().len() <= MAX_RESULT_BYTES);
            Err(refusal)
        }
    }
}

fn shown(value: &Value, wrote: bool) -> Result<String, Refusal> {
    let text = value.to_string();
    if text.len() <= MAX_RESULT_BYTES {
        return Ok(text);
    }
    let done = if wrote { "the change was made, but " } else { "" };
    let message = format!(
        "{done}the result has {} bytes, and at most {MAX_RESULT_BYTES} are shown: ask for fewer \
         fields or a smaller `first`",
        text.len()
    );
    let refusal = Refusal::new("result_too_large", message);
    Err(Refusal { may_have_changed: wrote, ..refusal })
}

/// Why a call did nothing, or is not known to have done anything.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    message: String,
    retry_after: Option<Duration>,
    response: Option<Value>,
    /// Whether Linear may have made the change all the same.
    may_have_changed: bool,
}

impl Refusal {
    const fn new(code: &'static str, message: String) -> Self {
        Self { code, message, retry_after: None, response: None, may_have_changed: false }
    }

    /// What the agent reads: a code to branch on and a message to act on.
    fn shown(self) -> String {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(wait) = self.retry_after {
            error["retry_after_seconds"] = wait.as_secs().saturating_add(1).into();
        }
        let mut all = json!({ "error": error });
        if let Some(response) = self.response {
            all["response"] = response;
        }
        all.to_string()
    }
}

fn failed(error: &LinearError, writes: bool) -> Refusal {
    let mut refusal = Refusal::new(error.kind().as_str(), error.to_string());
    // A gateway that gave up, or a proxy, does not know what Linear did.
    let is_lost = match error {
        LinearError::Status { status, .. } => *status >= 500,
        LinearError::TimedOut(_)
        | LinearError::BrokeOff(_)
        | LinearError::TooLarge { .. }
        | LinearError::Partial { .. }
        | LinearError::NotJson { .. }
        | LinearError::Unexpected(_) => true,
        _ => false,
    };
    refusal.may_have_changed = is_lost && writes;
    if refusal.may_have_changed {
        refusal.message += "; the change may have been made: look before you repeat it";
    }
    refusal.retry_after = error.retry_at().and_then(|at| crate::client::wall().until(at));
    refusal
}
