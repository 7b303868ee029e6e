//! Tests of the engine over the store in memory: whole runs, observed from outside.
//!
//! Every run ends in [`checks::check`]: the journal is valid, the events are in order, every call has one result, every
//! completion is reported once, nothing begins after a cancel. A test asserts only its special case.

mod asking;
mod bad_replies;
mod cancel;
mod checks;
mod compaction;
mod crash;
mod delegation;
mod deltas;
mod hooks;
mod integration;
mod leases;
mod limits;
mod model_commands;
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
