//! What every front end needs between a user and a run: settings with their origins, the definitions and skills of a
//! machine, what a user trusts and has approved, hooks, models and their prices, plan files.
//!
//! It takes an [`Environment`] as a value and reads none by itself; it prints nothing. A function that a user should hear
//! from returns its value with notes ([`WithNotes`]), and an error states what is wrong and which remedy there is, without
//! the words of one front end ([`SetupError`]).
//!
//! Why it is like this: `docs/decisions/setup-notes-and-remedies.md`.

pub mod age;
pub mod agents_flag;
pub mod approvals;
pub mod detach;
pub mod discovery;
pub mod environment;
mod error;
pub mod hide_state_dir;
pub mod hooks;
pub mod limit;
pub mod models;
pub mod money;
mod notes;
pub mod plan_file;
pub mod planner;
pub mod project_dirs;
pub mod project_files;
pub mod settings;
mod setup;
pub mod text;
mod text_models;
pub mod trust;
mod trust_scope;
mod user_file;
pub mod working_dir;

pub use environment::Environment;
pub use error::{OpenError, Remedy, SetupError, SetupErrorKind, Subject};
pub use notes::{Notes, WithNotes};
pub use setup::Setup;
