//! Parses and checks the arguments of tool calls.
//!
//! A model with a wrong argument should get it right the next time: every answer names the field and the expected
//! value. It repeats the model's input only in part, because that may be a megabyte.

use posse_domain::text::shorten;
use posse_engine::ports::ToolFailure;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a problem text.
const PROBLEM_MAX_CHARS: usize = 400;
/// Maximum length of a task id.
const TASK_ID_MAX_BYTES: usize = 128;

/// Parses the input of `tool`. Unknown fields are refused, so that none is mistaken for a field with an effect.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, ToolFailure> {
    if !input.is_object() {
        return Err(invalid(tool, "the input must be a JSON object with the fields of its schema"));
    }
    serde_path_to_error::deserialize(input).map_err(|error| {
        let problem = plain_words(&error.inner().to_string());
        match error.path().to_string().as_str() {
            "." => invalid(tool, problem),
            // Serde's message about an unknown field already begins with its name.
            _ if problem.starts_with("unknown field") => invalid(tool, problem),
            path => invalid(tool, format!("`{path}`: {problem}")),
        }
    })
}

/// The failure of a call with invalid input.
pub(crate) fn invalid(tool: &str, problem: impl AsRef<str>) -> ToolFailure {
    let problem = shorten(problem.as_ref(), PROBLEM_MAX_CHARS);
    ToolFailure::invalid(format!("Invalid input for `{tool}`: {problem}. Nothing was done."))
}

/// Replaces the names of Rust types by plain words.
fn plain_words(problem: &str) -> String {
    let whole = "a whole number of at least 0";
    let mut words = shorten(problem, PROBLEM_MAX_CHARS);
    // The value precedes the expectation and may be cut. Only the end is replaced, if it is there.
    for (rust, plain) in [("u32", whole), ("u64", whole), ("usize", whole), ("f64", "a number")] {
        if let Some(start) = words.strip_suffix(&format!("expected {rust}")) {
            words = format!("{start}expected {plain}");
        }
    }
    words
}

/// Checks the fields of one tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    tool: &'static str,
}

impl Check {
    pub(crate) fn of(tool: &'static str) -> Self {
        Self { tool }
    }

    /// A failure that names the field.
    pub(crate) fn field(self, field: &str, problem: impl AsRef<str>) -> ToolFailure {
        invalid(self.tool, format!("`{field}` {}", problem.as_ref()))
    }

    /// A text that is neither empty nor too long.
    pub(crate) fn text(self, field: &str, text: String, max_bytes: usize) -> Result<String, ToolFailure> {
        if text.trim().is_empty() {
            return Err(self.field(field, "must not be empty"));
        }
        self.size(field, &text, max_bytes)?;
        Ok(text)
    }

    /// A text that is not too long.
    pub(crate) fn size(self, field: &str, text: &str, max_bytes: usize) -> Result<(), ToolFailure> {
        if text.len() > max_bytes {
            let problem = format!("has {} bytes, more than the {max_bytes} accepted", text.len());
            return Err(self.field(field, problem));
        }
        Ok(())
    }

    /// An optional text. Models that must fill every field leave it empty.
    pub(crate) fn optional(
        self,
        field: &str,
        text: Option<String>,
        max_bytes: usize,
    ) -> Result<Option<String>, ToolFailure> {
        let text = text.filter(|text| !text.trim().is_empty());
        text.map(|text| self.text(field, text, max_bytes)).transpose()
    }

    pub(crate) fn task_id(self, field: &str, id: String) -> Result<String, ToolFailure> {
        let id = self.text(field, id, TASK_ID_MAX_BYTES)?;
        Ok(id.trim().to_owned())
    }

    /// A number that is not zero.
    pub(crate) fn at_least_one<N: Default + PartialEq>(
        self,
        field: &str,
        number: Option<N>,
    ) -> Result<Option<N>, ToolFailure> {
        if number.as_ref().is_some_and(|number| *number == N::default()) {
            return Err(self.field(field, "must be at least 1"));
        }
        Ok(number)
    }

    /// A list that is not too long.
    pub(crate) fn count<T>(self, field: &str, list: &[T], max: usize) -> Result<(), ToolFailure> {
        if list.len() > max {
            return Err(
                self.field(field, format!("has {} entries, more than the {max} accepted", list.len()))
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Input {
        path: String,
        offset: Option<u32>,
        items: Option<Vec<Item>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Item {
        share: f64,
    }

    #[test]
    fn an_answer_names_the_field_and_what_is_expected() {
        for (input, problem) in [
            (json!("x"), "the input must be a JSON object with the fields of its schema"),
            (json!([]), "the input must be a JSON object with the fields of its schema"),
            (json!({}), "missing field `path`"),
            (json!({"path": null}), "`path`: invalid type: null, expected a string"),
            (
                json!({"path": "a", "offset": "1"}),
                "`offset`: invalid type: string \"1\", expected a whole number of at least 0",
            ),
            (
                json!({"path": "a", "offset": -1}),
                "`offset`: invalid value: integer `-1`, expected a whole number of at least 0",
            ),
            (
                json!({"path": "a", "sandbox": false}),
                "unknown field `sandbox`, expected one of `path`, `offset`, `items`",
            ),
            (
                json!({"path": "a", "items": [{"share": 1}, {"share": "x"}]}),
                "`items[1].share`: invalid type: string \"x\", expected a number",
            ),
            (json!({"path": "a", "items": [{"x": 1}]}), "unknown field `x`, expected `share`"),
        ] {
            let failure = parse::<Input>("t", input).unwrap_err();
            assert_eq!(failure, invalid("t", problem));
            assert_eq!(failure.text, format!("Invalid input for `t`: {problem}. Nothing was done."));
        }
    }

    #[test]
    fn what_was_sent_is_not_repeated_in_full() {
        let failure = parse::<Input>("t", json!({"path": "a", "offset": "x".repeat(1 << 20)})).unwrap_err();
        assert!(failure.text.starts_with("Invalid input for `t`: `offset`: invalid type: string"));
        assert!(failure.text.len() < 1_000);
    }
}
