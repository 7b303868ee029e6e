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
mod transfer;
mod walks;
mod workspaces;
