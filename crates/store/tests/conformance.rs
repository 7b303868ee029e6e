//! Both stores pass the conformance suite, and so does a store that cannot notice the death of a process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::Store;
use posse_store::conformance::{LABEL, LEASE, World};
use posse_store::{LeaseClock, ManualClock, MemoryStore, SqliteOptions, SqliteStore};

struct InMemory {
    store: MemoryStore,
    clock: ManualClock,
}

impl InMemory {
    fn new() -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::new().with_lease(LEASE).with_label(LABEL);
        Self { store: store.with_clock(LeaseClock::from(&clock)), clock }
    }

    /// Like a store over a network.
    fn without_death_notice() -> Self {
        let Self { store, clock } = Self::new();
        Self { store: store.without_death_notice(), clock }
    }
}

impl World for InMemory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.another_process())
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// The handles must be dropped before the folder, so the folder is the last field.
struct InSqlite {
    clock: ManualClock,
    dir: PathBuf,
    _folder: tempfile::TempDir,
}

impl InSqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { clock: ManualClock::default(), dir: folder.path().join("state"), _folder: folder }
    }
}

impl World for InSqlite {
    fn open(&self) -> Arc<dyn Store> {
        let (clock, label) = (LeaseClock::from(&self.clock), LABEL.to_owned());
        let options = SqliteOptions { lease: LEASE, clock, label, ..SqliteOptions::default() };
        Arc::new(SqliteStore::open(&self.dir, options).unwrap())
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

mod memory {
    posse_store::conformance_tests!(super::InMemory::new());
}

mod memory_without_death_notice {
    posse_store::conformance_tests!(super::InMemory::without_death_notice());
}

mod sqlite {
    posse_store::conformance_tests!(super::InSqlite::new());
}
