//! The engine's port to the clock, randomness and memory of this process.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use posse_domain::id::RunId;
use posse_engine::ports::{RecordError, RunRecords, System};

/// Wall time, and random bits for ids.
#[derive(Debug, Default)]
pub(crate) struct ProcessSystem {
    /// The store of process records.
    records: Option<Arc<dyn RunRecords>>,
    seeds: RandomState,
    drawn: AtomicU64,
}

impl ProcessSystem {
    pub(crate) fn new(records: Option<Arc<dyn RunRecords>>) -> Self {
        Self { records, ..Self::default() }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl System for ProcessSystem {
    fn now_ms(&self) -> i64 {
        now_ms()
    }

    fn random(&self) -> u64 {
        // Keyed by the operating system's randomness once per process. That is good enough for ids, which are checked
        // against the ones in use anyway. The time keeps two processes with equal keys apart.
        let mut hasher = self.seeds.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        hasher.write_i64(self.now_ms());
        hasher.finish()
    }

    fn has_dir(&self, dir: &str) -> bool {
        std::path::Path::new(dir).is_dir()
    }

    fn end_effects(&self, run: &RunId) -> BoxFuture<'static, Result<(), RecordError>> {
        match &self.records {
            Some(records) => records.end_processes(run),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn freed(&self) {
        posse_sandbox::memory::give_back();
    }
}
