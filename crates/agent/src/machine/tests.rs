//! The turn machine, driven by events: scenarios, and random scripts that are folded again at every step.

mod compacting;
mod fixture;
mod random;
mod scenarios;
mod trimming;
