//! Merging, delivering and cleaning, with real repositories.

mod histories;
mod merge;
mod plumbing;
