//! Counts the values of a JSON text before it is parsed, to bound the parser's memory.
//!
//! A short text can have many values: `{"":0}` has six bytes and takes hundreds in memory. So JSON from a provider, a
//! model or a server is counted first, and parsed only if it has no more values than a reply ever needs.

use serde_json::Value;

/// Maximum number of values in one JSON text from outside.
pub const JSON_VALUES_MAX: usize = 100_000;

/// Whether a text has more than [`JSON_VALUES_MAX`] values, if it is JSON at all.
pub fn has_too_many_values(json: &[u8]) -> bool {
    // Each value takes at least one byte.
    json.len() > JSON_VALUES_MAX && values_at_most(json) > JSON_VALUES_MAX
}

/// An upper bound of the number of values: each value but the first follows one of these bytes outside of strings.
fn values_at_most(json: &[u8]) -> usize {
    let (mut in_string, mut escaped, mut values) = (false, false, 1);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// The number of values in a value, itself included.
pub fn values_of(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_of).sum(),
        Value::Object(fields) => fields.values().map(values_of).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_missed() {
        for text in [
            "1",
            "[]",
            r#"{"a": [1, 2, {"b": null}], "c,[{": "x\",[\\", "d": "\\"}"#,
            r#"[[[]], {"": {"": {}}}, "[[[[,,,,", -1.5e3, true]"#,
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            let (real, counted) = (values_of(&value), values_at_most(text.as_bytes()));
            assert!(real <= counted && counted <= 3 * real, "{text}: {real} {counted}");
        }
    }

    #[test]
    fn long_texts_are_not_many_values() {
        let commas = format!("[\"{}\"]", ",".repeat(2 * JSON_VALUES_MAX));
        assert!(!has_too_many_values(commas.as_bytes()));
        let many = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX));
        assert!(has_too_many_values(many.as_bytes()));
        let few = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX / 2));
        assert!(!has_too_many_values(few.as_bytes()));
    }
}
