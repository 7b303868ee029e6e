//! Merging and cleaning with workspaces that are copies: tests of `tests/merging` once more. The canaries are only here, because
//! git of the host cannot work in an overlay, as their hostile repositories need it.

#[path = "../merging/apply.rs"]
mod apply;
mod canary;
mod corpus;
#[path = "../merging/gc.rs"]
mod gc;
#[path = "../merging/merge.rs"]
mod merge;
#[path = "../merging/plumbing.rs"]
mod plumbing;
#[path = "../merging/project.rs"]
mod project;
#[path = "../merging/update.rs"]
mod update;

/// Whether workspaces are overlays.
const OVERLAYS: bool = false;
