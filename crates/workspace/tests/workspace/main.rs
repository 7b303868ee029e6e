//! Workspaces on real files and with real git, as overlays, or as copies with `POSSE_WORKSPACE__KIND=copies`.

mod bases;
mod calls;
mod closed;
mod folders;
mod full_disk;
mod histories;
mod hostile;
mod inside;
mod kept;
mod killed;
mod kind;
mod lent;
mod overlays;
mod salvage;
mod support;
mod torn;
mod transfer;
mod walks;
mod workspaces;
