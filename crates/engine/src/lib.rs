//! Runs a tree of agents under contract.
//!
//! The engine owns the order of things: decide purely, commit, and only then let an effect start or a caller
//! know. It names no vendor, no SQL and no operating system: those stand behind [`ports`].

pub mod ports;
