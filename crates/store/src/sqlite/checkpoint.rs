//! Checkpoints: moves the content of the WAL into the database. Only the writer does it, under the writers' lock, so
//! that no two connections ever checkpoint at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posse_engine::ports::Faults;
use rusqlite::{Connection, Result};

use super::options::BUSY_TIMEOUT;

/// How far a checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Moves everything that needs no waiting for a reader. The WAL keeps its size, because overwriting it is cheaper
    /// than growing it again.
    Passive,
    /// Moves everything, and truncates the WAL.
    Truncate,
}

/// Decides when a checkpoint is due.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Pages in the WAL after the last commit, as SQLite reports them.
    pages: Arc<AtomicU32>,
    /// Pages in the WAL at the last checkpoint.
    done_at: u32,
    /// The number of new pages after which a checkpoint is due.
    every: u32,
}

impl Checkpoints {
    /// Starts counting the pages that `connection` writes.
    pub(super) fn count(connection: &mut Connection, every: u32) -> Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let told = pages.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            told.store(u32::try_from(count).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, done_at: 0, every })
    }

    /// Whether the WAL has grown enough. If a reader prevents the WAL from starting over, not every added page causes
    /// another checkpoint.
    pub(super) fn is_due(&self) -> bool {
        self.new_pages() >= self.every
    }

    /// Whether the WAL has pages that are not checkpointed.
    pub(super) fn is_pending(&self) -> bool {
        self.new_pages() > 0
    }

    fn new_pages(&self) -> u32 {
        let pages = self.pages.load(Ordering::Relaxed);
        // Fewer than before: the WAL has started over.
        if pages < self.done_at { pages } else { pages - self.done_at }
    }

    /// Makes a checkpoint. The caller must hold the writers' lock.
    pub(super) fn make(&mut self, connection: &Connection, depth: Depth, faults: &Faults) -> Result<()> {
        faults.hit("store.checkpoint.before");
        let sql = match depth {
            Depth::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Depth::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        };
        // The checkpoint does not wait for a reader. The rest is moved by a later checkpoint.
        connection.busy_timeout(Duration::ZERO)?;
        let made = connection.query_row(sql, [], |_| Ok(()));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        self.done_at = self.pages.load(Ordering::Relaxed);
        faults.hit("store.checkpoint.after");
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pages: u32, done_at: u32) -> Checkpoints {
        Checkpoints { pages: Arc::new(AtomicU32::new(pages)), done_at, every: 100 }
    }

    #[test]
    fn a_checkpoint_is_due_each_time_the_wal_has_grown() {
        assert!(!at(99, 0).is_due());
        assert!(at(100, 0).is_due());
        assert!(!at(150, 100).is_due(), "a reader keeps the WAL from starting over");
        assert!(at(200, 100).is_due());
        assert!(!at(1, 100).is_due(), "the WAL has started over");
        assert!(at(1, 100).is_pending());
        assert!(!at(100, 100).is_pending());
    }
}
