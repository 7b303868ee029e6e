//! Fault points, scenarios and checkers for Posse's own tests and benches.

pub mod campaign;
pub mod check;
pub mod dice;
pub mod ended_run;
pub mod fanout;
pub mod faults;
pub mod helpers;
pub mod latch;
pub mod ledger;
pub mod mock;
pub mod process;
pub mod scenario;
pub mod trial;
pub mod variables;
pub mod workspace_kind;
