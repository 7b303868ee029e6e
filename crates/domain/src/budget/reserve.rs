//! Decides whether a model call fits under all caps above it.
//!
//! A call reserves its worst case (all input, maximum output) under every cap from its agent up to the root.
//! 1. It is granted if it fits now.
//! 2. If it would fit with nothing in flight, it waits: calls usually use less than they reserve.
//! 3. If it does not fit even then, its maximum output is lowered, down to [`MIN_OUTPUT_TOKENS`], and 1 and 2 apply
//!    again.
//! 4. Below that the cap is exhausted.
//!
//! Work may not use the last part of a cap, which is kept for reports: [`REPORT_INPUT_TOKENS`] and
//! [`REPORT_OUTPUT_TOKENS`] for each agent below the cap that still has to write one. So an agent with an exhausted
//! budget can always report its findings. A report may not use the part that is kept for other agents.
//!
//! A provider may count more tokens than were estimated, which is known only afterwards. The difference reduces the
//! work that follows, never a report.
//!
//! Why it is like this: `docs/decisions/budget-report-turn.md`.

use std::fmt;

use thiserror::Error;

use super::amount::{Amount, Price, Usd};
use crate::id::AgentId;

/// Minimum output of a useful call: less cannot contain a tool call with its arguments.
pub const MIN_OUTPUT_TOKENS: u64 = 256;

/// Maximum input of a short report turn, to which its conversation is trimmed. It has room for the terms of the
/// contract, the assignment and the last few messages. A higher value would reserve more of every agent's work.
pub const REPORT_INPUT_TOKENS: u64 = 3072;

/// Minimum output of a report turn: a page of text.
pub const REPORT_OUTPUT_TOKENS: u64 = 1024;

/// The reserve for one agent's report. A call computes it from the agents that have a report to write at that moment.
/// Spawning an agent reserves nothing.
pub const REPORT_TOKENS: u64 = REPORT_INPUT_TOKENS + REPORT_OUTPUT_TOKENS;

/// Percentage of a spent budget at which its agents get a note.
pub const LOW_PERCENT: u64 = 80;

/// The purpose of a call, which decides how much of a cap it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Any call but the report. May not use the last part of a cap.
    Work,
    /// The report turn. May use everything except the reserve for the reports of others.
    Report,
}

/// A model call that an agent wants to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEstimate {
    /// The estimated input.
    pub input_tokens: u64,
    /// The desired maximum output, at least 1.
    pub max_output_tokens: u64,
    /// The price of the model. None is unknown, which every cap on money refuses.
    pub price: Option<Price>,
}

/// The ledger's answer to a [`CallEstimate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// The call may be sent, with `output_tokens` of the amount as its maximum output.
    Granted(Amount),
    /// The call fits when calls in flight have ended. It waits for this agent's cap.
    Wait {
        /// The agent whose cap has no room now.
        owner: AgentId,
    },
    /// The call can no longer fit.
    Exhausted(ExhaustedCap),
}

/// A cap without enough room.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the budget of {} is exhausted: {limit}{}", whose(.owner), figures(.limit, .taken.as_ref()))]
pub struct ExhaustedCap {
    /// The agent whose budget it is.
    pub owner: AgentId,
    pub limit: Limit,
    /// How much is taken and how much was requested. None for a limit of agents, which is then fully taken.
    pub taken: Option<LimitUsage>,
}

/// The parts of a limit, in tokens or millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUsage {
    pub used: u64,
    /// Kept for the reports that agents still have to write.
    pub kept: u64,
    /// Reserved by calls in flight that count here.
    pub reserved: u64,
    /// The minimum that was requested.
    pub asked: u64,
}

/// The figures of an exhausted budget, written after its limit in a message.
fn figures(limit: &Limit, taken: Option<&LimitUsage>) -> String {
    let (Some(LimitUsage { used, kept, reserved, asked }), false) =
        (taken, matches!(limit, Limit::UnknownPrice(_)))
    else {
        return String::new();
    };
    let amount = |number: &u64| match limit {
        Limit::Usd(_) | Limit::UnknownPrice(_) => Usd::from_micros(*number).to_string(),
        Limit::Tokens(_) | Limit::Agents(_) => number.to_string(),
    };
    let mut parts = vec![format!("{} are used", amount(used))];
    if *reserved > 0 {
        parts.push(format!("{} are reserved by calls under way", amount(reserved)));
    }
    if *kept > 0 {
        parts.push(format!("{} are kept for reports", amount(kept)));
    }
    format!(", of which {}; the next needs at least {}", parts.join(", "), amount(asked))
}

/// A budget that is mostly spent. Displays as the words after `most of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowBudget {
    /// The agent whose budget it is.
    pub owner: AgentId,
    pub limit: Limit,
}

impl fmt::Display for LowBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget of {} is used: {}", whose(&self.owner), self.limit)
    }
}

/// The budget's owner in words. Models read them, so they are the same in every run.
pub(crate) fn whose(owner: &AgentId) -> String {
    if owner.is_root() { "the run".to_owned() } else { format!("task {}", owner.relative()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Tokens(u64),
    Usd(Usd),
    /// An amount of money, with a model whose price is unknown.
    UnknownPrice(Usd),
    Agents(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Tokens(tokens) => write!(f, "its limit is {tokens} tokens"),
            Limit::Usd(usd) => write!(f, "its limit is {usd}"),
            Limit::UnknownPrice(usd) => write!(f, "its limit is {usd}, and the model's price is unknown"),
            Limit::Agents(0) => f.write_str("its limit of 0 agents does not even allow the agent itself"),
            Limit::Agents(1) => f.write_str("its limit is 1 agent"),
            Limit::Agents(agents) => write!(f, "its limit is {agents} agents"),
        }
    }
}

/// Tokens and money as caps count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CapTotals {
    pub(super) tokens: u64,
    pub(super) micro_usd: u64,
}

impl CapTotals {
    pub(super) fn plus(self, other: CapTotals) -> CapTotals {
        CapTotals {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// Subtracts `other`, down to zero.
    pub(super) fn less(self, other: CapTotals) -> CapTotals {
        CapTotals {
            tokens: self.tokens.saturating_sub(other.tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
        }
    }

    pub(super) fn minus(self, other: CapTotals) -> Option<CapTotals> {
        Some(CapTotals {
            tokens: self.tokens.checked_sub(other.tokens)?,
            micro_usd: self.micro_usd.checked_sub(other.micro_usd)?,
        })
    }
}

impl From<Amount> for CapTotals {
    fn from(amount: Amount) -> Self {
        // Where a price is unknown, no cap on money applies.
        CapTotals { tokens: amount.tokens(), micro_usd: amount.micro_usd.unwrap_or(0) }
    }
}

/// A cap that applies to a call, and what its subtree has taken.
pub(super) struct CappedAgent<'a> {
    pub(super) owner: &'a AgentId,
    pub(super) tokens: Option<u64>,
    pub(super) usd: Option<Usd>,
    pub(super) spent: CapTotals,
    pub(super) reserved: CapTotals,
    /// The reserve for reports, except the report that is requested.
    pub(super) kept: CapTotals,
}

/// The maximum that a report costs with this price.
pub(super) fn report_sums(price: Option<Price>) -> CapTotals {
    let micro_usd = price.map_or(0, |price| price.worst(REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS));
    CapTotals { tokens: REPORT_TOKENS, micro_usd }
}

/// Decides on an estimate.
pub(super) fn quote<'a>(
    capped: impl Iterator<Item = CappedAgent<'a>>,
    want: &CallEstimate,
    purpose: Purpose,
) -> Reservation {
    let most = want.max_output_tokens.max(1);
    let least = least_output(purpose).min(most);
    let mut room =
        OutputRoom { now: TightestLimit::at_most(most), idle: TightestLimit::at_most(most), least };
    for capped in capped {
        room.narrow_tokens(&capped, want);
        room.narrow_usd(&capped, want);
    }
    let grant = |output_tokens| {
        Reservation::Granted(Amount {
            input_tokens: want.input_tokens,
            output_tokens,
            micro_usd: want.price.map(|price| price.worst(want.input_tokens, output_tokens)),
        })
    };
    match room {
        OutputRoom { idle: TightestLimit { output, by: Some(exhausted) }, .. } if output < least => {
            Reservation::Exhausted(exhausted.into())
        }
        // A report does not wait for more output than it needs.
        OutputRoom { now, .. } if purpose == Purpose::Report && now.output >= least => grant(now.output),
        OutputRoom { now: TightestLimit { output, by: Some(tightest) }, idle, .. }
            if output < idle.output =>
        {
            Reservation::Wait { owner: tightest.owner.clone() }
        }
        OutputRoom { idle, .. } => grant(idle.output),
    }
}

/// The minimum output of a useful call.
fn least_output(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Work => MIN_OUTPUT_TOKENS,
        Purpose::Report => REPORT_OUTPUT_TOKENS,
    }
}

/// The maximum output that fits now, and with nothing in flight.
struct OutputRoom<'a> {
    now: TightestLimit<'a>,
    idle: TightestLimit<'a>,
    /// The minimum that has to fit.
    least: u64,
}

/// The maximum output under all caps so far, and the cap that sets it.
struct TightestLimit<'a> {
    output: u64,
    by: Option<TightestCap<'a>>,
}

#[derive(Clone, Copy)]
struct TightestCap<'a> {
    owner: &'a AgentId,
    limit: Limit,
    taken: LimitUsage,
}

impl From<TightestCap<'_>> for ExhaustedCap {
    fn from(by: TightestCap<'_>) -> Self {
        ExhaustedCap { owner: by.owner.clone(), limit: by.limit, taken: Some(by.taken) }
    }
}

impl<'a> TightestLimit<'a> {
    fn at_most(output: u64) -> Self {
        Self { output, by: None }
    }

    /// No output also means that the input does not fit: both are below every minimum.
    fn narrow(&mut self, output: Option<u64>, by: TightestCap<'a>) {
        let output = output.unwrap_or(0);
        if output < self.output {
            *self = Self { output, by: Some(by) };
        }
    }
}

impl<'a> OutputRoom<'a> {
    fn narrow_tokens(&mut self, capped: &CappedAgent<'a>, want: &CallEstimate) {
        let Some(cap) = capped.tokens else { return };
        let (used, kept) = (capped.spent.tokens, capped.kept.tokens);
        let idle = cap.saturating_sub(kept).saturating_sub(used);
        let now = idle.saturating_sub(capped.reserved.tokens);
        let asked = want.input_tokens.saturating_add(self.least);
        let taken = LimitUsage { used, kept, reserved: 0, asked };
        let by = TightestCap { owner: capped.owner, limit: Limit::Tokens(cap), taken };
        for (tightest, left) in [(&mut self.idle, idle), (&mut self.now, now)] {
            tightest.narrow(left.checked_sub(want.input_tokens), by);
        }
    }

    fn narrow_usd(&mut self, capped: &CappedAgent<'a>, want: &CallEstimate) {
        let Some(cap) = capped.usd else { return };
        let (used, kept) = (capped.spent.micro_usd, capped.kept.micro_usd);
        let asked = want.price.map_or(0, |price| price.worst(want.input_tokens, self.least));
        let taken = LimitUsage { used, kept, reserved: 0, asked };
        let by = TightestCap { owner: capped.owner, limit: Limit::Usd(cap), taken };
        let Some(price) = want.price else {
            self.idle.narrow(None, TightestCap { limit: Limit::UnknownPrice(cap), ..by });
            return;
        };
        let idle = cap.micros().saturating_sub(kept).saturating_sub(used);
        let now = idle.saturating_sub(capped.reserved.micro_usd);
        for (tightest, left) in [(&mut self.idle, idle), (&mut self.now, now)] {
            // A free model costs nothing, but a cap of zero refuses it too.
            let output = if cap.micros() == 0 { None } else { price.output_within(want.input_tokens, left) };
            tightest.narrow(output, by);
        }
    }
}
