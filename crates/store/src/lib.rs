//! The journal: implements the engine's store port on SQLite and in memory.
//!
//! **Why one writer thread with group commit.** An event counts only when it is on the disk, and a sync costs
//! milliseconds however much it writes. Commits of all agents therefore queue for one thread, which writes all waiting
//! commits in one transaction with one sync. A commit is never split, and a failed commit rolls back alone.
//!
//! **Why a lock beside SQLite's own.** Several processes share one database. SQLite's busy handler polls, and the
//! process that retries first starves the others. Writers therefore queue on a [turnstile](sqlite) of two file locks,
//! which is held for one group commit.
//!
//! **Which process executes a run.** The lease holder, whose epoch every write checks inside its transaction. A lease
//! holder also keeps a file lock for life, which the kernel frees when it dies. A free lock means a dead lease holder,
//! so the lease need not expire first. That is a [capability](posse_engine::ports::Capabilities) of this store.
//!
//! Every store passes the [`conformance`] suite. The guarantees themselves are documented at
//! [`Store`](posse_engine::ports::Store).

mod clock;
pub mod conformance;
pub mod memory;
pub mod sqlite;
mod validate;

pub use clock::{LeaseClock, ManualClock};
pub use memory::MemoryStore;
pub use sqlite::{FAULT_POINTS, LEASE, SqliteOptions, SqliteStore, sqlite_version};
