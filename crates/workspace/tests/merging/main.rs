//! Merging, publishing and cleaning, with real repositories and with workspaces that are overlays. `tests/merging_copies`
//! runs those of its tests that work in a workspace over copies.

mod apply;
mod gc;
mod histories;
mod merge;
mod plumbing;
mod project;
mod publish;
mod update;

/// Whether workspaces are overlays.
const OVERLAYS: bool = true;
