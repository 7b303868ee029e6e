//! Whether a model call fits under the caps above it.
//!
//! A call takes its worst case (all input, maximum output) out of every cap from its agent up to the root.
//! 1. It is granted if it fits now.
//! 2. If it would fit with nothing in flight, it waits: calls usually take less than they reserved.
//! 3. If not even then, its maximum output is lowered, down to [`MIN_OUTPUT_TOKENS`]; lowered, 1 and 2 hold.
//! 4. Below that the cap is exhausted.
//!
//! Work leaves the last part of a cap to the reports: [`REPORT_INPUT_TOKENS`] and [`REPORT_OUTPUT_TOKENS`] for each
//! agent below the cap that still has its report to write. So an agent that runs out can always write it, and running
//! out does not lose what was found. A report leaves the part of the other agents alone.
//!
//! A provider may count more tokens than were estimated. That is known only afterwards and taken from the work that
//! follows, never from a report.
//!
//! Why it is like this: `docs/decisions/budget-report-turn.md`.

use std::fmt;

use thiserror::Error;

use super::amount::{Amount, Price, Usd};
use crate::id::AgentId;

/// The least output a call is worth sending with: less cannot hold a tool call with its arguments.
pub const MIN_OUTPUT_TOKENS: u64 = 256;

/// Most input of a report turn that has to be short: its conversation is trimmed to that. It has room for the terms of
/// the contract, the assignment, and the last few messages; any more would be kept back from the work of every agent.
pub const REPORT_INPUT_TOKENS: u64 = 3072;

/// The output that a report turn has at least: a page of text.
pub const REPORT_OUTPUT_TOKENS: u64 = 1024;

/// What is kept for the report of one agent. It is counted when a call reserves, from the agents that have a report to
/// write at that moment, and never set aside when one is spawned.
pub const REPORT_TOKENS: u64 = REPORT_INPUT_TOKENS + REPORT_OUTPUT_TOKENS;

/// Part of a budget from which on its agents are told that it is running out.
pub const LOW_PERCENT: u64 = 80;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Anything but the report: may not use the last part of a cap.
    Work,
    /// The report turn: may use all but what is kept for the reports of others.
    Report,
}

/// A model call that wants to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEstimate {
    /// Its input, as estimated.
    pub input_tokens: u64,
    /// The maximum output it would like; at least 1.
    pub max_output_tokens: u64,
    /// What its model costs; none is unknown, and then no cap on money lets it pass.
    pub price: Option<Price>,
}

/// The answer to a [`CallEstimate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// Send it, with the amount's `output_tokens` as its maximum output.
    Granted(Amount),
    /// It fits once what is in flight has settled: stand in the line of this agent's cap.
    Wait {
        /// The agent whose cap is taken up at the moment.
        owner: AgentId,
    },
    /// It does not fit any more.
    Exhausted(ExhaustedCap),
}

/// A cap that nothing more fits under.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the budget of {} is exhausted: {limit}{}", whose(.owner), figures(.limit, .taken.as_ref()))]
pub struct ExhaustedCap {
    /// The agent whose budget it is.
    pub owner: AgentId,
    /// The limit.
    pub limit: Limit,
    /// How much of it is taken, and how much was asked for; none for agents, of which all are taken.
    pub taken: Option<LimitUsage>,
}

/// How much of a limit is taken, and what does not fit beside it: tokens or millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUsage {
    /// Spent.
    pub used: u64,
    /// Kept for the reports of the agents that have theirs to write.
    pub kept: u64,
    /// Reserved by calls under way that have to be counted.
    pub reserved: u64,
    /// The least that was asked for.
    pub asked: u64,
}

/// The figures of an exhausted budget, as what follows its limit.
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

/// A budget that is running out. Reads as what follows `most of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowBudget {
    /// The agent whose budget it is.
    pub owner: AgentId,
    /// The limit.
    pub limit: Limit,
}

impl fmt::Display for LowBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget of {} is used: {}", whose(&self.owner), self.limit)
    }
}

/// Whose budget it is, in words that are the same in every run: models read them.
pub(crate) fn whose(owner: &AgentId) -> String {
    if owner.is_root() { "the run".to_owned() } else { format!("task {}", owner.relative()) }
}

/// A limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many tokens.
    Tokens(u64),
    /// So much money.
    Usd(Usd),
    /// So much money, and a model whose price is unknown.
    UnknownPrice(Usd),
    /// So many agents.
    Agents(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Tokens(tokens) => write!(f, "its limit is {tokens} tokens"),
            Limit::Usd(usd) => write!(f, "its limit is {usd}"),
            Limit::UnknownPrice(usd) => write!(f, "its limit is {usd}, and the model's price is unknown"),
            Limit::Agents(0) => f.write_str("its limit is 0 agents, and the agent itself is one"),
            Limit::Agents(1) => f.write_str("its limit is 1 agent"),
            Limit::Agents(agents) => write!(f, "its limit is {agents} agents"),
        }
    }
}

/// Tokens and money, as caps count them.
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

    /// Without what `other` has, as far as there is that much.
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
        // Where the price is unknown there is no cap on money that could miss it.
        CapTotals { tokens: amount.tokens(), micro_usd: amount.micro_usd.unwrap_or(0) }
    }
}

/// An agent whose budget a call must fit under, and what its subtree has taken.
pub(super) struct CappedAgent<'a> {
    pub(super) owner: &'a AgentId,
    pub(super) tokens: Option<u64>,
    pub(super) usd: Option<Usd>,
    pub(super) spent: CapTotals,
    pub(super) reserved: CapTotals,
    /// What is kept for reports other than the one that is asked for.
    pub(super) kept: CapTotals,
}

/// What a report may take at most of a model with this price.
pub(super) fn report_sums(price: Option<Price>) -> CapTotals {
    let micro_usd = price.map_or(0, |price| price.worst(REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS));
    CapTotals { tokens: REPORT_TOKENS, micro_usd }
}

/// Answers a want.
pub(super) fn quote<'a>(
    capped: impl Iterator<Item = CappedAgent<'a>>,
    want: &CallEstimate,
    purpose: Purpose,
) -> Reservation {
    let most = want.max_output_tokens.max(1);
    let least = least_output(purpose).min(most);
    let mut room = Room { now: Tightest::at_most(most), idle: Tightest::at_most(most), least };
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
        Room { idle: Tightest { output, by: Some(exhausted) }, .. } if output < least => {
            Reservation::Exhausted(exhausted.into())
        }
        // A report does not wait for more than it needs.
        Room { now, .. } if purpose == Purpose::Report && now.output >= least => grant(now.output),
        Room { now: Tightest { output, by: Some(tightest) }, idle, .. } if output < idle.output => {
            Reservation::Wait { owner: tightest.owner.clone() }
        }
        Room { idle, .. } => grant(idle.output),
    }
}

/// The least output that a call is worth sending with.
fn least_output(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Work => MIN_OUTPUT_TOKENS,
        Purpose::Report => REPORT_OUTPUT_TOKENS,
    }
}

/// The most output that fits, at this moment and with nothing in flight.
struct Room<'a> {
    now: Tightest<'a>,
    idle: Tightest<'a>,
    /// The least that has to fit.
    least: u64,
}

/// The most output that fits under all caps seen so far, and whose cap says so.
struct Tightest<'a> {
    output: u64,
    by: Option<TightestCap<'a>>,
}

/// The cap that is the tightest.
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

impl<'a> Tightest<'a> {
    fn at_most(output: u64) -> Self {
        Self { output, by: None }
    }

    /// No output at all also stands for an input that does not fit: both are below every least.
    fn narrow(&mut self, output: Option<u64>, by: TightestCap<'a>) {
        let output = output.unwrap_or(0);
        if output < self.output {
            *self = Self { output, by: Some(by) };
        }
    }
}

impl<'a> Room<'a> {
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
            // A free model costs nothing, but zero means zero for it too.
            let output = if cap.micros() == 0 { None } else { price.output_within(want.input_tokens, left) };
            tightest.narrow(output, by);
        }
    }
}
