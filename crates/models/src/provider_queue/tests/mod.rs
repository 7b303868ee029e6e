//! The line as a whole: the gate in simulations over virtual time, the turns on tokio's paused clock.

mod permits;
mod simulation;
