//! Answers checked against schemas of every draft, and schemas and answers beyond the limits.

use serde_json::{Value, json};

use super::*;

mod keywords;
mod limits;
mod malformed;
mod numbers;
mod patterns;
mod texts;
mod verdicts;

const DRAFT_2019: &str = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_6: &str = "http://json-schema.org/draft-06/schema#";
const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";

/// The problems of a value, at most five.
fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let compiled = Schema::compile(schema).unwrap_or_else(|problem| panic!("{schema}: {problem}"));
    compiled.problems(value, 5).unwrap_or_else(|problem| panic!("{schema} on {value}: {problem}"))
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    problems(schema, value).is_empty()
}

/// The limit that a check meets.
fn limit(schema: &Value, value: &Value) -> SchemaProblem {
    let compiled = Schema::compile(schema).unwrap_or_else(|problem| panic!("{schema:.80}: {problem}"));
    compiled.problems(value, 5).expect_err("beyond a limit")
}

/// A schema of another draft.
fn draft(name: &str, mut schema: Value) -> Value {
    schema["$schema"] = json!(name);
    schema
}
