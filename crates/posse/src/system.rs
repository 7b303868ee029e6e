//! The clock and the chance of a process.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use posse_domain::id::RunId;
use posse_engine::ports::System;

/// Wall time, and random bits for ids.
#[derive(Debug, Default)]
pub(crate) struct ProcessSystem {
    /// Where the processes of runs are written down.
    runs: Option<PathBuf>,
    seeds: RandomState,
    drawn: AtomicU64,
}

impl ProcessSystem {
    pub(crate) fn new(runs: Option<PathBuf>) -> Self {
        Self { runs, ..Self::default() }
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
        // Keyed by the operating system's randomness once per process: good enough for ids, which are checked
        // against the ones in use anyway. The time keeps two processes with equal keys apart.
        let mut hasher = self.seeds.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        hasher.write_i64(self.now_ms());
        hasher.finish()
    }

    fn has_dir(&self, dir: &str) -> bool {
        std::path::Path::new(dir).is_dir()
    }

    fn end_effects(&self, run: &RunId) -> BoxFuture<'static, Result<(), String>> {
        let Some(runs) = &self.runs else { return Box::pin(async { Ok(()) }) };
        let records = posse_tools::records(runs, &run.to_string());
        Box::pin(async move {
            let ended = tokio::task::spawn_blocking(move || posse_sandbox::end_recorded(&records));
            let ended = ended.await.map_err(|error| error.to_string())?;
            ended
                .map(drop)
                .map_err(|error| format!("what an earlier owner left running cannot be ended: {error}"))
        })
    }

    fn freed(&self) {
        posse_sandbox::memory::give_back();
    }
}
