//! Executes operations on the board, with apollo-compiler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use apollo_compiler::executable::{Field, Selection, SelectionSet};
use apollo_compiler::resolvers::{Execution, FieldError, ObjectValue, ResolveInfo, ResolvedValue};
use apollo_compiler::response::{JsonMap, JsonValue, serde_json_bytes};
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::{Map, Value, json};

use crate::select;
use crate::world::World;

/// The adapter's subset, and what agents need besides.
pub const SCHEMA: &str = concat!(
    include_str!("../../symphony-linear/schema.graphql"),
    include_str!("../schema.graphql")
);

pub(crate) fn schema() -> &'static Valid<Schema> {
    static PARSED: OnceLock<Valid<Schema>> = OnceLock::new();
    PARSED.get_or_init(|| match Schema::parse_and_validate(SCHEMA, "schema.graphql") {
        Ok(schema) => schema,
        Err(errors) => unreachable!("{errors}"),
    })
}

/// Documents that were seen before, parsed and valid.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, Arc<Valid<ExecutableDocument>>>>);

impl Documents {
    /// The document of this text, or what is wrong with it.
    pub(crate) fn get(&self, text: &str) -> Result<Arc<Valid<ExecutableDocument>>, String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = known.get(text) {
            return Ok(Arc::clone(document));
        }
        let document = ExecutableDocument::parse_and_validate(schema(), text, "query.graphql")
            .map_err(|errors| errors.errors.to_string())?;
        let document = Arc::new(document);
        known.insert(text.to_owned(), Arc::clone(&document));
        Ok(document)
    }
}

/// The board, and itself as a value, made anew when it has changed.
#[derive(Debug, Default)]
pub(crate) struct FakeBoard {
    pub(crate) world: World,
    shown: Option<Arc<Value>>,
    /// Whether the server's word for "urgent first" is the other one.
    pub(crate) urgent_last: bool,
}

impl FakeBoard {
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut World) -> T) -> T {
        self.shown = None;
        change(&mut self.world)
    }

    fn show(&mut self) -> Arc<Value> {
        let world = &self.world;
        Arc::clone(self.shown.get_or_insert_with(|| Arc::new(world.query())))
    }
}

/// The answer to an operation, as a response body.
pub(crate) fn execute(
    document: &Valid<ExecutableDocument>,
    variables: &JsonMap,
    board: &Mutex<FakeBoard>,
) -> Value {
    let Ok(operation) = document.operations.get(None) else {
        return json!({ "errors": [{ "message": "which operation?" }] });
    };
    let (shown, urgent_last) = {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        (board.show(), board.urgent_last)
    };
    let execution = Execution::new(schema(), document).raw_variable_values(variables);
    let response = if operation.is_mutation() {
        execution.execute_sync(&Mutation { board, urgent_last })
    } else {
        execution.execute_sync(&TypedRecord { kind: "Query", value: &shown, urgent_last })
    };
    match response {
        Ok(response) => {
            let mut body = json!({ "data": response.data });
            if !response.errors.is_empty() {
                body["errors"] = serde_json::to_value(&response.errors).unwrap_or_default();
            }
            body
        }
        Err(error) => json!({ "errors": [{ "message": format!("{error:?}") }] }),
    }
}

/// A record of a type.
struct TypedRecord<'a> {
    kind: &'a str,
    value: &'a Value,
    urgent_last: bool,
}

/// One page of records.
struct Page<'a> {
    kind: &'a str,
    node_kind: &'a str,
    nodes: Vec<&'a Value>,
    info: Value,
    urgent_last: bool,
}

/// A record that was made for this answer.
struct MadeRecord {
    kind: &'static str,
    value: Value,
    urgent_last: bool,
}

/// The root of changes.
struct Mutation<'a> {
    board: &'a Mutex<FakeBoard>,
    urgent_last: bool,
}

impl ObjectValue for TypedRecord<'_> {
    fn type_name(&self) -> &str {
        self.kind
    }

    fn resolve_field<'a>(
        &'a self,
        info: &'a ResolveInfo<'a>,
    ) -> Result<ResolvedValue<'a>, FieldError> {
        if (self.kind, info.field_name()) == ("Query", "issue") {
            let arguments = plain(info.arguments());
            let id = arguments.get("id").unwrap_or(&Value::Null);
            let mut issues = self.value["issues"].as_array().into_iter().flatten();
            let found = issues.find(|issue| issue["id"] == *id || issue["identifier"] == *id);
            let value = found.ok_or_else(not_found)?;
            return Ok(object("Issue", value, self.urgent_last));
        }
        resolve(self.value, info, self.urgent_last)
    }
}

impl ObjectValue for MadeRecord {
    fn type_name(&self) -> &str {
        self.kind
    }

    fn resolve_field<'a>(
        &'a self,
        info: &'a ResolveInfo<'a>,
    ) -> Result<ResolvedValue<'a>, FieldError> {
        resolve(&self.value, info, self.urgent_last)
    }
}

impl ObjectValue for Page<'_> {
    fn type_name(&self) -> &str {
        self.kind
    }

    fn resolve_field<'a>(
        &'a self,
        info: &'a ResolveInfo<'a>,
    ) -> Result<ResolvedValue<'a>, FieldError> {
        match info.field_name() {
            "nodes" => {
                let (kind, urgent_last) = (self.node_kind, self.urgent_last);
                let nodes = self.nodes.iter();
                let nodes = nodes.map(move |value| Ok(object(kind, value, urgent_last)));
                Ok(ResolvedValue::List(Box::new(nodes)))
            }
            _ => Ok(object("PageInfo", &self.info, self.urgent_last)),
        }
    }
}

impl ObjectValue for Mutation<'_> {
    fn type_name(&self) -> &str {
        "Mutation"
    }

    fn resolve_field<'a>(
        &'a self,
        info: &'a ResolveInfo<'a>,
    ) -> Result<ResolvedValue<'a>, FieldError> {
        let arguments = plain(info.arguments());
        let input = arguments.get("input").cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let id = text(arguments.get("id").unwrap_or(&input["issueId"]));
        let stateful = input["stateId"].as_str().map(|id| board.world.state_name(id));
        if stateful == Some(None) {
            let message = "Entity not found: WorkflowState".to_owned();
            return Err(FieldError { message });
        }
        let found = board.change(|world| {
            world.edit(&id, |issue| match info.field_name() {
                "commentCreate" => issue.comments.push(text(&input["body"])),
                "attachmentCreate" => {
                    issue.attachments.push((text(&input["title"]), text(&input["url"])));
                }
                _ => {
                    issue.state = stateful.flatten().unwrap_or_else(|| issue.state.clone());
                    if let Some(title) = input["title"].as_str() {
                        issue.title = title.to_owned();
                    }
                }
            })
        });
        let issue = board.world.issue(&id).filter(|_| found).ok_or_else(not_found)?;
        let issue = board.world.show(issue);
        let last = |list: &Value| list.as_array().and_then(|list| list.last()).cloned();
        let (comment, attachment) = (last(&issue["comments"]), last(&issue["attachments"]));
        let kind = match info.field_name() {
            "commentCreate" => "CommentPayload",
            "attachmentCreate" => "AttachmentPayload",
            _ => "IssuePayload",
        };
        let value = json!({
            "success": true, "issue": issue, "comment": comment, "attachment": attachment,
        });
        let made = MadeRecord { kind, value, urgent_last: self.urgent_last };
        Ok(ResolvedValue::Object(Box::new(made)))
    }
}

fn not_found() -> FieldError {
    FieldError { message: "Entity not found: Issue".to_owned() }
}

fn object<'a>(kind: &'a str, value: &'a Value, urgent_last: bool) -> ResolvedValue<'a> {
    if value.is_null() {
        return ResolvedValue::Leaf(JsonValue::Null);
    }
    ResolvedValue::Object(Box::new(TypedRecord { kind, value, urgent_last }))
}

/// A field of a record: a leaf, a record, or a page of them, as the schema says.
fn resolve<'a>(
    record: &'a Value,
    info: &'a ResolveInfo<'a>,
    urgent_last: bool,
) -> Result<ResolvedValue<'a>, FieldError> {
    let value = record.get(info.field_name()).unwrap_or(&Value::Null);
    let kind = info.field_definition().ty.inner_named_type().as_str();
    if !matches!(schema().types.get(kind), Some(ExtendedType::Object(_))) || value.is_null() {
        return Ok(ResolvedValue::Leaf(serde_json_bytes::to_value(value).unwrap_or_default()));
    }
    let Some(node_kind) = kind.strip_suffix("Connection") else {
        return Ok(object(kind, value, urgent_last));
    };
    let arguments = plain(info.arguments());
    let argument = |name: &str| arguments.get(name).unwrap_or(&Value::Null);
    let with_archive = argument("includeArchived") == &Value::Bool(true);
    let records = value.as_array().into_iter().flatten();
    let mut records: Vec<&Value> = records
        .filter(|record| with_archive || record.get("archivedAt").is_none_or(Value::is_null))
        .filter(|record| select::matches(argument("filter"), record))
        .collect();
    select::sort(&mut records, argument("sort"), urgent_last);
    let (nodes, more, cursor) = select::page(&records, &arguments);
    let info = json!({ "hasNextPage": more, "endCursor": cursor });
    Ok(ResolvedValue::Object(Box::new(Page { kind, node_kind, nodes, info, urgent_last })))
}

fn plain(map: &JsonMap) -> Map<String, Value> {
    match serde_json::to_value(map) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// What an operation costs: a property is a tenth, an object is one, a connection its nodes times
/// `first`, of which there are 50 where the document does not say.
pub(crate) fn complexity(document: &ExecutableDocument, variables: &JsonMap) -> u64 {
    let variables = plain(variables);
    let Ok(operation) = document.operations.get(None) else { return 0 };
    tenths(document, &operation.selection_set, &variables).div_ceil(10)
}

fn tenths(
    document: &ExecutableDocument,
    set: &SelectionSet,
    variables: &Map<String, Value>,
) -> u64 {
    let cost = |selection: &Selection| match selection {
        Selection::Field(field) => field_tenths(document, field, variables),
        Selection::InlineFragment(inline) => tenths(document, &inline.selection_set, variables),
        Selection::FragmentSpread(spread) => document
            .fragments
            .get(&spread.fragment_name)
            .map_or(0, |fragment| tenths(document, &fragment.selection_set, variables)),
    };
    set.selections.iter().map(cost).sum()
}

fn field_tenths(
    document: &ExecutableDocument,
    field: &Field,
    variables: &Map<String, Value>,
) -> u64 {
    if field.selection_set.is_empty() {
        return 1;
    }
    let inner = tenths(document, &field.selection_set, variables);
    let is_connection = field.ty().inner_named_type().ends_with("Connection");
    if !is_connection {
        return 10 + inner;
    }
    let first = field.argument_by_name("first").ok().and_then(|value| {
        let named = value.as_variable().and_then(|name| variables.get(name.as_str()));
        named.and_then(Value::as_u64).or_else(|| value.to_i32().and_then(|n| u64::try_from(n).ok()))
    });
    10 + first.unwrap_or(50) * inner
}
