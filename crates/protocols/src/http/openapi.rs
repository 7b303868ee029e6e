//! The OpenAPI document of the API: made from the table of operations and the schemas of its objects, so that it cannot
//! differ from the code.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::idempotency;
use super::operations::{Answers, Effect, OPERATIONS, Operation};
use super::problem::Problem;
use super::query::Parameter;
use super::session;
use super::sse::LAST_EVENT_ID;

/// The path of schemas in the document.
const SCHEMAS: &str = "#/components/schemas/";
/// The path of the same schemas among those of `posse::api`.
const DEFINITIONS: &str = "#/$defs/";

/// The document, as JSON.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = SCHEMAS.trim_start_matches('#').to_owned().into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let method = match operation.effect {
            Effect::Reads => "get",
            Effect::Acts => "post",
        };
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[method] = described(operation, &mut generator);
    }
    generator.subschema_for::<Problem>();
    let mut schemas = generator.take_definitions(true);
    let mut objects = posse::api::json_schema();
    rename(&mut objects);
    if let Some(Value::Object(objects)) = objects.get_mut("$defs").map(Value::take) {
        schemas.extend(objects);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Posse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs of sub-agents under contract: start them, watch them, answer their questions.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": session::COOKIE },
            },
            "schemas": schemas,
        },
    })
}

/// Rewrites references to definitions into references to schemas of the document.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(DEFINITIONS)
            {
                *reference = format!("{SCHEMAS}{name}");
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}

fn described(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = path_parameters(operation.path).collect();
    parameters.extend(operation.query.iter().map(query_parameter));
    if operation.effect == Effect::Acts {
        let meaning =
            "A request with the key of an earlier one gets its answer, and does nothing a second time.";
        parameters.push(header(idempotency::HEADER, &json!({ "type": "string" }), meaning));
    }
    if matches!(operation.answers, Answers::Stream(_)) {
        let meaning =
            "The number of the last message that the client has read: the stream continues after it.";
        parameters.push(header(LAST_EVENT_ID, &json!({ "type": "integer", "minimum": 0 }), meaning));
    }
    let mut responses = answers(operation.answers);
    if operation.effect == Effect::Reads && !matches!(operation.answers, Answers::Stream(_)) {
        responses["304"] = json!({ "description": "The client has this answer already, by its ETag." });
    }
    responses["default"] = json!({
        "description": "A problem.",
        "content": { "application/problem+json": { "schema": reference("Problem") } },
    });
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.meaning,
        "description": format!("Needs the right `{}`.", operation.right.as_str()),
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(body) = operation.body {
        described["requestBody"] = json!({
            "content": { "application/json": { "schema": body(generator) } },
        });
    }
    described
}

fn answers(answers: Answers) -> Value {
    match answers {
        Answers::Object(name, status) => json!({
            status.to_string(): {
                "description": "The answer.",
                "content": { "application/json": { "schema": reference(name) } },
            },
        }),
        Answers::Text => json!({
            "200": {
                "description": "The text.",
                "content": { "text/plain": { "schema": { "type": "string" } } },
            },
        }),
        Answers::Bundle => json!({
            "200": {
                "description": "The bundle.",
                "content": { "application/gzip": { "schema": { "type": "string", "format": "binary" } } },
            },
        }),
        Answers::Stream(name) => json!({
            "200": {
                "description": format!("Server-sent events. The data of a message without a name is a `{name}`."),
                "content": { "text/event-stream": { "schema": { "type": "string" } } },
            },
            "204": { "description": "Nothing more will come." },
        }),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
}

/// The parts of a path that a client fills in.
fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(|name| {
        let meaning = match name {
            "run" => "The run's id.",
            _ => "The agent's id, or relative to the run as `2.1`; `0` is the root.",
        };
        json!({
            "name": name, "in": "path", "required": true, "description": meaning, "schema": { "type": "string" },
        })
    })
}

fn query_parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": "query",
        "required": parameter.is_required,
        "description": parameter.meaning,
        "schema": parameter.schema(),
    })
}

fn header(name: &str, schema: &Value, meaning: &str) -> Value {
    json!({ "name": name, "in": "header", "required": false, "description": meaning, "schema": schema })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every reference in a value.
    fn references(value: &Value, found: &mut HashSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    found.insert(reference.clone());
                }
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_to_a_schema() {
        let document = openapi();
        let mut found = HashSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let name = reference.strip_prefix(SCHEMAS).unwrap_or_else(|| panic!("{reference}"));
            assert!(document["components"]["schemas"][name].is_object(), "{reference}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let names: HashSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
    }
}
