//! The contract of an agent, with every field.

use posse::AgentRecord;
use serde_json::Value;

use crate::term;
use crate::view::rows::{Row, Tint};

/// The rows of the contract of an agent.
pub(super) fn rows(record: &AgentRecord) -> Vec<Row> {
    let contract = serde_json::to_value(&record.contract).unwrap_or_default();
    let mut rows = vec![Row::tinted(Tint::Bold, format!("contract of {}", record.agent.id))];
    fields(&contract, 0, &mut rows);
    rows
}

/// Adds the fields of an object or the items of a list, without those that are empty.
fn fields(value: &Value, depth: usize, rows: &mut Vec<Row>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
                field(&format!("{}:", term::line(name)), value, depth, rows);
            }
        }
        Value::Array(items) => {
            for item in items {
                field("-", item, depth, rows);
            }
        }
        _ => {}
    }
}

fn field(name: &str, value: &Value, depth: usize, rows: &mut Vec<Row>) {
    let indent = "  ".repeat(depth);
    let mut row = Row::default();
    row.push(Tint::Dim, format!("{indent}{name}"));
    match value {
        Value::Array(items) if items.iter().all(|item| short(item).is_some()) => {
            let items: Vec<String> = items.iter().filter_map(short).collect();
            row.push(Tint::Plain, format!(" {}", items.join(", ")))
        }
        Value::Object(_) | Value::Array(_) => {
            rows.push(row);
            return fields(value, depth + 1, rows);
        }
        Value::String(text) if text.contains('\n') => {
            rows.push(row);
            let lines = term::clean(text).replace('\t', "    ");
            rows.extend(lines.lines().map(|line| Row::plain(format!("{indent}  {line}"))));
            return;
        }
        Value::String(text) => row.push(Tint::Plain, format!(" {}", term::line(text))),
        other => row.push(Tint::Plain, format!(" {other}")),
    };
    rows.push(row);
}

/// A value that fits between others on one line.
fn short(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.contains(['\n', ',']) => Some(term::line(text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
