//! Fault points, scenarios and checkers for Posse's own tests and benches.

pub mod fanout;
pub mod gate;
