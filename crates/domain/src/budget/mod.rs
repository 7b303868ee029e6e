//! What an agent and its subtree may spend, and what they have spent.
//!
//! Tokens, money, agents and wall time are one [`Ledger`] over a run's whole tree. A [`Budget`] is a cap on a
//! subtree, not a share cut out of the parent's: nothing is set aside when a child is spawned, and every call
//! is checked against the cap of every agent above it. Halving the turns by depth ([`turn_limit`]) limits a
//! path; only the ledger limits the tree.

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
pub use usage::{Figures, Usage};

pub(crate) use reserve::whose;
