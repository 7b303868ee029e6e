//! Ending work that blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::FileError;

/// A flag that long operations look at. A blocked thread cannot be ended from outside; it can be asked.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every operation that holds this flag to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> Result<(), FileError> {
        if self.is_stopped() { Err(FileError::Stopped) } else { Ok(()) }
    }
}
