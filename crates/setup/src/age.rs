//! Parses an age as users type it: `7d`, `12h`, `30m`, or `0` for everything.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

use crate::limit::{seconds, typed};

/// The expected form, for errors.
const EXPECTED: &str = "an age such as `7d`, `12h` or `30m`, or `0` for everything";
/// Longest age that is accepted: a hundred years.
const MAX_SECONDS: u64 = 100 * 365 * 86_400;

/// An age, such as the minimum age of runs to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(pub Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = if text == "0" { Some(0) } else { seconds(text) };
        let seconds = seconds.filter(|seconds| *seconds <= MAX_SECONDS);
        let age = seconds.map(|seconds| Self(Duration::from_secs(seconds)));
        age.ok_or_else(|| format!("expected {EXPECTED}"))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { f.write_str("0") } else { f.write_str(&typed(self.0)) }
    }
}

impl Serialize for Age {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Age {
    fn schema_name() -> Cow<'static, str> {
        "Age".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": EXPECTED,
            "anyOf": [{"type": "string", "pattern": "^(0|([0-9]+(s|m|min|h|d))+)$"}, {"const": 0}],
        })
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AgeVisitor;
        impl Visitor<'_> for AgeVisitor {
            type Value = Age;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Age, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Age, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Age, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(AgeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit_unless_they_are_zero() {
        for (text, seconds) in [
            ("7d", 604_800),
            ("12h", 43_200),
            ("30min", 1_800),
            ("30m", 1_800),
            ("1h30m", 5_400),
            ("90s", 90),
            ("0", 0),
            ("0d", 0),
        ] {
            assert_eq!(text.parse(), Ok(Age(Duration::from_secs(seconds))), "{text}");
        }
        for bad in ["", "7", "d", "-1d", "1.5h", "7 d", "7D", "99999999999999999999d", "36501d"] {
            assert!(bad.parse::<Age>().is_err(), "{bad}");
        }
    }
}
