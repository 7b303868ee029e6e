//! What a person opened.

use std::fmt;
use std::sync::Arc;

use super::target::Target;

/// Which targets may be reached although their addresses are not public. Asked anew for every redirect.
#[derive(Clone)]
pub struct Openings(Arc<dyn Fn(&Target) -> bool + Send + Sync>);

impl Openings {
    /// Nothing is open.
    pub fn none() -> Self {
        Self::by(|_| false)
    }

    /// What the function says is open.
    pub fn by(opens: impl Fn(&Target) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(opens))
    }

    pub(super) fn open(&self, target: &Target) -> bool {
        (self.0)(target)
    }
}

impl fmt::Debug for Openings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Openings")
    }
}
