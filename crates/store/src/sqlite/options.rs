//! What can be set about a store, and the names of its limits.

use std::time::Duration;

use posse_engine::ports::Faults;

/// How long an owner may be silent before somebody else may take its runs.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long a writer waits for the other processes before what queues behind it fails. A group commit takes
/// milliseconds: whoever holds the lock this long is stopped or hangs in the kernel.
pub const WRITERS_LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Most events in one transaction, unless one commit alone has more.
pub const GROUP_MAX_EVENTS: usize = 256;
/// Most requests that may wait for the writer.
pub const QUEUE_MAX_REQUESTS: usize = 65_536;
/// Most reads that may wait for a reader.
pub const READ_QUEUE_MAX: usize = 65_536;
/// Reader connections, each with its thread, started when needed.
pub const READERS_MAX: usize = 4;
/// Blobs up to this length are in the database, longer ones are files.
pub const BLOB_IN_DATABASE_MAX_BYTES: usize = 256 * 1024;
/// The WAL is checkpointed each time it has grown by this many pages: 8 MiB, some tens of milliseconds.
pub const CHECKPOINT_PAGES: u32 = 2_048;
/// Silence after which the writer checkpoints what is left.
pub const IDLE_CHECKPOINT_AFTER: Duration = Duration::from_secs(1);
/// The writer's page cache.
pub const WRITER_CACHE_KIB: i64 = 16 * 1024;
/// How long SQLite itself waits for a lock. Only a foreign program or a recovery after a crash can hold one.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Every point where a test can end the process.
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

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Fault points; none in production.
    pub faults: Faults,
    /// [`LEASE`], unless a test shortens it.
    pub lease: Duration,
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
            writers_lock_patience: WRITERS_LOCK_PATIENCE,
            checkpoint_pages: CHECKPOINT_PAGES,
        }
    }
}
