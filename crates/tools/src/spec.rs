//! Builds tools and their descriptions for models.

use std::sync::Arc;

use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::EffectClass;
use posse_engine::ports::{EffectTool, Handler, RequestTool, Tool};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The data of a tool.
pub(crate) struct Parts {
    pub(crate) name: &'static str,
    pub(crate) class: EffectClass,
    /// The description for the model.
    pub(crate) text: &'static str,
    /// The specifier for permission rules.
    pub(crate) specifier: fn(&Value) -> Option<String>,
}

/// A tool with an effect on the outside world and an input of type `T`.
pub(crate) fn effect<T: JsonSchema>(parts: &Parts, tool: impl EffectTool) -> Tool {
    fixed::<T>(parts, Handler::Effect(Arc::new(tool)))
}

/// A tool that sends a request to the engine and has an input of type `T`.
pub(crate) fn request<T: JsonSchema>(parts: &Parts, tool: impl RequestTool) -> Tool {
    fixed::<T>(parts, Handler::Request(Arc::new(tool)))
}

fn fixed<T: JsonSchema>(parts: &Parts, handler: Handler) -> Tool {
    let spec = spec::<T>(parts.name, parts.text.trim_end());
    let Parts { name, class, specifier, .. } = *parts;
    Tool { name, class, describe: Arc::new(move |_| spec.clone()), specifier, handler }
}

/// The description of a tool with an input of type `T`, for models.
pub(crate) fn spec<T: JsonSchema>(name: &str, text: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: text.to_owned(), input_schema: schema::<T>() }
}

/// The schema of `T` in a simple form that every model understands: without references, and an optional field is not
/// required instead of nullable.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(top) = &mut schema {
        // The tool's description replaces it.
        top.remove("description");
    }
    simplify(&mut schema);
    // Every build sends the same text.
    schema.sort_all_objects();
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for noise in ["title", "format", "default"] {
        schema.remove(noise);
    }
    drop_null(schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = schema.get_mut("items") {
        simplify(items);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = schema.get_mut(choice) {
            choices.iter_mut().for_each(simplify);
        }
    }
}

/// Removes null from the types of a field.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        schema.remove("anyOf");
        for (key, value) in only {
            // The description of the field takes precedence over that of its type.
            schema.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only described")]
    struct Input {
        /// Where.
        path: String,
        /// How many.
        limit: Option<u32>,
        /// Which.
        kind: Option<Size>,
        /// Parts.
        parts: Option<Vec<Part>>,
    }

    /// Not shown.
    #[derive(JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only described")]
    enum Size {
        Big,
        Small,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only described")]
    struct Part {
        /// What is called title stays.
        title: Option<String>,
    }

    #[test]
    fn a_schema_is_plain() {
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "Where."},
                "limit": {"type": "integer", "minimum": 0, "description": "How many."},
                "kind": {"type": "string", "enum": ["big", "small"], "description": "Which."},
                "parts": {
                    "type": "array",
                    "description": "Parts.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "title": {"type": "string", "description": "What is called title stays."},
                        },
                    },
                },
            },
        });
        assert_eq!(schema::<Input>(), expected);
    }
}
