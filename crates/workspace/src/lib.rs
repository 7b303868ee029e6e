//! Creates and merges the workspaces of agents, for the engine and for front ends.
//!
//! Each project (a user's folder) has a bare repository beneath the state directory, which belongs to Posse. A snapshot
//! of the folder is a commit in it. An agent that writes gets its own workspace, created from a snapshot. The host
//! commits the agent's changes: it scans the files itself and never runs git where an agent could have written
//! configuration. Merging happens in the bare repository; only then are the parent's files updated.
//!
//! ```text
//! <state>/projects/<key>/repo.git           refs/posse/{base/<run>, {work,salvage}/<agent>/<attempt>}
//! <state>/runs/<run>/project.json           where the project is, what the run began with
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>   the files of a commit, shared by all workspaces
//! <state>/runs/<run>/workspaces/<agent>/<attempt>/upper what an agent changed; `files` if its workspace is a copy
//! <state>/runs/<run>/shared/<boot>/<commit>  for readers, where files cannot be shared
//! ```
//!
//! [`LocalFiles`] and [`RunSpace`] block. [`LocalWorkspaces`] and the engine's ports that both implement run them on
//! blocking threads.

mod apply;
mod apply_intent;
mod applying;
mod bases;
mod begin;
mod cached;
mod call_commits;
mod change;
mod checkout;
mod closed;
mod conflict;
mod content;
mod continue_run;
mod copies;
mod disk;
mod enclosing;
mod error;
mod file_listing;
mod files_progress;
mod forbidden;
mod gate;
mod gc;
mod git;
mod git_dir;
mod helper;
mod host_commands;
mod ignored;
mod index;
mod layout;
mod leave_out;
mod lent_objects;
mod local_workspaces;
mod lock;
mod manifest;
mod merge;
mod names;
mod notes;
mod object;
mod objects;
mod options;
mod overlay;
mod overlays;
mod own_git;
mod pack;
mod path_writer;
pub(crate) mod project;
mod protected_names;
mod publish;
mod quarantine;
mod readers;
mod refs;
mod reports;
mod run;
mod run_files;
mod salvages;
mod scan;
mod scratch;
mod secret_files;
mod shadow;
mod snapshot;
mod space;
mod stored_objects;
mod sync;
mod tables;
mod temporary_state;
mod text;
mod torn;
mod transfer;
mod tree_diff;
mod tree_switch;
mod tree_table;
mod undo;
mod unnamed_file;
mod update;
mod upper;
mod user;
mod user_refs;
mod user_repository;
mod walk;
mod workspace_commands;
mod workspace_views;

pub use begin::{LocalFiles, RunBase};
pub use error::RepositoryError;
pub use git::{Answer, GIT_PATH, Git};
pub use helper::end_helpers;
pub use host_commands::{CommandEnd, CommandLayers, CommandResult, HostCommand, HostCommands, run_commands};
pub use layout::Layout;
pub use local_workspaces::{LocalWorkspaces, WorkspaceSettings};
pub use lock::Lock;
pub use merge::{TreeMerge, merge};
pub use options::{
    DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, DEFAULT_MAX_RUN_BYTES, FAULT_POINTS, Faults, OVERLAY_POINTS,
    WorkspaceKind, WorkspaceOptions,
};
pub use overlay::{CACHE_NAMES, caches, lay_out, remove_layers};
pub use overlays::try_overlays;
pub use posse_domain::object_id::ObjectId;
pub use publish::{PublishedResult, diff};
pub use refs::{base_ref, salvage_ref, salvaged_git_ref, torn_ref, work_ref};
pub use run::{BORROWED_OBJECTS, ReadyWorkspace, RunSpace};
pub use salvages::SalvageEntry;
pub use scratch::Scratch;
pub use secret_files::is_secret_path;
pub use snapshot::{SalvageOutcome, Snapshot};
pub use temporary_state::TemporaryState;

use run::add_commit;
