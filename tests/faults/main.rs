//! Stories of processes that die, stand still or get in each other's way, told with the real command. A binary of
//! its own: these need `posse-faulty`, which is the command with armed faults.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod caps;
mod damage;
mod disks;
mod embedder;
mod follow;
mod home;
mod kills;
mod mail;
mod owners;
mod repeat;
