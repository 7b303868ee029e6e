//! Workspaces: what agents work on, and how their work comes together.
//!
//! Each project (a person's folder) has a bare repository of Posse's own beneath the state directory. A snapshot of
//! the folder is a commit in it; an agent that writes gets a workspace of its own, made from a snapshot; what it did
//! is committed by the host, which scans the files itself and never runs git where an agent could have written
//! configuration. Merging happens in the bare repository; only then are the parent's files brought up to date.
//!
//! ```text
//! <state>/projects/<key>/repo.git           refs/posse/{base/<run>, {work,salvage}/<agent>/<attempt>}
//! <state>/runs/<run>/project.json           where the project is, what the run began with
//! <state>/runs/<run>/workspaces/<agent>/<attempt>/files
//! <state>/runs/<run>/shared/<boot>/<commit>  for readers
//! ```
//!
//! Everything here but [`check`] blocks; callers in an async program run it on threads that may.

mod apply;
mod begin;
mod cached;
mod change;
mod check;
mod checkout;
mod closed;
mod content;
mod copies;
mod disk;
mod enclosing;
mod error;
mod forbidden;
mod gate;
mod gc;
mod git;
mod git_dir;
mod helper;
mod ignored;
mod index;
mod leave_out;
mod lent_objects;
mod lock;
mod manifest;
mod merge;
mod names;
mod notes;
mod object;
mod objects;
mod oid;
mod options;
mod overlay;
mod own_git;
mod pack;
pub(crate) mod project;
mod publish;
mod quarantine;
mod refs;
mod run;
mod salvages;
mod scan;
mod scratch;
mod shadow;
mod snapshot;
mod space;
mod sync;
mod tables;
mod text;
mod torn;
mod tree_switch;
mod unnamed_file;
mod update;
mod user;
mod user_refs;
mod user_repository;
mod walk;

pub use apply::{ApplyError, ApplySummary};
pub use begin::{RunBase, Workspaces};
pub use check::{CheckCommand, CheckEnd, CheckRequest, CheckResult, check};
pub use error::WorkspaceError;
pub use gate::RefusedCode;
pub use gc::{GcOptions, GcReport, IsOpen};
pub use git::{Answer, GIT_PATH, Git};
pub use helper::end_helpers;
pub use lock::Lock;
pub use merge::{Merge, MergeRequest, merge};
pub use oid::{NoOid, Oid};
pub use options::{
    DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, DEFAULT_MAX_RUN_BYTES, FAULT_POINTS, Faults, WorkspaceOptions,
};
pub use overlay::{CACHE_NAMES, caches, lay_out, remove_layers};
pub use publish::{DiffForm, DiffOptions, PublishedResult, diff};
pub use refs::{base_ref, salvage_ref, salvaged_git_ref, torn_ref, work_ref};
pub use run::{BORROWED_OBJECTS, ReadyWorkspace, RunSpace};
pub use salvages::Salvage;
pub use scratch::Scratch;
pub use snapshot::{SalvageOutcome, Snapshot};
pub use update::UpdateOutcome;

use run::add_commit;
