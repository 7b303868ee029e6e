//! Several processes on one database. Each test starts this binary again as [`puppet`] processes, sends them commands
//! line by line, and kills, stops or starves them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod appends;
mod crashes;
mod disks;
mod harness;
mod journal;
mod puppet;
mod stops;

/// Not a test: the other tests start this process. Without a line on its standard input it does nothing.
#[test]
#[ignore = "started by the other tests"]
fn puppet() {
    puppet::serve();
}
