//! The non-public hosts that a user opened.

use std::fmt;
use std::sync::Arc;

use super::target::Target;

/// Which targets may be reached although their addresses are not public. Checked again for every redirect.
#[derive(Clone)]
pub struct Openings(Arc<dyn Fn(&Target) -> bool + Send + Sync>);

impl Openings {
    pub fn none() -> Self {
        Self::by(|_| false)
    }

    /// Opens the targets for which the function returns true.
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
