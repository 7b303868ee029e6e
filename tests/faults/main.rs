//! Stories of processes that die, stop or obstruct each other, with the real command. A separate binary: these need
//! `posse-faulty`, the command with armed fault points.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod caps;
mod damage;
mod disks;
mod embedder;
mod follow;
mod home;
#[path = "../http_client.rs"]
#[expect(dead_code, reason = "the stories of the other binary use the rest")]
mod http_client;
mod kills;
mod leases;
mod mail;
mod repeat;
mod serve;
