//! Stores answers of "always", which apply to later runs in the same directory.
//!
//! The facade stores them and not its caller, because an answer comes from a terminal, a page or a protocol, and must
//! mean the same from each. Reading goes through the same port: an answer in a store that no run reads would be lost.

use futures::future::BoxFuture;
use posse_domain::permission::{Approvals, Pattern};
use thiserror::Error;

/// The port to a store of approvals, by the whole path of the directory of the runs. The calls may wait for a file or
/// a database, but they do not block the thread that polls them.
pub trait ApprovalStore: Send + Sync {
    /// The literals that are allowed in the runs of a directory.
    fn load(&self, dir: &str) -> BoxFuture<'static, Result<Approvals, ApprovalError>>;

    /// Stores that this literal is allowed in the runs of a directory. Storing it twice is not an error. Once this
    /// returns, [`ApprovalStore::load`] has it.
    fn keep(&self, dir: &str, literal: &Pattern) -> BoxFuture<'static, Result<(), ApprovalError>>;
}

/// Why approvals were not read, or one was not stored. The stored ones are as they were.
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
    #[error("{dir} already has {max} stored approvals")]
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
