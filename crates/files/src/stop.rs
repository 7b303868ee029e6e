//! A flag that ends blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::FileError;

/// A flag that long operations check. A blocked thread cannot be ended from outside, but it can be asked to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>, #[cfg(test)] Arc<looks::Looks>);

impl Stop {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every operation that holds this flag to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_stopped(&self) -> bool {
        #[cfg(test)]
        self.1.count(&self.0);
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> Result<(), FileError> {
        if self.is_stopped() { Err(FileError::Stopped) } else { Ok(()) }
    }
}

/// Flags that count how often they are checked: a test derives from that how soon an operation would end.
#[cfg(test)]
mod looks {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::Stop;

    #[derive(Debug)]
    pub(super) struct Looks {
        made: AtomicUsize,
        most: usize,
    }

    impl Default for Looks {
        fn default() -> Self {
            Self { made: AtomicUsize::new(0), most: usize::MAX }
        }
    }

    impl Looks {
        pub(super) fn count(&self, stopped: &AtomicBool) {
            if self.made.fetch_add(1, Ordering::Relaxed) >= self.most {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    }

    impl Stop {
        /// A flag that is set after this many checks.
        pub(crate) fn after(looks: usize) -> Self {
            Self(Arc::default(), Arc::new(Looks { made: AtomicUsize::new(0), most: looks }))
        }

        /// How often the flag was checked.
        pub(crate) fn looks(&self) -> usize {
            self.1.made.load(Ordering::Relaxed)
        }
    }
}
