//! Whether a model call fits under the caps above it.
//!
//! A call takes its worst case (all input, maximum output) out of every cap from its agent up to the root.
//! 1. It is granted if it fits now.
//! 2. If it would fit with nothing in flight, it waits: calls usually take less than they reserved.
//! 3. If not even then, its maximum output is lowered, down to [`MIN_OUTPUT_TOKENS`]; lowered, 1 and 2 hold.
//! 4. Below that the cap is exhausted.
//!
//! Work leaves the last part of a cap, [`REPORT_TOKENS`] for each open agent, to the reports, so that running
//! dry does not lose what was found.

use std::fmt;

use thiserror::Error;

use super::amount::{Amount, Price, Usd};
use crate::id::AgentId;

/// The least output a call is worth sending with: less cannot hold a tool call with its arguments.
pub const MIN_OUTPUT_TOKENS: u64 = 256;

/// What an open agent's report is thought to take: a page of text. It is counted when a call reserves, from
/// the agents open at that moment, and never set aside when one is spawned.
pub const REPORT_TOKENS: u64 = 1024;

/// Part of a budget from which on its agents are told that it is running out.
pub const LOW_PERCENT: u64 = 80;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Anything but the report: may not use the last part of a cap.
    Work,
    /// The report turn: may use all that is left.
    Report,
}

/// A model call that wants to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Its input, as estimated.
    pub input_tokens: u64,
    /// The maximum output it would like; at least 1.
    pub max_output_tokens: u64,
    /// What its model costs; none is unknown, and then no cap on money lets it pass.
    pub price: Option<Price>,
}

/// The answer to a [`Want`].
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
    Exhausted(Exhausted),
}

/// A cap that nothing more fits under.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the budget of {} is exhausted: {limit}", whose(.owner))]
pub struct Exhausted {
    /// The agent whose budget it is.
    pub owner: AgentId,
    /// The limit.
    pub limit: Limit,
}

/// A budget that is running out. Reads as what follows `most of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Low {
    /// The agent whose budget it is.
    pub owner: AgentId,
    /// The limit.
    pub limit: Limit,
}

impl fmt::Display for Low {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget of {} is used: {}", whose(&self.owner), self.limit)
    }
}

/// Whose budget it is, in words that are the same in every run: models read them.
fn whose(owner: &AgentId) -> String {
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
pub(super) struct Sums {
    pub(super) tokens: u64,
    pub(super) micro_usd: u64,
}

impl Sums {
    pub(super) fn plus(self, other: Sums) -> Sums {
        Sums {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    pub(super) fn minus(self, other: Sums) -> Option<Sums> {
        Some(Sums {
            tokens: self.tokens.checked_sub(other.tokens)?,
            micro_usd: self.micro_usd.checked_sub(other.micro_usd)?,
        })
    }
}

impl From<Amount> for Sums {
    fn from(amount: Amount) -> Self {
        // Where the price is unknown there is no cap on money that could miss it.
        Sums { tokens: amount.tokens(), micro_usd: amount.micro_usd.unwrap_or(0) }
    }
}

/// An agent whose budget a call must fit under, and what its subtree has taken.
pub(super) struct Capped<'a> {
    pub(super) owner: &'a AgentId,
    pub(super) tokens: Option<u64>,
    pub(super) usd: Option<Usd>,
    pub(super) spent: Sums,
    pub(super) reserved: Sums,
    pub(super) open_agents: u64,
}

/// Answers a want.
pub(super) fn quote<'a>(
    capped: impl Iterator<Item = Capped<'a>>,
    want: &Want,
    purpose: Purpose,
) -> Reservation {
    let most = want.max_output_tokens.max(1);
    let least = MIN_OUTPUT_TOKENS.min(most);
    let mut room = Room { now: Tightest::at_most(most), idle: Tightest::at_most(most) };
    for capped in capped {
        room.narrow_tokens(&capped, want, purpose);
        room.narrow_usd(&capped, want, purpose);
    }
    match room {
        Room { idle: Tightest { output, by: Some((owner, limit)) }, .. } if output < least => {
            Reservation::Exhausted(Exhausted { owner: owner.clone(), limit })
        }
        Room { now: Tightest { output, by: Some((owner, _)) }, idle } if output < idle.output => {
            Reservation::Wait { owner: owner.clone() }
        }
        Room { idle, .. } => Reservation::Granted(Amount {
            input_tokens: want.input_tokens,
            output_tokens: idle.output,
            micro_usd: want.price.map(|price| price.worst(want.input_tokens, idle.output)),
        }),
    }
}

/// The most output that fits, at this moment and with nothing in flight.
struct Room<'a> {
    now: Tightest<'a>,
    idle: Tightest<'a>,
}

/// The most output that fits under all caps seen so far, and whose cap says so.
struct Tightest<'a> {
    output: u64,
    by: Option<(&'a AgentId, Limit)>,
}

impl<'a> Tightest<'a> {
    fn at_most(output: u64) -> Self {
        Self { output, by: None }
    }

    /// No output at all also stands for an input that does not fit: both are below every least.
    fn narrow(&mut self, output: Option<u64>, owner: &'a AgentId, limit: Limit) {
        let output = output.unwrap_or(0);
        if output < self.output {
            *self = Self { output, by: Some((owner, limit)) };
        }
    }
}

impl<'a> Room<'a> {
    fn narrow_tokens(&mut self, capped: &Capped<'a>, want: &Want, purpose: Purpose) {
        let Some(cap) = capped.tokens else { return };
        let kept = kept_for_reports(REPORT_TOKENS, capped, purpose);
        let idle = cap.saturating_sub(kept).saturating_sub(capped.spent.tokens);
        let now = idle.saturating_sub(capped.reserved.tokens);
        for (tightest, left) in [(&mut self.idle, idle), (&mut self.now, now)] {
            tightest.narrow(left.checked_sub(want.input_tokens), capped.owner, Limit::Tokens(cap));
        }
    }

    fn narrow_usd(&mut self, capped: &Capped<'a>, want: &Want, purpose: Purpose) {
        let Some(cap) = capped.usd else { return };
        let Some(price) = want.price else {
            self.idle.narrow(None, capped.owner, Limit::UnknownPrice(cap));
            return;
        };
        // The others' models may have other prices; this call's is the only one known here.
        let kept = kept_for_reports(price.worst(0, REPORT_TOKENS), capped, purpose);
        let idle = cap.micros().saturating_sub(kept).saturating_sub(capped.spent.micro_usd);
        let now = idle.saturating_sub(capped.reserved.micro_usd);
        for (tightest, left) in [(&mut self.idle, idle), (&mut self.now, now)] {
            // A free model costs nothing, but zero means zero for it too.
            let output = if cap.micros() == 0 { None } else { price.output_within(want.input_tokens, left) };
            tightest.narrow(output, capped.owner, Limit::Usd(cap));
        }
    }
}

/// The last part of a cap, which only reports may use.
fn kept_for_reports(report: u64, capped: &Capped<'_>, purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Work => report.saturating_mul(capped.open_agents),
        Purpose::Report => 0,
    }
}
