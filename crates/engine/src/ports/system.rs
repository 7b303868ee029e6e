//! The port to the clock, random numbers and fault points. Tests replace them to make runs repeatable, or to end the
//! process at a chosen point.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_domain::id::RunId;

use super::RecordError;

/// Wall time, randomness, and the processes of this machine.
pub trait System: Send + Sync + 'static {
    /// Milliseconds since 1970. May jump, so only records use it, never a timeout.
    fn now_ms(&self) -> i64;

    /// 64 random bits, for ids.
    fn random(&self) -> u64;

    /// Whether a working directory exists. A run never falls back to another directory.
    fn has_dir(&self, dir: &str) -> bool {
        let _ = dir;
        true
    }

    /// Ends the processes that an earlier lease holder of the run left on this machine, and returns when they are gone.
    /// Called before a new lease holder continues the run. If it fails, the run is not continued.
    fn end_effects(&self, run: &RunId) -> BoxFuture<'static, Result<(), RecordError>> {
        let _ = run;
        Box::pin(async { Ok(()) })
    }

    /// Called when a large tree of agents has ended. An implementation may return the freed memory to the system.
    /// Nothing relies on it.
    fn freed(&self) {}
}

/// Named points at which a test can end the process. Without a hook, a fault point costs one branch.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Faults {
    /// Calls `hook` with the name of every fault point that is passed.
    pub fn new(hook: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Passes the fault point `name`.
    #[inline]
    pub fn hit(&self, name: &'static str) {
        if let Some(hook) = &self.0 {
            hook(name);
        }
    }
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Faults(armed)" } else { "Faults(none)" })
    }
}
