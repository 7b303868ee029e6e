//! The engine over the store in memory: whole runs, told from outside.
//!
//! Every run ends in [`checks::check`]: the journal verified, the order of events, one result for every call,
//! every completion delivered once, nothing begun after a cancel. A test says only what is special about it.

mod asking;
mod bad_replies;
mod cancel;
mod checks;
mod crash;
mod delegation;
mod deltas;
mod hooks;
mod integration;
mod limits;
mod model_commands;
mod owners;
mod permission;
mod plans;
mod power;
mod providers;
mod queue;
mod records;
mod repeatable;
mod replaying;
mod reports;
mod request;
mod retries;
mod run_skill;
mod share;
mod simulation;
mod skills;
mod tools;
mod verifying;
mod workspaces;
mod world;
