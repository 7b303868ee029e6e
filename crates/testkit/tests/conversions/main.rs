//! The corpus of hostile inputs: for each conversion of data from a model, a provider, a repository or a web server,
//! the worst known input and its required outcome.
//!
//! A row is `name: input and conversion => part of the outcome`. Each runs in its own process with a limit on processor
//! time and memory (`bounded.rs`): a conversion without a bound does not slow the tests down, it fails. Every
//! conversion and its bound is in `docs/decisions/conversions-bounds.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bounded;
mod files;
mod schemas;
mod streams;

mod texts;
