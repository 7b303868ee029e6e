//! Merging, delivering and cleaning, with real repositories.

mod apply;
mod canary;
mod corpus;
mod deliver;
mod gc;
mod histories;
mod merge;
mod plumbing;
mod project;
mod update;
