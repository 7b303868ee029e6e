//! The environment variables of the test command. Only `posse-faulty` reads them, `posse` does not.

/// The point at which to die: `point:passing`.
pub const FAULT: &str = "POSSE_TEST_FAULT";
/// A file to which every passing of a point is written.
pub const POINTS: &str = "POSSE_TEST_POINTS";
/// The file of the `ledger` tool. Without it there is no such tool.
pub const LEDGER: &str = "POSSE_TEST_LEDGER";
/// How long a silent lease holder keeps its runs, in milliseconds.
pub const LEASE_MS: &str = "POSSE_TEST_LEASE_MS";
/// Marks the processes of one test. Only a search of the process table reads it.
pub const TAG: &str = "POSSE_TEST_TAG";
