//! Workspaces: what agents work on, and how their work comes together.
//!
//! Each project (a person's folder) has a bare repository of Posse's own beneath the state directory. A snapshot of
//! the folder is a commit in it; an agent that writes gets a workspace of its own, made from a snapshot; what it did
//! is committed by the host, which scans the files itself and never runs git where an agent could have written
//! configuration. Merging happens in the bare repository; only then are the parent's files brought up to date.
//!
//! Everything here blocks; callers in an async program run it on threads that may.

mod blobs;
mod change;
mod error;
mod forbidden;
mod gate;
mod git;
mod merge;
mod oid;
mod overlay;

pub use error::WorkspaceError;
pub use gate::RefusedCode;
pub use git::{Answer, Git};
pub use merge::{Merge, MergeRequest, merge};
pub use oid::{NoOid, Oid};
pub use overlay::{CACHE_NAMES, caches, lay_out};
