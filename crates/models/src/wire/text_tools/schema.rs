//! Enforces a schema for answers: one object with text and calls.

use std::sync::Arc;

use posse_agent::tool_spec::ToolSpec;
use posse_domain::canonical_json;
use posse_domain::json_values::has_too_many_values;
use serde_json::{Value, json};

use super::{WrittenCall, repair};

/// Adds the schema to a Chat Completions request, after all fields that stay the same between calls.
pub(super) fn constrain(body: &mut Vec<u8>, tools: &[Arc<ToolSpec>]) {
    let call = |tool: &Arc<ToolSpec>| {
        object(&json!({ "name": { "type": "string", "enum": [tool.name] }, "arguments": tool.input_schema }))
    };
    let calls: Vec<Value> = tools.iter().map(call).collect();
    let schema = object(&json!({
        "text": { "type": "string" },
        "calls": { "type": "array", "items": { "anyOf": calls } },
    }));
    let format = json!({
        "type": "json_schema",
        "json_schema": { "name": "reply", "strict": true, "schema": schema },
    });
    if body.pop_if(|last| *last == b'}').is_some() {
        body.extend_from_slice(b",\"response_format\":");
        body.extend_from_slice(canonical_json(&format).as_bytes());
        body.push(b'}');
    }
}

/// The schema of an object with exactly these properties.
fn object(properties: &Value) -> Value {
    let names: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "required": names, "additionalProperties": false, "properties": properties })
}

/// Text and calls of an answer with this schema. `None` if the answer differs.
pub(super) fn read(said: &str) -> Option<(String, Vec<WrittenCall>)> {
    if has_too_many_values(said.as_bytes()) {
        return None;
    }
    let Value::Object(mut answer) = serde_json::from_str(said.trim()).ok()? else { return None };
    let (Some(Value::String(text)), Some(Value::Array(calls)), true) =
        (answer.remove("text"), answer.remove("calls"), answer.is_empty())
    else {
        return None;
    };
    Some((text, calls.into_iter().flat_map(repair::written).collect()))
}
