//! Several processes on one database. Each test starts this binary again as [`puppet`] processes, tells them what to
//! do line by line, and kills, stops or starves them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod appends;
mod crashes;
mod disks;
mod harness;
mod journal;
mod puppet;
mod stops;

/// Not a test: what the other tests start. Without a line on its standard input it does nothing.
#[test]
#[ignore = "started by the other tests"]
fn puppet() {
    puppet::serve();
}
