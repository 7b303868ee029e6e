//! The lifecycle, told by commands: what may follow what, and what never happens.

mod asking;
mod fixture;
mod grants;
mod illegal;
mod outcome;
mod random;
mod skills;
mod spawning;
