//! The reasons to end a conversion early: a limit, or a caller that no longer waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// Why a page is not converted to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum PageLimit {
    #[error("its HTML has too many attributes to be turned into text")]
    Attributes,
    #[error("its HTML has too many parts to be turned into text")]
    Nodes,
    #[error("its HTML is too deeply nested to be turned into text")]
    Depth,
    #[error("its HTML is too large and too deeply nested to be turned into text")]
    Work,
    #[error("turning it into text was stopped")]
    Stopped,
}

/// Whether the caller still waits. The conversion checks this between small pieces of work and ends by itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the conversion.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once the caller no longer waits.
    pub(super) fn check(&self) -> Result<(), PageLimit> {
        if self.0.load(Ordering::Relaxed) { Err(PageLimit::Stopped) } else { Ok(()) }
    }
}

/// Stops a conversion when the future that waits for it is dropped.
pub(super) struct StopOnDrop(pub(super) Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}
