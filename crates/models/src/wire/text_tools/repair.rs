//! Parses calls as models write them, with mistakes that do not change the meaning.

use posse_domain::json_values::has_too_many_values;
use serde_json::{Map, Value};

use super::WrittenCall;

/// The name of a call whose tool cannot be determined.
const NAMELESS: &str = "unknown";
/// Field names that models use for the tool.
const NAMES: [&str; 3] = ["name", "tool", "tool_name"];
/// Field names that models use for the arguments.
const ARGUMENTS: [&str; 5] = ["arguments", "input", "parameters", "args", "params"];

/// The calls of a block: one object, a list of objects, or several objects in a row. Text that is not JSON becomes one
/// call with that text as input, which is answered and never run.
pub(super) fn calls(body: &str) -> Vec<WrittenCall> {
    let body = body.trim();
    if body.is_empty() {
        return Vec::new();
    }
    let values = parse(body).or_else(|| parse(&repaired(body)));
    match values {
        Some(values) => values.into_iter().flat_map(written).collect(),
        None => vec![WrittenCall { name: name_in(body), input: Value::String(body.to_owned()) }],
    }
}

/// Whether a body is complete JSON.
pub(super) fn is_whole(body: &str) -> bool {
    !body.trim().is_empty() && (parse(body).is_some() || parse(&repaired(body)).is_some())
}

/// The values of a text, unless there are too many.
fn parse(text: &str) -> Option<Vec<Value>> {
    if has_too_many_values(text.as_bytes()) {
        return None;
    }
    serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().ok()
}

/// The calls in a value.
pub(super) fn written(value: Value) -> Vec<WrittenCall> {
    match value {
        Value::Array(values) => values.into_iter().flat_map(written).collect(),
        Value::Object(fields) => vec![call(fields)],
        // The intention cannot be guessed.
        other => vec![WrittenCall { name: NAMELESS.to_owned(), input: Value::String(other.to_string()) }],
    }
}

fn call(mut fields: Map<String, Value>) -> WrittenCall {
    // In OpenAI's format.
    if let Some(Value::Object(function)) = fields.get_mut("function") {
        fields = std::mem::take(function);
    }
    let function = fields.remove("function");
    let name = NAMES.iter().find_map(|name| fields.remove(*name)).or(function);
    let Some(Value::String(name)) = name else {
        let input = Value::String(Value::Object(fields).to_string());
        return WrittenCall { name: NAMELESS.to_owned(), input };
    };
    let given = ARGUMENTS.iter().find_map(|name| fields.remove(*name));
    let input = match given {
        Some(Value::String(text)) => from_text(text),
        Some(Value::Null) => Value::Object(Map::new()),
        Some(input) => input,
        // Without a field for the arguments, the remaining fields are the arguments.
        None => {
            fields.retain(|key, _| key != "id" && key != "type");
            Value::Object(fields)
        }
    };
    WrittenCall { name, input }
}

/// Arguments that are JSON in a string.
fn from_text(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    let only = |mut values: Vec<Value>| if values.len() == 1 { values.pop() } else { None };
    let parsed = parse(&text).or_else(|| parse(&repaired(&text))).and_then(only);
    parsed.filter(Value::is_object).unwrap_or(Value::String(text))
}

/// Removes trailing commas, and escapes line breaks in strings.
fn repaired(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            match c {
                '\n' => repaired.push_str("\\n"),
                '\r' => repaired.push_str("\\r"),
                '\t' => repaired.push_str("\\t"),
                c => repaired.push(c),
            }
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => in_string = true,
            '}' | ']' => {
                let end = repaired.trim_end().len();
                if repaired[..end].ends_with(',') {
                    repaired.truncate(end - 1);
                }
            }
            _ => {}
        }
        repaired.push(c);
    }
    repaired
}

/// The name of a tool in text that is not JSON, so that the answer can identify the call.
fn name_in(body: &str) -> String {
    let rest = body.split_once("\"name\"").map(|(_, rest)| rest.trim_start());
    let rest = rest.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    let quoted = rest.and_then(|rest| rest.strip_prefix('"')).and_then(|rest| rest.split_once('"'));
    quoted.map_or_else(|| NAMELESS.to_owned(), |(name, _)| name.to_owned())
}
