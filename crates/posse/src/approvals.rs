//! Answers of "always", which count in later runs of the same directory.
//!
//! Why the facade stores them and not its caller: an answer comes from a terminal, a page or a protocol, and must mean the
//! same from each.

use std::error::Error;

use posse_domain::permission::Pattern;

/// Where approvals are stored.
pub trait ApprovalStore: Send + Sync {
    /// Stores that this literal is allowed in the runs of a directory, given by its whole path. Storing it twice is no
    /// error.
    fn keep(&self, dir: &str, literal: &Pattern) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// What became of an answer for later runs. For this one it counts in any case.
#[derive(Debug)]
pub enum StoredApproval {
    /// The answer was about this call alone, or there is no store.
    None,
    /// The literal is allowed in later runs of the directory.
    Stored {
        /// What is allowed.
        literal: Pattern,
        /// In the runs of this directory.
        dir: String,
    },
    /// It could not be stored, so that later runs ask again.
    Failed(Box<dyn Error + Send + Sync>),
}
