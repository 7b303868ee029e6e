//! Writes the client of the page, `web/src/api/client.ts`, from the OpenAPI document: a type for each schema and a function
//! for each operation. How it talks to its server is written by hand, in `transport.ts` beside it.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::openapi::openapi;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/api/client.ts");
/// The path of schemas in the document.
const SCHEMAS: &str = "#/components/schemas/";
const HEAD: &str = "\
// Generated from the OpenAPI document by `cargo xtask reference`.

import {
  follow,
  get,
  getText,
  part,
  post,
  url,
  type CallOptions,
  type Follower,
  type Following,
} from './transport';
";

fn client(document: &Value) -> String {
    let mut source = HEAD.to_owned();
    let mut schemas: Vec<(&String, &Value)> = fields(&document["components"]["schemas"]).collect();
    schemas.sort_by_key(|(name, _)| *name);
    for (name, schema) in schemas {
        write_schema(&mut source, name, schema);
    }
    for (path, methods) in fields(&document["paths"]) {
        for (method, operation) in fields(methods) {
            write_operation(&mut source, path, method, operation);
        }
    }
    source
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn write_schema(source: &mut String, name: &str, schema: &Value) {
    source.push('\n');
    source.push_str(&comment(&schema["description"], 0));
    let _ = match alternatives(schema) {
        Some(alternatives) if !has_fields(schema) => {
            let _ = writeln!(source, "export type {name} =");
            let each = alternatives
                .iter()
                .map(|of| format!("{}  | {}", comment(&of["description"], 1), type_of(of, 1)));
            writeln!(source, "{};", each.collect::<Vec<_>>().join("\n"))
        }
        None if has_fields(schema) => {
            writeln!(source, "export interface {name} {{\n{}}}", properties(schema, 1))
        }
        _ => writeln!(source, "export type {name} = {};", type_of(schema, 0)),
    };
}

fn alternatives(schema: &Value) -> Option<&[Value]> {
    schema.get("oneOf").or_else(|| schema.get("anyOf")).map(items)
}

fn has_fields(schema: &Value) -> bool {
    fields(&schema["properties"]).next().is_some()
}

/// The type of a schema. `depth` is how far the fields of an object around it are indented.
fn type_of(schema: &Value, depth: usize) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.strip_prefix(SCHEMAS).unwrap_or(reference).to_owned();
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = schema.get("enum") {
        return union(items(values).iter().map(literal));
    }
    if let Some(alternatives) = alternatives(schema) {
        let union = union(alternatives.iter().map(|of| type_of(of, depth)));
        return if has_fields(schema) { format!("{} & ({union})", object(schema, depth)) } else { union };
    }
    match &schema["type"] {
        Value::Array(types) => union(types.iter().map(|name| named_type(text(name), schema, depth))),
        Value::String(name) => named_type(name, schema, depth),
        _ if has_fields(schema) => object(schema, depth),
        _ => "unknown".to_owned(),
    }
}

fn named_type(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "integer" => "number".to_owned(),
        "string" | "number" | "boolean" | "null" => name.to_owned(),
        "array" => match schema.get("prefixItems") {
            Some(each) => {
                let each: Vec<String> = items(each).iter().map(|of| type_of(of, depth)).collect();
                format!("[{}]", each.join(", "))
            }
            None => list_of(&type_of(&schema["items"], depth)),
        },
        _ => object(schema, depth),
    }
}

fn list_of(item: &str) -> String {
    let is_compound = item.contains(" | ") || item.contains(" & ");
    if is_compound { format!("({item})[]") } else { format!("{item}[]") }
}

fn object(schema: &Value, depth: usize) -> String {
    if has_fields(schema) {
        return format!("{{\n{}{}}}", properties(schema, depth + 1), "  ".repeat(depth));
    }
    let values = schema.get("additionalProperties").filter(|values| values.is_object());
    let values = values.map_or_else(|| "unknown".to_owned(), |values| type_of(values, depth));
    format!("Record<string, {values}>")
}

fn properties(schema: &Value, depth: usize) -> String {
    let required = items(&schema["required"]);
    let mut lines = String::new();
    for (name, field) in fields(&schema["properties"]) {
        let mark = if required.iter().any(|known| known == name) { "" } else { "?" };
        let (indent, of) = ("  ".repeat(depth), type_of(field, depth));
        let _ =
            writeln!(lines, "{}{indent}{}{mark}: {of};", comment(&field["description"], depth), key(name));
    }
    lines
}

/// Each alternative once.
fn union(types: impl Iterator<Item = String>) -> String {
    let mut known: Vec<String> = Vec::new();
    for one in types {
        if !known.contains(&one) {
            known.push(one);
        }
    }
    known.join(" | ")
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_owned() } else { literal(&json!(name)) }
}

fn comment(text: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let Some(text) = text.as_str().filter(|text| !text.is_empty()) else { return String::new() };
    let text = text.replace("*/", "* /");
    if !text.contains('\n') {
        return format!("{indent}/** {text} */\n");
    }
    let lines: Vec<String> =
        text.lines().map(|line| format!("{indent} * {line}").trim_end().to_owned()).collect();
    format!("{indent}/**\n{}\n{indent} */\n", lines.join("\n"))
}

fn write_operation(source: &mut String, path: &str, method: &str, operation: &Value) {
    let parameters = |place: &'static str| {
        items(&operation["parameters"]).iter().filter(move |parameter| parameter["in"] == place)
    };
    let mut arguments: Vec<String> =
        parameters("path").map(|parameter| format!("{}: string", text(&parameter["name"]))).collect();
    let query: Vec<&Value> = parameters("query").collect();
    if !query.is_empty() {
        arguments.push(query_argument(&query));
    }
    let path = format!("`{}`", path.replace('{', "${part(").replace('}', ")}"));
    let given = if query.is_empty() { "{}" } else { "query" };
    let (media, answer) = answer_of(operation);
    let of = type_of(&answer["content"][media]["schema"], 0);
    let mut name = text(&operation["operationId"]).to_owned();
    let (returns, does) = if method == "post" {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let sent = if body.is_null() { "{}" } else { "body" };
        arguments.extend((!body.is_null()).then(|| format!("body: {}", type_of(body, 0))));
        arguments.push("options?: CallOptions".to_owned());
        (format!("Promise<{of}>"), format!("post({path}, {sent}, options)"))
    } else {
        match media {
            "text/event-stream" => {
                let of = text(&answer["description"]).split('`').nth(1).unwrap_or("unknown");
                arguments.push(format!("follower: Follower<{of}>"));
                ("Following".to_owned(), format!("follow({path}, {given}, follower)"))
            }
            "text/plain" => {
                arguments.push("options?: CallOptions".to_owned());
                ("Promise<string>".to_owned(), format!("getText({path}, {given}, options)"))
            }
            "application/json" => {
                arguments.push("options?: CallOptions".to_owned());
                (format!("Promise<{of}>"), format!("get({path}, {given}, options)"))
            }
            // A browser downloads it from its address.
            _ => {
                name.push_str("Url");
                ("string".to_owned(), format!("url({path}, {given})"))
            }
        }
    };
    let words = format!("{}\n{}", text(&operation["summary"]), text(&operation["description"]));
    let _ = write!(
        source,
        "\n{}export function {name}({}): {returns} {{\n  return {does};\n}}\n",
        comment(&json!(words), 0),
        arguments.join(", "),
    );
}

fn query_argument(query: &[&Value]) -> String {
    let mut lines = String::new();
    for parameter in query {
        let mark = if parameter["required"] == true { "" } else { "?" };
        let of = type_of(&parameter["schema"], 1);
        let _ = writeln!(
            lines,
            "{}  {}{mark}: {of} | undefined;",
            comment(&parameter["description"], 1),
            key(text(&parameter["name"])),
        );
    }
    let is_needed = query.iter().any(|parameter| parameter["required"] == true);
    format!("query: {{\n{lines}}}{}", if is_needed { "" } else { " = {}" })
}

/// The media type of an operation's answer, and the answer.
fn answer_of(operation: &Value) -> (&str, &Value) {
    let answers = fields(&operation["responses"]).filter(|(status, _)| *status != "default");
    let mut with_content =
        answers.filter_map(|(_, answer)| Some((fields(&answer["content"]).next()?.0.as_str(), answer)));
    with_content.next().expect("every operation answers something")
}

#[test]
fn the_client_of_the_page_is_current() {
    let published = std::fs::read_to_string(CLIENT).unwrap_or_default();
    assert!(
        client(&openapi()) == published,
        "web/src/api/client.ts is not current; run `cargo xtask reference`, then `cargo xtask web`"
    );
}

#[test]
#[ignore = "writes web/src/api/client.ts from the OpenAPI document"]
fn write_the_reference() {
    std::fs::write(CLIENT, client(&openapi())).expect("written");
}
