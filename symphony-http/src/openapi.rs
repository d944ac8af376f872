//! The OpenAPI document: made from the routes, and from the types that they answer with.

use axum::http::StatusCode;
use axum::response::Response;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use symphony_api::{
    CommandReceipt, DeliveryReceipt, ErrorBody, ExplanationStatus, IssueExplanation, IssueStatus,
    Status,
};

use crate::routes::{Route, api};

/// What a route answers when all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    State,
    Issue,
    Explanation,
    IssueExplanation,
    Queued,
    Received,
    Document,
    Events,
    Text,
}

impl Returns {
    const fn status(self) -> u16 {
        match self {
            Self::Queued => 202,
            _ => 200,
        }
    }

    fn content(self, types: &mut SchemaGenerator) -> Value {
        let text = json!({"type": "string"});
        match self {
            Self::State => schema_of::<Status>(types),
            Self::Issue => schema_of::<IssueStatus>(types),
            Self::Explanation => schema_of::<ExplanationStatus>(types),
            Self::IssueExplanation => schema_of::<IssueExplanation>(types),
            Self::Queued => schema_of::<CommandReceipt>(types),
            Self::Received => schema_of::<DeliveryReceipt>(types),
            Self::Document => json!({"application/json": {"schema": {"type": "object"}}}),
            Self::Events => json!({"text/event-stream": {"schema": text}}),
            Self::Text => json!({"text/plain": {"schema": text}}),
        }
    }
}

fn schema_of<T: JsonSchema>(types: &mut SchemaGenerator) -> Value {
    json!({"application/json": {"schema": types.subschema_for::<T>()}})
}

/// What may go wrong on any route, and why.
const ERRORS: [(u16, &str); 11] = [
    (400, "The request cannot be understood"),
    (401, "A token, or a signature, is needed"),
    (403, "Host or Origin are not this server's"),
    (404, "Nothing of this name is known"),
    (405, "Not with this method"),
    (409, "Not in the stage that the issue is in"),
    (413, "The body is too large"),
    (414, "The address is too long"),
    (415, "Not with this type of content"),
    (429, "Too many wrong tokens came from this address"),
    (503, "The service has ended, or too much is asked at once"),
];

/// The errors of every route.
const COMMON_ERRORS: [u16; 7] = [401, 403, 405, 413, 414, 429, 503];

/// The OpenAPI document of the API.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.contract = schemars::generate::Contract::Serialize;
    });
    let mut types = settings.into_generator();
    let error = schema_of::<ErrorBody>(&mut types);
    let mut paths = Map::new();
    for route in api() {
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = operation(&route, &mut types, &error);
        paths.insert(route.path.to_owned(), json!({ method: operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Symphony",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A running Symphony: what it does, why it does not, and what an operator may want of it.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": types.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, types: &mut SchemaGenerator, error: &Value) -> Value {
    let mut responses = Map::new();
    let fine = json!({"description": route.summary, "content": route.answer.content(types)});
    responses.insert(route.answer.status().to_string(), fine);
    for (status, why) in ERRORS {
        if COMMON_ERRORS.contains(&status) || route.errors.contains(&status) {
            let response = json!({"description": why, "content": error});
            responses.insert(status.to_string(), response);
        }
    }
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = names
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
        })
        .collect();
    json!({"summary": route.summary, "parameters": parameters, "responses": responses})
}

/// `GET /api/v1/openapi.json`
pub(crate) async fn serve() -> Response {
    crate::api::json(StatusCode::OK, &document())
}
