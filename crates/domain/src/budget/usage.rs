//! What model calls and agents have spent.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::event::EventBody;

/// Tokens and cost of model calls.
///
/// The usage of a call that was cut off is unknown: it counts with the maximum that it had reserved, so that no limit is
/// exceeded. A sum therefore has two figures for money. What is known was spent: every call in it was answered, and its
/// price is known. The maximum also has the reserves of the calls that were cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens sent, including those read from a cache, at most.
    pub input_tokens: u64,
    /// Tokens received, including thinking, at most.
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
    /// The maximum cost in millionths of a dollar. None if a price is unknown, which is never shown as zero: one unknown
    /// part makes a sum unknown. Only a usage without any token is known to cost nothing.
    #[serde(default)]
    pub micro_usd: Option<u64>,
    /// The known cost, if it is neither `micro_usd` nor, where that is unknown, zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_micro_usd: Option<u64>,
    /// The tokens of answered calls of unknown price, if they are not all tokens of answered calls of a usage whose
    /// `micro_usd` is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpriced_tokens: Option<u64>,
    /// The calls that were cut off, and the part of the tokens above that they had reserved.
    #[serde(default, skip_serializing_if = "CutOffCalls::is_none")]
    pub cut_off: CutOffCalls,
    /// What the calls that were cut off cost at most, as far as their prices are known, if `micro_usd` is unknown. Otherwise
    /// zero, because it follows from `micro_usd`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_off_micro_usd: u64,
}

/// Model calls whose usage is unknown, because they were cut off before their reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutOffCalls {
    pub calls: u64,
    /// The input that they had reserved.
    pub input_tokens: u64,
    /// The output that they had reserved.
    pub output_tokens: u64,
}

impl CutOffCalls {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

impl Usage {
    pub const ZERO: Usage = Usage {
        input_tokens: 0,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        micro_usd: Some(0),
        known_micro_usd: None,
        unpriced_tokens: None,
        cut_off: CutOffCalls { calls: 0, input_tokens: 0, output_tokens: 0 },
        cut_off_micro_usd: 0,
    };

    /// The usage of one call that was cut off, if this is what it had reserved.
    pub fn as_cut_off(self) -> Usage {
        let Usage { input_tokens, output_tokens, .. } = self;
        let cut_off = CutOffCalls { calls: 1, input_tokens, output_tokens };
        Usage { cut_off, ..self }.with_known(0, 0)
    }

    /// The total that a token budget counts.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The input of the calls that were answered.
    pub fn answered_input_tokens(&self) -> u64 {
        self.input_tokens.saturating_sub(self.cut_off.input_tokens)
    }

    /// The output of the calls that were answered.
    pub fn answered_output_tokens(&self) -> u64 {
        self.output_tokens.saturating_sub(self.cut_off.output_tokens)
    }

    /// All tokens of the calls that were answered.
    pub fn answered_tokens(&self) -> u64 {
        self.answered_input_tokens().saturating_add(self.answered_output_tokens())
    }

    /// The cost of the calls that were answered and whose price is known, in millionths of a dollar.
    pub fn known_micro_usd(&self) -> u64 {
        self.known_micro_usd.or(self.micro_usd).unwrap_or(0)
    }

    /// The maximum cost in millionths of a dollar. None if a price is unknown.
    pub fn micro_usd_at_most(&self) -> Option<u64> {
        self.micro_usd.or_else(|| (self.tokens() == 0).then_some(0))
    }

    /// What the calls that were cut off cost at most, in millionths of a dollar, as far as their prices are known.
    pub fn cut_off_micro_usd(&self) -> u64 {
        let known = self.known_micro_usd();
        self.micro_usd.map_or(self.cut_off_micro_usd, |most| most.saturating_sub(known))
    }

    /// The maximum cost in millionths of a dollar of all calls whose price is known.
    pub fn priced_micro_usd_at_most(&self) -> u64 {
        self.known_micro_usd().saturating_add(self.cut_off_micro_usd())
    }

    /// The tokens of calls that were answered and whose price is unknown.
    pub fn unpriced_tokens(&self) -> u64 {
        let all = if self.micro_usd.is_some() { 0 } else { self.answered_tokens() };
        self.unpriced_tokens.unwrap_or(all)
    }

    /// The usage without the figures that older versions did not have.
    pub fn without_known_cost(self) -> Usage {
        Usage { known_micro_usd: None, unpriced_tokens: None, cut_off: CutOffCalls::default(), ..self }
            .without_cut_off_cost()
    }

    /// The usage without the maximum cost of calls that were cut off beside others of unknown price, which older versions
    /// did not have.
    pub fn without_cut_off_cost(self) -> Usage {
        Usage { cut_off_micro_usd: 0, ..self }
    }

    /// Sets what is known of the cost. Equal usages are also equal as JSON, because a figure that follows from the others is
    /// not stored.
    fn with_known(self, known_micro_usd: u64, unpriced_tokens: u64) -> Usage {
        let plain = Usage { known_micro_usd: None, unpriced_tokens: None, ..self };
        Usage {
            known_micro_usd: Some(known_micro_usd).filter(|known| *known != plain.known_micro_usd()),
            unpriced_tokens: Some(unpriced_tokens).filter(|tokens| *tokens != plain.unpriced_tokens()),
            ..plain
        }
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
        let cost = self.micro_usd_at_most().zip(other.micro_usd_at_most());
        let known = self.known_micro_usd().saturating_add(other.known_micro_usd());
        let unpriced = self.unpriced_tokens().saturating_add(other.unpriced_tokens());
        let sum = Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            micro_usd: cost.map(|(one, two)| one.saturating_add(two)),
            cut_off: self.cut_off.plus(other.cut_off),
            ..Usage::ZERO
        };
        let cut_off = self.cut_off_micro_usd().saturating_add(other.cut_off_micro_usd());
        let sum = sum.with_known(known, unpriced);
        Usage { cut_off_micro_usd: if sum.micro_usd.is_some() { 0 } else { cut_off }, ..sum }
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
    /// Tool calls that were refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Files that the accepted work of an agent changed; for the root, files of the run's result. None if no work was
    /// accepted. A sum counts a file once for each agent that changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
    pub usage: Usage,
}

impl Figures {
    /// What the end of a tool call adds.
    pub fn of_call(body: &EventBody) -> Figures {
        let refused = match body {
            EventBody::ToolFinished(e) => u64::from(e.is_refused()),
            EventBody::ToolInterrupted(_) => 0,
            _ => return Figures::default(),
        };
        Figures { tool_calls: 1, refused, ..Figures::default() }
    }

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
            refused: self.refused.saturating_add(other.refused),
            files_changed: match (self.files_changed, other.files_changed) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (one, two) => one.or(two),
            },
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
    use proptest::prelude::*;

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
    fn a_call_that_was_cut_off_counts_in_the_maximum_only() {
        let sum = PRICED + PRICED.as_cut_off() + PRICED.as_cut_off();
        assert_eq!((sum.known_micro_usd(), sum.micro_usd_at_most()), (7, Some(21)));
        assert_eq!((sum.tokens(), sum.answered_tokens(), sum.cut_off.calls), (330, 110, 2));
        assert_eq!((sum.answered_input_tokens(), sum.answered_output_tokens()), (100, 10));
        assert_eq!(sum.unpriced_tokens(), 0);
    }

    #[test]
    fn known_costs_add_up_beside_unknown_prices() {
        let sum = PRICED + UNPRICED + UNPRICED.as_cut_off() + PRICED.as_cut_off() + PRICED;
        assert_eq!((sum.known_micro_usd(), sum.micro_usd_at_most()), (14, None));
        assert_eq!((sum.unpriced_tokens(), sum.answered_tokens()), (110, 330));
        assert_eq!((sum.cut_off_micro_usd(), sum.priced_micro_usd_at_most()), (7, 21));
        assert_eq!((sum + UNPRICED + sum).priced_micro_usd_at_most(), 42);
    }

    #[test]
    fn a_usage_is_written_as_before_unless_a_figure_adds_something() {
        let json = |usage: Usage| serde_json::to_value(usage).expect("JSON");
        let keys = |usage| json(usage).as_object().map_or(0, serde_json::Map::len);
        assert_eq!((keys(PRICED), keys(UNPRICED), keys(PRICED + PRICED)), (4, 4, 4));
        assert_eq!(keys(UNPRICED + UNPRICED), 4, "all of it is of unknown price");
        let mixed = json(PRICED + UNPRICED);
        assert_eq!((&mixed["known_micro_usd"], &mixed["unpriced_tokens"]), (&7.into(), &110.into()));
        let cut = json(PRICED.as_cut_off());
        let calls = serde_json::json!({"calls": 1, "input_tokens": 100, "output_tokens": 10});
        assert_eq!((&cut["known_micro_usd"], &cut["cut_off"]), (&0.into(), &calls));
    }

    proptest! {
        #[test]
        fn sums_do_not_depend_on_the_order(parts in proptest::collection::vec(any_usage(), 0..8)) {
            let forwards: Usage = parts.iter().copied().sum();
            let backwards: Usage = parts.iter().rev().copied().sum();
            let in_halves: Usage =
                parts.chunks(3).map(|some| some.iter().copied().sum::<Usage>()).sum();
            prop_assert_eq!(forwards, backwards);
            prop_assert_eq!(forwards, in_halves);
            let known: u64 = parts.iter().map(Usage::known_micro_usd).sum();
            prop_assert_eq!(forwards.known_micro_usd(), known);
            let most: u64 = parts.iter().filter_map(|part| part.micro_usd).sum();
            prop_assert_eq!(forwards.priced_micro_usd_at_most(), most);
            let again: Usage =
                serde_json::from_str(&serde_json::to_string(&forwards).expect("JSON")).expect("usage");
            prop_assert_eq!(again, forwards);
        }
    }

    /// A call of any outcome.
    fn any_usage() -> impl Strategy<Value = Usage> {
        (0..100_u64, 0..100_u64, proptest::option::of(0..1_000_u64), any::<bool>()).prop_map(
            |(input_tokens, output_tokens, micro_usd, is_cut)| {
                let usage = Usage { input_tokens, output_tokens, micro_usd, ..Usage::ZERO };
                if is_cut { usage.as_cut_off() } else { usage }
            },
        )
    }

    #[test]
    fn sums_stop_at_the_top() {
        let most = Usage { input_tokens: u64::MAX, output_tokens: 1, ..Usage::ZERO };
        assert_eq!((most + most).tokens(), u64::MAX);
    }
}
