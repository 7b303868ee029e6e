//! Merging, publishing and cleaning, with real repositories. Workspaces are overlays, or copies with
//! `POSSE_WORKSPACE__KIND=copies`.

mod apply;
mod canary;
mod corpus;
mod gc;
mod histories;
#[path = "../workspace/kind.rs"]
mod kind;
mod merge;
mod plumbing;
mod project;
mod publish;
mod undo;
mod update;
