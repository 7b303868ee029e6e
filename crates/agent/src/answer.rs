//! Checks an agent's final answer against the JSON Schema of its contract.

use posse_domain::text::shorten;
use serde_json::Value;

use crate::schema::{self, Schema, SchemaProblem};

/// Maximum number of problems in one message.
const PROBLEMS_MAX: usize = 5;
/// Maximum length of one problem, which may quote the whole answer.
const PROBLEM_MAX_CHARS: usize = 400;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaVerdict {
    Match,
    /// The reason, for the model.
    Mismatch(String),
}

/// Checks `text`, which is JSON or contains JSON in one fenced block. An answer that cannot be checked within the
/// limits is a mismatch (fail closed), and the reason names the schema or the answer as the cause.
pub fn check(schema: &Value, text: &str) -> SchemaVerdict {
    match problems(schema, text) {
        Ok(problems) if problems.is_empty() => SchemaVerdict::Match,
        Ok(problems) => SchemaVerdict::Mismatch(problems.join("; ")),
        Err(problem) => SchemaVerdict::Mismatch(shorten(&problem, PROBLEM_MAX_CHARS)),
    }
}

fn problems(schema: &Value, text: &str) -> Result<Vec<String>, String> {
    let text_of = |problem: SchemaProblem| problem.to_string();
    schema::check_size(text).map_err(text_of)?;
    let value = json_in(text).ok_or("the answer is not JSON")?;
    let schema =
        Schema::compile(schema).map_err(|problem| format!("the schema itself is invalid: {problem}"))?;
    let problems = schema.problems(&value, PROBLEMS_MAX).map_err(text_of)?;
    Ok(problems.iter().map(|problem| shorten(problem, PROBLEM_MAX_CHARS)).collect())
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
