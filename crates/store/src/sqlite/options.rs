//! Options and limits of the SQLite store.

use std::time::Duration;

use posse_engine::ports::Faults;

use crate::clock::LeaseClock;

/// Duration of a lease that its holder does not renew.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long a writer waits for other processes before its queued requests fail. A group commit takes milliseconds, so a
/// process that holds the lock this long is stopped or hangs in the kernel.
pub const WRITERS_LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Limit of events in one transaction, unless one commit alone has more.
pub const GROUP_MAX_EVENTS: usize = 256;
/// Limit of requests that wait for the writer.
pub const QUEUE_MAX_REQUESTS: usize = 65_536;
/// Limit of reads that wait for a reader.
pub const READ_QUEUE_MAX: usize = 65_536;
/// Limit of reader connections, each with its own thread, which are started when needed.
pub const READERS_MAX: usize = 4;
/// Blobs up to this length are stored in the database, longer ones in files.
pub const BLOB_IN_DATABASE_MAX_BYTES: usize = 256 * 1024;
/// The WAL is checkpointed whenever it has grown by this many pages: 8 MiB, some tens of milliseconds.
pub const CHECKPOINT_PAGES: u32 = 2_048;
/// Idle time after which the writer checkpoints the rest of the WAL.
pub const IDLE_CHECKPOINT_AFTER: Duration = Duration::from_secs(1);
pub const WRITER_CACHE_KIB: i64 = 16 * 1024;
/// How long SQLite itself waits for a lock. Only a foreign program or a recovery after a crash can hold one.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Every fault point of the store, at which a test can end the process.
pub const FAULT_POINTS: [&str; 8] = [
    "store.commit.before_txn",
    "store.commit.before_sync",
    "store.commit.after_sync",
    "store.checkpoint.before",
    "store.checkpoint.after",
    "store.blob.after_file",
    "store.claim.after",
    "store.migrate.before_commit",
];

#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Fault points. None in production.
    pub faults: Faults,
    /// [`LEASE`], unless a test shortens it.
    pub lease: Duration,
    /// The machine's clock, unless a test moves time itself.
    pub clock: LeaseClock,
    /// A name by which users recognise this process, such as `host:pid`.
    pub label: String,
    /// [`WRITERS_LOCK_PATIENCE`], unless a test shortens it.
    pub writers_lock_patience: Duration,
    /// [`CHECKPOINT_PAGES`], unless a test shortens it.
    pub checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            faults: Faults::default(),
            lease: LEASE,
            clock: LeaseClock::default(),
            label: std::process::id().to_string(),
            writers_lock_patience: WRITERS_LOCK_PATIENCE,
            checkpoint_pages: CHECKPOINT_PAGES,
        }
    }
}
