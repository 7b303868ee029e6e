//! Workspaces on real files and with real git.

mod folders;
mod salvage;
mod support;
mod torn;
mod workspaces;
