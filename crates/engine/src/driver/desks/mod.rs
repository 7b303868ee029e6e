//! The desks of the driver. Each is a struct with fields of its own that takes a fact and the state of the run, and returns
//! what follows from it; the driver journals that and starts the effects.
//!
//! A desk does not know the driver, so what it changes is in its file. Desks that use each other form no cycle
//! (`cargo xtask tidy`).
//!
//! Why it is like this: `docs/decisions/engine-desks.md`.

pub(super) mod known_skills;
pub(super) mod merging;
pub(super) mod preamble;
pub(super) mod shared_files;
pub(super) mod writers;
