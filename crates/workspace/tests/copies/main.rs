//! Workspaces as copies, on real files and with real git: the tests of `tests/workspace` once more.

#[path = "../workspace/calls.rs"]
mod calls;
#[path = "../workspace/closed.rs"]
mod closed;
#[path = "../workspace/folders.rs"]
mod folders;
#[path = "../workspace/hostile.rs"]
mod hostile;
#[path = "../workspace/inside.rs"]
mod inside;
#[path = "../workspace/kept.rs"]
mod kept;
#[path = "../workspace/lent.rs"]
mod lent;
#[path = "../workspace/salvage.rs"]
mod salvage;
#[path = "../workspace/support.rs"]
mod support;
#[path = "../workspace/torn.rs"]
mod torn;
#[path = "../workspace/transfer.rs"]
mod transfer;
#[path = "../workspace/walks.rs"]
mod walks;
#[path = "../workspace/workspaces.rs"]
mod workspaces;

/// Whether workspaces are overlays.
const OVERLAYS: bool = false;
