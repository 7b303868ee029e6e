//! The lifecycle by its commands: legal sequences, and what must never happen.

mod asking;
mod fixture;
mod grants;
mod illegal;
mod outcome;
mod random;
mod refused;
mod skills;
mod spawning;
