//! The budget of a contract, with its validation.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::amount::{USD_MAX, Usd};
use crate::text::{QUOTE_MAX_CHARS, clip};

/// What a subtree may spend. Zero means zero. No limit is written `null` or `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, try_from = "RawBudget")]
#[schemars(!try_from)]
pub struct Budget {
    /// Tokens, input and output together.
    #[schemars(schema_with = "whole_or_none")]
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Money.
    #[schemars(schema_with = "usd_or_none")]
    #[serde(default)]
    pub usd: Option<Usd>,
    /// Agents ever created in the subtree, its own root included.
    #[schemars(schema_with = "whole_or_none")]
    #[serde(default)]
    pub agents: Option<u64>,
    /// Wall time from the start.
    #[schemars(schema_with = "whole_or_none")]
    #[serde(default)]
    pub wall_ms: Option<u64>,
}

impl Budget {
    pub const NONE: Budget = Budget { tokens: None, usd: None, agents: None, wall_ms: None };
}

/// A value that is not a valid limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` is {found}; expected {expected}, null or \"none\"")]
pub struct InvalidBudget {
    field: &'static str,
    found: String,
    expected: &'static str,
}

/// A budget before its values are checked, so that an error can name the field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "Budget")]
struct RawBudget {
    #[serde(default)]
    tokens: Value,
    #[serde(default)]
    usd: Value,
    #[serde(default)]
    agents: Value,
    #[serde(default)]
    wall_ms: Value,
}

impl TryFrom<RawBudget> for Budget {
    type Error = InvalidBudget;

    fn try_from(read: RawBudget) -> Result<Self, InvalidBudget> {
        let whole = |field, value: &Value| limit(field, value, "a whole number of at least 0", Value::as_u64);
        let money = |value: &Value| value.as_f64().and_then(|dollars| Usd::try_from(dollars).ok());
        Ok(Budget {
            tokens: whole("tokens", &read.tokens)?,
            usd: limit("usd", &read.usd, "dollars of at least 0 with at most 6 decimals", money)?,
            agents: whole("agents", &read.agents)?,
            wall_ms: whole("wall_ms", &read.wall_ms)?,
        })
    }
}

/// Parses one limit, which may be none.
fn limit<T>(
    field: &'static str,
    value: &Value,
    expected: &'static str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, InvalidBudget> {
    match value {
        Value::Null => Ok(None),
        Value::String(none) if none == "none" => Ok(None),
        value => match read(value) {
            Some(limit) => Ok(Some(limit)),
            None => Err(InvalidBudget { field, found: clip(&value.to_string(), QUOTE_MAX_CHARS), expected }),
        },
    }
}

fn whole_or_none(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "null" }, { "const": "none" }] })
}

fn usd_or_none(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": USD_MAX },
            { "type": "null" },
            { "const": "none" },
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Budget, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        let text = r#"{"tokens":400000,"usd":1.50,"agents":4,"wall_ms":1800000}"#;
        let budget = read(text).expect("budget");
        assert_eq!(budget.tokens, Some(400_000));
        assert_eq!(budget.usd, Some(Usd::from_micros(1_500_000)));
        assert_eq!((budget.agents, budget.wall_ms), (Some(4), Some(1_800_000)));
        assert_eq!(read(r#"{"tokens":"none","usd":null}"#), Ok(Budget::NONE));
        assert_eq!(read("{}"), Ok(Budget::NONE));
        assert_eq!(read(r#"{"usd":2}"#).expect("budget").usd, Some(Usd::from_micros(2_000_000)));
    }

    #[test]
    fn zero_is_zero_and_not_none() {
        let budget = read(r#"{"tokens":0,"usd":0,"agents":0,"wall_ms":0}"#).expect("budget");
        let usd = Some(Usd::from_micros(0));
        assert_eq!(budget, Budget { tokens: Some(0), usd, agents: Some(0), wall_ms: Some(0) });
        let text = serde_json::to_string(&budget).expect("json");
        assert_eq!(text, r#"{"tokens":0,"usd":0.0,"agents":0,"wall_ms":0}"#);
        assert_eq!(read(&text), Ok(budget));
    }

    #[test]
    fn none_is_written_as_null() {
        let text = serde_json::to_string(&Budget::NONE).expect("json");
        assert_eq!(text, r#"{"tokens":null,"usd":null,"agents":null,"wall_ms":null}"#);
    }

    #[test]
    fn a_bad_limit_is_an_error_that_names_it() {
        for (bad, named) in [
            (r#"{"tokens":-1}"#, "`tokens` is -1"),
            (r#"{"tokens":1.5}"#, "`tokens` is 1.5"),
            (r#"{"usd":-0.01}"#, "`usd` is -0.01"),
            (r#"{"usd":0.1234567}"#, "`usd` is 0.1234567"),
            (r#"{"usd":"cheap"}"#, "`usd` is \"cheap\""),
            (r#"{"agents":"4"}"#, "`agents` is \"4\""),
            (r#"{"wall_ms":[1]}"#, "`wall_ms` is [1]"),
            (r#"{"time":1}"#, "unknown field `time`"),
            (r#"{"usd":1e400}"#, "number out of range"),
        ] {
            let error = read(bad).expect_err(bad);
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_schema_has_every_limit() {
        let schema = schemars::schema_for!(Budget).to_value();
        for field in ["tokens", "usd", "agents", "wall_ms"] {
            assert_eq!(schema["properties"][field]["anyOf"][2]["const"], "none", "{schema}");
        }
        assert_eq!(schema["additionalProperties"], false);
    }
}
