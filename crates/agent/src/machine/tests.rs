//! The turn machine, told by events: scenarios, and random scripts folded again at every step.

mod fixture;
mod random;
mod scenarios;
mod trimming;
