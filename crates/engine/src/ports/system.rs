//! Clock, chance and fault points: what a test replaces to make a run repeatable, or to make it die.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_domain::id::RunId;

/// Wall time and randomness.
pub trait System: Send + Sync + 'static {
    /// Milliseconds since 1970. May jump; only records use it, never a timeout.
    fn now_ms(&self) -> i64;

    /// Sixty-four random bits, for ids.
    fn random(&self) -> u64;

    /// Whether a working directory is there. A run never falls back to another one.
    fn has_dir(&self, dir: &str) -> bool {
        let _ = dir;
        true
    }

    /// Ends what an earlier owner of a run has left running on this machine, and returns when it is gone. Called
    /// before a new owner goes on; if it fails, nobody does.
    fn end_effects(&self, run: &RunId) -> BoxFuture<'static, Result<(), String>> {
        let _ = run;
        Box::pin(async { Ok(()) })
    }

    /// A large tree has ended and its memory is free: a chance to hand it back. Nothing relies on it.
    fn freed(&self) {}
}

/// Named places where a test can end the process. A production build passes none, and pays one branch.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Faults {
    /// Calls `hook` at every point with its name.
    pub fn new(hook: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Passes the point `name`.
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
