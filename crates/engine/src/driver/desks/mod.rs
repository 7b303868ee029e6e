//! The desks of the driver. A desk is a struct with its own fields. It takes a fact and the core, and returns the
//! consequences for the lifecycle of agents, on which the driver acts.
//!
//! A desk does not know the driver, so it changes only its own files and the core. Desks that use each other form no
//! cycle (`cargo xtask tidy`): calls use files, files use merging and shared files, models use preambles.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`.

pub(super) mod calls;
pub(super) mod files;
pub(super) mod known_skills;
pub(super) mod merging;
pub(super) mod models;
pub(super) mod preamble;
pub(super) mod shared_files;
pub(super) mod writers;
