//! A limit as it is typed: a number, or `none`. Zero means zero, never unlimited.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number of at least `LEAST`, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit<const LEAST: u64>(pub(crate) Option<u64>);

impl<const LEAST: u64> Limit<LEAST> {
    /// The limit where only smaller numbers fit; a larger one does not limit any more than the largest.
    pub(crate) fn as_u32(self) -> Option<u32> {
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
            "none" => Ok(Self(None)),
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
}
