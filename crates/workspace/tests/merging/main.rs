//! Merging, publishing and cleaning, with real repositories.

mod apply;
mod canary;
mod corpus;
mod gc;
mod histories;
mod merge;
mod plumbing;
mod project;
mod publish;
mod update;
