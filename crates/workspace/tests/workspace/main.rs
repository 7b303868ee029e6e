//! Workspaces as overlays, on real files and with real git. `tests/copies` runs the same tests over copies.

mod bases;
mod closed;
mod folders;
mod hostile;
mod inside;
mod kept;
mod lent;
mod overlays;
mod salvage;
mod support;
mod torn;
mod transfer;
mod walks;
mod workspaces;

/// Whether workspaces are overlays.
const OVERLAYS: bool = true;
