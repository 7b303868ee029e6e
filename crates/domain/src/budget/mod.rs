//! Budgets: the limits of agents and their subtrees, and what they have spent.
//!
//! One [`Ledger`] counts tokens, money, agents and wall time over a run's whole tree. A [`Budget`] is a cap on a
//! subtree, not a share of the parent's: spawning a child reserves nothing, and every call is checked against the cap
//! of every agent above it. Halving the turns by depth ([`turn_limit`]) limits a path. Only the ledger limits the tree.

mod amount;
mod deadline;
mod ledger;
mod limits;
mod reserve;
mod terms;
mod usage;

#[cfg(test)]
mod tests;

pub use amount::{Amount, InvalidUsd, Price, USD_MAX, Usd, price_entry};
pub use deadline::{Deadline, REPORT_TIME_LEAST_MS, REPORT_TIME_MOST_MS, REPORT_TIME_PERCENT};
pub use ledger::{AtDepth, Ledger, LedgerError};
pub use limits::{
    DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH, MIN_CHILD_TURNS,
    effective_max_depth, turn_limit,
};
pub use reserve::{
    CallEstimate, ExhaustedCap, LOW_PERCENT, Limit, LimitUsage, LowBudget, MIN_OUTPUT_TOKENS, Purpose,
    REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS, REPORT_TOKENS, Reservation,
};
pub use terms::{Budget, InvalidBudget};
pub use usage::{CutOffCalls, Figures, Usage};

pub(crate) use reserve::whose;
