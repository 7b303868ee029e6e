//! The queue as a whole: the scheduler in simulations over virtual time, the permits on tokio's paused clock.

mod permits;
mod simulation;
