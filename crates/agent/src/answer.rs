//! Checks a final answer against a JSON Schema.

use serde_json::Value;

use crate::schema::{self, Schema, SchemaProblem};

/// Most problems named at once.
const PROBLEMS_MAX: usize = 5;
/// Longest description of one.
const PROBLEM_MAX_CHARS: usize = 400;

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaVerdict {
    /// The answer satisfies the schema.
    Match,
    /// It does not; the text says why.
    Mismatch(String),
}

/// Checks `text`: JSON as it is, or in one fenced block. What cannot be checked within its limits does not satisfy
/// anything: fail closed, and say whose fault it is.
pub fn check(schema: &Value, text: &str) -> SchemaVerdict {
    match problems(schema, text) {
        Ok(problems) if problems.is_empty() => SchemaVerdict::Match,
        Ok(problems) => SchemaVerdict::Mismatch(problems.join("; ")),
        Err(problem) => SchemaVerdict::Mismatch(shorten(problem)),
    }
}

fn problems(schema: &Value, text: &str) -> Result<Vec<String>, String> {
    let told = |problem: SchemaProblem| problem.to_string();
    schema::check_size(text).map_err(told)?;
    let value = json_in(text).ok_or("the answer is not JSON")?;
    let schema =
        Schema::compile(schema).map_err(|problem| format!("the schema itself is invalid: {problem}"))?;
    let problems = schema.problems(&value, PROBLEMS_MAX).map_err(told)?;
    Ok(problems.into_iter().map(shorten).collect())
}

/// A problem without most of what it quotes, which may be the whole answer.
fn shorten(problem: String) -> String {
    match problem.char_indices().nth(PROBLEM_MAX_CHARS) {
        Some((end, _)) => format!("{}[…]", &problem[..end]),
        None => problem,
    }
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
