//! Stores answers of "always", which apply to later runs in the same directory.
//!
//! The facade stores them and not its caller, because an answer comes from a terminal, a page or a protocol, and must
//! mean the same from each.

use posse_domain::permission::Pattern;
use thiserror::Error;

/// The port to a store of approvals, which a front end implements.
pub trait ApprovalStore: Send + Sync {
    /// Stores that this literal is allowed in the runs of a directory, given by its whole path. Storing it twice is not
    /// an error.
    fn keep(&self, dir: &str, literal: &Pattern) -> Result<(), ApprovalError>;
}

/// Why an approval was not stored. The stored ones are as they were.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApprovalError {
    /// The stored approvals cannot be read.
    #[error("{store}: {problem}")]
    Unreadable {
        /// The name of the store, such as the path of its file.
        store: String,
        /// The reason.
        problem: String,
    },
    /// The store has the most approvals that are kept for one directory.
    #[error("{max} approvals are kept for {dir} already")]
    Full {
        /// The name of the store, such as the path of its file.
        store: String,
        /// The directory of the runs.
        dir: String,
        /// The limit for one directory.
        max: usize,
    },
    /// The store cannot be written.
    #[error("{store} cannot be written: {problem}")]
    Unwritable {
        /// The name of the store, such as the path of its file.
        store: String,
        /// The reason.
        problem: String,
    },
}

/// Whether an answer was stored for later runs. It applies to this run in any case.
#[derive(Debug)]
pub enum StoredApproval {
    /// The answer was about this call alone, or no store is set.
    None,
    /// The literal is allowed in later runs in the directory.
    Stored {
        /// The allowed operation.
        literal: Pattern,
        /// The directory of the runs.
        dir: String,
    },
    /// The answer could not be stored, so later runs ask again.
    Failed(ApprovalError),
}
