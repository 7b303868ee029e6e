//! Checks a final answer against a JSON Schema.

use serde_json::Value;

/// Most problems named at once.
const PROBLEMS_MAX: usize = 5;

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaVerdict {
    /// The answer satisfies the schema.
    Match,
    /// It does not; the text says why.
    Mismatch(String),
}

/// Checks `text`: JSON as it is, or in one fenced block.
pub fn check(schema: &Value, text: &str) -> SchemaVerdict {
    let Some(value) = json_in(text) else {
        return SchemaVerdict::Mismatch("the answer is not JSON".to_owned());
    };
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        // A schema that is none cannot be satisfied: fail closed, and say whose fault it is.
        Err(error) => return SchemaVerdict::Mismatch(format!("the schema itself is invalid: {error}")),
    };
    let problems: Vec<String> = validator
        .iter_errors(&value)
        .take(PROBLEMS_MAX)
        .map(|error| {
            let path = error.instance_path().to_string();
            if path.is_empty() { error.to_string() } else { format!("at {path}: {error}") }
        })
        .collect();
    if problems.is_empty() { SchemaVerdict::Match } else { SchemaVerdict::Mismatch(problems.join("; ")) }
}

/// The JSON of an answer: the whole text, or the content of its one fenced block.
pub fn json_in(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let (_, rest) = text.split_once("```")?;
    let (_, body) = rest.split_once('\n')?;
    let (body, _) = body.split_once("```")?;
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked_plain_or_fenced() {
        let schema = serde_json::json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let table = [
            (r#"{"n": 1}"#, true),
            ("Here:\n```json\n{\"n\": 2}\n```\n", true),
            (r#"{"n": "x"}"#, false),
            (r"{}", false),
            ("no json", false),
            ("``` {\"n\": 1}", false),
        ];
        for (text, good) in table {
            assert_eq!(check(&schema, text) == SchemaVerdict::Match, good, "{text}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_never_satisfied() {
        assert_ne!(check(&serde_json::json!({"type": 3}), "1"), SchemaVerdict::Match);
    }
}
