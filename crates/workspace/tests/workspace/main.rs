//! Workspaces on real files and with real git.

mod closed;
mod folders;
mod hostile;
mod inside;
mod kept;
mod lent;
mod salvage;
mod support;
mod torn;
mod walks;
mod workspaces;
