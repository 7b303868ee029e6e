//! The journal: SQLite and memory behind the engine's store port.
//!
//! **Why one writer thread with group commit.** An event counts only once it is on the disk, and a sync costs
//! milliseconds whatever it carries. So commits of all agents queue for one thread, which writes all that waits
//! in one transaction with one sync. A commit is never split, and one that fails rolls back alone.
//!
//! **Why a lock beside SQLite's own.** Several processes share one database. SQLite's busy handler polls, and the
//! process that comes back soonest starves the others; so writers queue on a [turnstile](sqlite) of two file
//! locks, held for one group commit.
//!
//! **Who owns a run.** A lease with an epoch that every write checks inside its transaction. Beside the lease an
//! owner holds a file lock for life, which the kernel frees when it dies: a free lock is a dead owner.
//!
//! Every store passes the [`conformance`] suite; the guarantees themselves stand at
//! [`Store`](posse_engine::ports::Store).

pub mod conformance;
pub mod memory;
pub mod sqlite;
mod validate;

pub use memory::MemoryStore;
pub use sqlite::{FAULT_POINTS, LEASE, SqliteOptions, SqliteStore, sqlite_version};
