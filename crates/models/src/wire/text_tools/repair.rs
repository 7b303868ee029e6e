//! What models write as calls, with the mistakes that do not change what they mean.

use posse_domain::json_values::has_too_many_values;
use serde_json::{Map, Value};

use super::WrittenCall;

/// What stands for the name of a tool that cannot be found.
const NAMELESS: &str = "unknown";
/// Other names under which models give a tool.
const NAMES: [&str; 3] = ["name", "tool", "tool_name"];
/// Other names under which models give arguments.
const ARGUMENTS: [&str; 5] = ["arguments", "input", "parameters", "args", "params"];

/// The calls of a block: one object, a list of them, or one after the other. What is no JSON is one call whose input is
/// the text: it is answered, and never run.
pub(super) fn calls(body: &str) -> Vec<WrittenCall> {
    let body = body.trim();
    if body.is_empty() {
        return Vec::new();
    }
    let values = parse(body).or_else(|| parse(&mended(body)));
    match values {
        Some(values) => values.into_iter().flat_map(written).collect(),
        None => vec![WrittenCall { name: name_in(body), input: Value::String(body.to_owned()) }],
    }
}

/// Whether a body is whole JSON.
pub(super) fn is_whole(body: &str) -> bool {
    !body.trim().is_empty() && (parse(body).is_some() || parse(&mended(body)).is_some())
}

/// The values of a text, unless there are too many.
fn parse(text: &str) -> Option<Vec<Value>> {
    if has_too_many_values(text.as_bytes()) {
        return None;
    }
    serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().ok()
}

/// The calls that a value is.
pub(super) fn written(value: Value) -> Vec<WrittenCall> {
    match value {
        Value::Array(values) => values.into_iter().flat_map(written).collect(),
        Value::Object(fields) => vec![call(fields)],
        // Nobody can tell what it was to be.
        other => vec![WrittenCall { name: NAMELESS.to_owned(), input: Value::String(other.to_string()) }],
    }
}

fn call(mut fields: Map<String, Value>) -> WrittenCall {
    // As the format of OpenAI has it.
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
        // Without a place of their own, the rest are the arguments.
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
    let parsed = parse(&text).or_else(|| parse(&mended(&text))).and_then(only);
    parsed.filter(Value::is_object).unwrap_or(Value::String(text))
}

/// Without commas before an end, and with line breaks in strings written as JSON wants them.
fn mended(text: &str) -> String {
    let mut mended = String::with_capacity(text.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            match c {
                '\n' => mended.push_str("\\n"),
                '\r' => mended.push_str("\\r"),
                '\t' => mended.push_str("\\t"),
                c => mended.push(c),
            }
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => in_string = true,
            '}' | ']' => {
                let end = mended.trim_end().len();
                if mended[..end].ends_with(',') {
                    mended.truncate(end - 1);
                }
            }
            _ => {}
        }
        mended.push(c);
    }
    mended
}

/// The name of a tool in text that is no JSON, so that the answer can say which call it was.
fn name_in(body: &str) -> String {
    let rest = body.split_once("\"name\"").map(|(_, rest)| rest.trim_start());
    let rest = rest.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    let quoted = rest.and_then(|rest| rest.strip_prefix('"')).and_then(|rest| rest.split_once('"'));
    quoted.map_or_else(|| NAMELESS.to_owned(), |(name, _)| name.to_owned())
}
