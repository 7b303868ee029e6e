//! What model calls and agents have spent.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens and cost of model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens sent, including those read from a cache.
    pub input_tokens: u64,
    /// Tokens received, including thinking.
    pub output_tokens: u64,
    /// The part of the input that was read from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// The part of the input that was written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The part of the output that was thinking.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Millionths of a dollar. None if the price is unknown, which is never shown as zero: one unknown part makes a sum
    /// unknown. Only a usage without any token is known to cost nothing.
    #[serde(default)]
    pub micro_usd: Option<u64>,
}

impl Usage {
    pub const ZERO: Usage = Usage {
        input_tokens: 0,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        micro_usd: Some(0),
    };

    /// The total that a token budget counts.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The cost, if it is known.
    fn known_cost(&self) -> Option<u64> {
        self.micro_usd.or_else(|| (self.tokens() == 0).then_some(0))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Default for Usage {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        let cost = self.known_cost().zip(other.known_cost());
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            micro_usd: cost.map(|(one, two)| one.saturating_add(two)),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(parts: I) -> Usage {
        parts.fold(Usage::ZERO, Add::add)
    }
}

/// The figures that are kept per agent, per subtree and per depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Model calls, each with the tool calls it requested.
    pub turns: u64,
    pub tool_calls: u64,
    /// Wall time. For several agents the sum, even if they ran in parallel.
    pub wall_ms: u64,
    /// Agents whose work was cut off by their turn limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn_limited: u64,
    pub usage: Usage,
}

impl Figures {
    pub fn with_wall_ms(self, wall_ms: u64) -> Figures {
        Figures { wall_ms, ..self }
    }
}

impl Add for Figures {
    type Output = Figures;

    fn add(self, other: Figures) -> Figures {
        Figures {
            turns: self.turns.saturating_add(other.turns),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
            turn_limited: self.turn_limited.saturating_add(other.turn_limited),
            usage: self.usage + other.usage,
        }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        *self = *self + other;
    }
}

impl Sum for Figures {
    fn sum<I: Iterator<Item = Figures>>(parts: I) -> Figures {
        parts.fold(Figures::default(), Add::add)
    }
}

impl From<Usage> for Figures {
    fn from(usage: Usage) -> Self {
        Figures { usage, ..Figures::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICED: Usage =
        Usage { input_tokens: 100, output_tokens: 10, cached_tokens: 40, micro_usd: Some(7), ..Usage::ZERO };
    const UNPRICED: Usage = Usage { micro_usd: None, ..PRICED };

    #[test]
    fn an_unknown_price_makes_the_sum_unknown() {
        assert_eq!((PRICED + PRICED).micro_usd, Some(14));
        assert_eq!((PRICED + UNPRICED).micro_usd, None);
        assert_eq!((UNPRICED + PRICED).tokens(), 220);
    }

    #[test]
    fn no_tokens_cost_nothing_whatever_the_price() {
        let nothing = Usage { micro_usd: None, ..Usage::ZERO };
        assert_eq!((nothing + PRICED).micro_usd, Some(7));
        assert_eq!([nothing, nothing].into_iter().sum::<Usage>().micro_usd, Some(0));
    }

    #[test]
    fn a_usage_without_a_price_is_read_as_unknown() {
        let usage: Usage =
            serde_json::from_str(r#"{"input_tokens":1200,"output_tokens":80}"#).expect("usage");
        assert_eq!(usage, Usage { input_tokens: 1200, output_tokens: 80, micro_usd: None, ..Usage::ZERO });
        let error = serde_json::from_str::<Usage>(r#"{"input_tokens":1,"output_tokens":1,"tokens":2}"#);
        assert!(error.expect_err("unknown field").to_string().contains("`tokens`"));
    }

    #[test]
    fn sums_stop_at_the_top() {
        let most = Usage { input_tokens: u64::MAX, output_tokens: 1, ..Usage::ZERO };
        assert_eq!((most + most).tokens(), u64::MAX);
    }
}
