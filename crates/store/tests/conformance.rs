//! Both stores keep every promise of the port.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::Store;
use posse_store::conformance::World;
use posse_store::{MemoryStore, SqliteOptions, SqliteStore};

struct InMemory(MemoryStore);

impl World for InMemory {
    fn open(&self, lease: Duration) -> Arc<dyn Store> {
        Arc::new(self.0.another_process().with_lease(lease))
    }
}

/// The handles must be gone before the folder is, so the folder comes last.
struct InSqlite {
    dir: PathBuf,
    _folder: tempfile::TempDir,
}

impl InSqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { dir: folder.path().join("state"), _folder: folder }
    }
}

impl World for InSqlite {
    fn open(&self, lease: Duration) -> Arc<dyn Store> {
        let options = SqliteOptions { lease, ..SqliteOptions::default() };
        Arc::new(SqliteStore::open(&self.dir, options).unwrap())
    }
}

mod memory {
    posse_store::conformance_tests!(super::InMemory(posse_store::MemoryStore::new()));
}

mod sqlite {
    posse_store::conformance_tests!(super::InSqlite::new());
}
