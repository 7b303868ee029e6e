//! Several processes on one database. Each test starts this binary again as child processes ([`child_process`]), sends
//! them commands line by line, and kills, stops or starves them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod appends;
mod child_process;
mod crashes;
mod disks;
mod harness;
mod journal;
mod stops;

/// Not a test: the other tests start this process. Without a line on its standard input it does nothing.
#[test]
#[ignore = "started by the other tests"]
fn child_process() {
    child_process::serve();
}
