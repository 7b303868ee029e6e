//! The environment variables of the test command. Only `posse-faulty` reads them; `posse` knows none of them.

/// Where to die: `point:passing`.
pub const FAULT: &str = "POSSE_TEST_FAULT";
/// A file to which every passing of a point is written.
pub const POINTS: &str = "POSSE_TEST_POINTS";
/// The file of the `ledger` tool; without it there is no such tool.
pub const LEDGER: &str = "POSSE_TEST_LEDGER";
/// How long a silent owner keeps its runs, in milliseconds.
pub const LEASE_MS: &str = "POSSE_TEST_LEASE_MS";
/// Marks the processes of one test; nobody reads it but whoever looks through the process table.
pub const TAG: &str = "POSSE_TEST_TAG";
