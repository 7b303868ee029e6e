//! Prepares runs for every front end: settings with their origins, definitions and skills of the machine, trust and
//! approvals, hooks, models and their prices, plan files.
//!
//! The crate takes an [`Environment`] as a value, never reads the process's environment, and prints nothing. A function
//! with something to report to the user returns its value with notes ([`WithNotes`]). An error states the problem and
//! its remedy, without the words of one front end ([`SetupError`]).
//!
//! Why it is like this: `docs/decisions/setup-notes-and-remedies.md`.

#![warn(missing_docs)]

pub mod age;
pub mod approvals;
pub mod detach;
pub mod discovery;
pub mod doctor;
pub mod draft;
pub mod environment;
mod error;
pub mod execution;
pub mod export;
pub mod gc;
pub mod given_agents;
pub mod hide_state_dir;
pub mod hooks;
pub mod limit;
pub mod model_list;
pub mod models;
pub mod money;
mod notes;
pub mod plan;
pub mod project_dirs;
pub mod project_files;
pub mod project_runs;
pub mod scaffold;
pub mod server;
pub mod settings;
mod setup;
pub mod text;
mod text_models;
pub mod trust;
mod trust_scope;
mod user_file;
pub mod working_dir;

pub use draft::{PreparedRun, RunDirectory, RunDraft};
pub use environment::Environment;
pub use error::{OpenError, Remedy, SetupError, SetupErrorKind, Subject};
pub use execution::RunExecution;
pub use hooks::hooks_before;
pub use notes::{Note, NoteLevel, Notes, WithNotes};
pub use setup::Setup;
