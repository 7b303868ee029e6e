//! Money, the prices of models, and the maximum that a call may cost.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::usage::Usage;

/// The highest amount of a budget in dollars. Up to here every millionth has its own floating-point number, so no
/// amount changes on its way through JSON.
pub const USD_MAX: u64 = 1_000_000_000;

const MICROS_PER_USD: u64 = 1_000_000;
const TOKENS_PER_PRICE: u128 = 1_000_000;

/// A number that is not a valid amount of dollars.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0} is not an amount of dollars: 0 to {USD_MAX} with at most 6 decimals")]
pub struct InvalidUsd(pub f64);

/// Dollars, stored as whole millionths. In JSON a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    pub fn from_micros(micros: u64) -> Self {
        Self(micros.min(USD_MAX * MICROS_PER_USD))
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    #[expect(clippy::cast_precision_loss, reason = "USD_MAX is below where floats lose millionths")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / MICROS_PER_USD as f64
    }
}

impl TryFrom<f64> for Usd {
    type Error = InvalidUsd;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the range is checked first"
    )]
    fn try_from(dollars: f64) -> Result<Self, InvalidUsd> {
        if !(0.0..=USD_MAX as f64).contains(&dollars) {
            return Err(InvalidUsd(dollars));
        }
        let usd = Self((dollars * MICROS_PER_USD as f64).round() as u64);
        // A decimal of at most six places equals its millionths divided again as floats. A finer decimal does not.
        if usd.as_f64().to_bits() == (dollars + 0.0).to_bits() { Ok(usd) } else { Err(InvalidUsd(dollars)) }
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, micros) = (self.0 / MICROS_PER_USD, self.0 % MICROS_PER_USD);
        let decimals = format!("{micros:06}");
        // Cents, and more decimals only if they are not zero.
        let digits = decimals.trim_end_matches('0').len().max(2);
        write!(f, "${dollars}.{}", &decimals[..digits])
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": USD_MAX })
    }
}

/// The price of a model, in millionths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that did not come from a cache.
    pub input: u64,
    pub output: u64,
    /// Input that was read from a cache.
    pub cached: u64,
    /// Input that was written to a cache.
    pub cache_write: u64,
    /// Output tokens of thinking.
    pub reasoning: u64,
}

/// The entry for the settings that defines a model's price, in dollars per million tokens.
pub fn price_entry(model: &str) -> String {
    format!("prices: {{{model}: {{input: 3, output: 15}}}}")
}

impl Price {
    /// A price where cached tokens and thinking cost the same as other tokens.
    pub const fn plain(input: u64, output: u64) -> Self {
        Self { input, output, cached: input, cache_write: input, reasoning: output }
    }

    /// The cost of a usage, rounded up.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let reasoning = usage.reasoning_tokens.min(usage.output_tokens);
        let parts = [
            (usage.input_tokens - cached - written, self.input),
            (cached, self.cached),
            (written, self.cache_write),
            (usage.output_tokens - reasoning, self.output),
            (reasoning, self.reasoning),
        ];
        round_up(
            parts.map(|(tokens, price)| product(tokens, price)).into_iter().fold(0, u128::saturating_add),
        )
    }

    /// The highest possible cost of a call of this size, rounded up. How much the cache holds and how much of the
    /// output is thinking are unknown.
    pub fn worst(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let input = product(input_tokens, self.dearest_input());
        round_up(input.saturating_add(product(output_tokens, self.dearest_output())))
    }

    fn dearest_input(&self) -> u64 {
        self.input.max(self.cached).max(self.cache_write)
    }

    fn dearest_output(&self) -> u64 {
        self.output.max(self.reasoning)
    }

    /// The maximum output that this money buys for a call with this input. None if the input alone costs more.
    pub(super) fn output_within(&self, input_tokens: u64, micro_usd: u64) -> Option<u64> {
        let money = product(micro_usd, TOKENS_PER_PRICE.try_into().unwrap_or(u64::MAX));
        let left = money.checked_sub(product(input_tokens, self.dearest_input()))?;
        let output = left.checked_div(self.dearest_output().into()).unwrap_or(u128::MAX);
        Some(output.try_into().unwrap_or(u64::MAX))
    }
}

fn product(tokens: u64, price: u64) -> u128 {
    u128::from(tokens) * u128::from(price)
}

fn round_up(millionths: u128) -> u64 {
    millionths.div_ceil(TOKENS_PER_PRICE).try_into().unwrap_or(u64::MAX)
}

/// The maximum that a call may take: reserved before the call is sent, released when it is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// The estimated input.
    pub input_tokens: u64,
    /// The maximum output that the request states.
    pub output_tokens: u64,
    /// The maximum cost. None if the price is unknown.
    pub micro_usd: Option<u64>,
}

impl Amount {
    /// The total that a token budget counts.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The usage of a call that took the whole amount.
    pub fn as_usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            micro_usd: self.micro_usd,
            ..Usage::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRICE: Price = Price { cached: 300_000, ..Price::plain(3_000_000, 15_000_000) };

    #[test]
    fn money_has_at_most_six_decimals() {
        for (dollars, micros) in
            [(0.0, 0), (-0.0, 0), (1.5, 1_500_000), (0.1, 100_000), (0.000_001, 1), (3.0, 3_000_000)]
        {
            assert_eq!(Usd::try_from(dollars).map(Usd::micros), Ok(micros), "{dollars}");
        }
        for bad in [-0.01, 0.000_000_1, 0.123_456_7, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e10] {
            assert!(Usd::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn money_is_shown_in_cents_unless_it_is_finer() {
        assert_eq!(Usd::from_micros(1_500_000).to_string(), "$1.50");
        assert_eq!(Usd::from_micros(1).to_string(), "$0.000001");
        assert_eq!(Usd::from_micros(300).to_string(), "$0.0003");
        assert_eq!(Usd::from_micros(2_000_000).to_string(), "$2.00");
    }

    #[test]
    fn a_cost_is_rounded_up() {
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 100,
            cached_tokens: 900,
            micro_usd: None,
            ..Usage::ZERO
        };
        assert_eq!(PRICE.cost(&usage), 300 + 270 + 1500);
        let one =
            Usage { input_tokens: 1, output_tokens: 0, cached_tokens: 1, micro_usd: None, ..Usage::ZERO };
        assert_eq!(PRICE.cost(&one), 1);
        assert_eq!(PRICE.worst(u64::MAX, u64::MAX), u64::MAX);
        let free = Price::plain(0, 0);
        assert_eq!(free.output_within(10, 0), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn money_survives_json(micros in 0..=USD_MAX * MICROS_PER_USD) {
            let text = serde_json::to_string(&Usd::from_micros(micros)).expect("json");
            prop_assert_eq!(serde_json::from_str::<Usd>(&text).expect("usd").micros(), micros);
        }

        #[test]
        fn the_most_output_for_a_sum_is_exact(
            input in 0..100_000_u64, money in 0..10_000_000_u64, output_price in 1..50_000_000_u64,
        ) {
            let price = Price { output: output_price, reasoning: output_price, ..PRICE };
            match price.output_within(input, money) {
                Some(output) => {
                    prop_assert!(price.worst(input, output) <= money);
                    prop_assert!(price.worst(input, output + 1) > money);
                }
                None => prop_assert!(price.worst(input, 0) > money),
            }
        }

        #[test]
        fn no_real_cost_is_above_the_worst(
            input in 0..100_000_u64, percent in 0..=100_u64, output in 0..100_000_u64,
        ) {
            let cached_tokens = input * percent / 100;
            let usage = Usage { input_tokens: input, output_tokens: output, cached_tokens, micro_usd: None, ..Usage::ZERO };
            prop_assert!(PRICE.cost(&usage) <= PRICE.worst(input, output));
        }
    }
}
