//! Parses a limit as users type it: a number, or `none`. Zero means zero, never unlimited.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use posse_domain::budget::Usd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// The expected form of money, for errors.
const MONEY: &str = "dollars such as `5` or `0.50`, or `none`";
/// The expected form of a time, for errors.
const TIME: &str = "a time such as `90s`, `30m` or `1h30m`, or `none`";
/// The word for no limit.
pub const NONE: &str = "none";
/// Longest time that is accepted: ten years.
const TIME_MAX_SECONDS: u64 = 10 * 365 * 86_400;

/// A number of at least `LEAST`, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<const LEAST: u64>(pub Option<u64>);

impl<const LEAST: u64> Limit<LEAST> {
    /// The limit as a smaller number type. A value that does not fit becomes the largest one.
    pub fn as_u32(self) -> Option<u32> {
        self.0.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn at(number: u64) -> Result<Self, String> {
        if number < LEAST {
            return Err(format!("must be at least {LEAST}, or `none`"));
        }
        Ok(Self(Some(number)))
    }
}

impl<const LEAST: u64> FromStr for Limit<LEAST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            NONE => Ok(Self(None)),
            text => match text.parse() {
                Ok(number) => Self::at(number),
                Err(_) => Err(format!("expected a whole number of at least {LEAST}, or `none`")),
            },
        }
    }
}

impl<'de, const LEAST: u64> Deserialize<'de> for Limit<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitVisitor<const LEAST: u64>;
        impl<const LEAST: u64> Visitor<'_> for LimitVisitor<LEAST> {
            type Value = Limit<LEAST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number of at least {LEAST}, or `none`")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                Limit::at(number).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                let number = u64::try_from(number);
                number
                    .map_or_else(|_| Err(format!("must be at least {LEAST}, or `none`")), Limit::at)
                    .map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(LimitVisitor::<LEAST>)
    }
}

/// Dollars, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoneyLimit(pub Option<Usd>);

impl FromStr for MoneyLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected {MONEY}");
        match text {
            NONE => Ok(Self(None)),
            text => {
                let dollars: f64 = text.trim_start_matches('$').parse().map_err(|_| expected())?;
                Usd::try_from(dollars).map(|usd| Self(Some(usd))).map_err(|_| expected())
            }
        }
    }
}

/// A time, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit(pub Option<Duration>);

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == NONE {
            return Ok(Self(None));
        }
        let seconds = seconds(text).filter(|seconds| (1..=TIME_MAX_SECONDS).contains(seconds));
        let time = seconds.map(|seconds| Self(Some(Duration::from_secs(seconds))));
        time.ok_or_else(|| format!("expected {TIME}"))
    }
}

/// A time span as users type it, such as `90s`, `30m` (or `30min`), `2h`, `7d` or `1h30m`, in seconds. The one parser of
/// time spans: every flag and every setting takes the same units.
pub fn seconds(text: &str) -> Option<u64> {
    let mut seconds = 0_u64;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let letters = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match &rest[digits..digits + letters] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more))?;
        rest = &rest[digits + letters..];
    }
    Some(seconds)
}

/// Implements reading a limit from a file in its typed form.
macro_rules! read_as_typed {
    ($limit:ty, $expected:expr) => {
        impl<'de> Deserialize<'de> for $limit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TypedVisitor;
                impl Visitor<'_> for TypedVisitor {
                    type Value = $limit;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                        number.to_string().parse().map_err(E::custom)
                    }

                    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                        number.to_string().parse().map_err(E::custom)
                    }

                    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                        number.to_string().parse().map_err(E::custom)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(TypedVisitor)
            }
        }
    };
}

read_as_typed!(MoneyLimit, MONEY);
read_as_typed!(TimeLimit, TIME);

/// The amount that a limit allows, to compare two limits. No limit allows everything.
pub trait LimitAmount {
    /// The allowed amount.
    fn measure(&self) -> u64;
}

impl<const LEAST: u64> LimitAmount for Limit<LEAST> {
    fn measure(&self) -> u64 {
        self.0.unwrap_or(u64::MAX)
    }
}

impl LimitAmount for MoneyLimit {
    fn measure(&self) -> u64 {
        self.0.map_or(u64::MAX, Usd::micros)
    }
}

impl LimitAmount for TimeLimit {
    fn measure(&self) -> u64 {
        self.0.map_or(u64::MAX, |time| time.as_secs())
    }
}

impl<const LEAST: u64> Serialize for Limit<LEAST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(number) => serializer.serialize_u64(number),
            None => serializer.serialize_str(NONE),
        }
    }
}

impl Serialize for MoneyLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(usd) => usd.serialize(serializer),
            None => serializer.serialize_str(NONE),
        }
    }
}

impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(time) => serializer.serialize_str(&typed(time)),
            None => serializer.serialize_str(NONE),
        }
    }
}

/// A time in its typed form.
pub fn typed(time: Duration) -> String {
    let mut rest = time.as_secs();
    let mut text = String::new();
    for (unit, seconds) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        if rest >= seconds {
            let _ = write!(text, "{}{unit}", rest / seconds);
            rest %= seconds;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

impl<const LEAST: u64> JsonSchema for Limit<LEAST> {
    fn schema_name() -> Cow<'static, str> {
        format!("LimitOfAtLeast{LEAST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": format!("a whole number of at least {LEAST}, or `none`"),
            "anyOf": [{"type": "integer", "minimum": LEAST}, {"const": NONE}],
        })
    }
}

impl JsonSchema for MoneyLimit {
    fn schema_name() -> Cow<'static, str> {
        "MoneyLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": MONEY, "anyOf": [{"type": "number", "minimum": 0}, {"const": NONE}]})
    }
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": TIME, "type": "string", "pattern": "^(none|([0-9]+(s|m|min|h|d))+)$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_zero_and_none_means_none() {
        assert_eq!("0".parse(), Ok(Limit::<0>(Some(0))));
        assert_eq!("none".parse(), Ok(Limit::<1>(None)));
        assert_eq!("7".parse::<Limit<1>>().map(Limit::as_u32), Ok(Some(7)));
        assert!("0".parse::<Limit<1>>().is_err());
        for bad in ["", "-1", "1.5", "unlimited", "1k"] {
            assert!(bad.parse::<Limit<0>>().is_err(), "{bad}");
        }
    }

    #[test]
    fn money_and_time_have_units_that_cannot_be_mistaken() {
        let usd = |text: &str| text.parse::<MoneyLimit>().map(|limit| limit.0.map(Usd::micros));
        for (text, micros) in [("5", 5_000_000), ("0.50", 500_000), ("$1.25", 1_250_000), ("0", 0)] {
            assert_eq!(usd(text), Ok(Some(micros)), "{text}");
        }
        assert_eq!(usd("none"), Ok(None));
        for bad in ["", "-1", "five", "1e99", "0.00000001", "5 USD"] {
            assert!(usd(bad).is_err(), "{bad}");
        }
        let seconds = |text: &str| text.parse::<TimeLimit>().map(|limit| limit.0.map(|time| time.as_secs()));
        for (text, expected) in [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("1h30m", 5_400), ("1d", 86_400)]
        {
            assert_eq!(seconds(text), Ok(Some(expected)), "{text}");
        }
        assert_eq!(seconds("none"), Ok(None));
        for text in ["90s", "30m", "1h30m", "1d", "3d1h5s"] {
            let read: TimeLimit = text.parse().expect("a time");
            let shown = typed(read.0.expect("a limit"));
            assert_eq!(shown.parse::<TimeLimit>(), Ok(read), "{text} is shown as {shown}");
        }
        for bad in ["", "30", "0s", "m", "-5m", "1.5h", "5 m", "5x", "99999999999999999999s", "4000d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
