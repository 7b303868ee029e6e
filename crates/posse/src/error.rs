//! What can go wrong for an embedder.

use std::path::PathBuf;

use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::RunStatus;
use posse_engine::ports::StoreError;
use posse_engine::{HistoryError, RuntimeError};
use posse_workspace::{ApplyError, WorkspaceError};
use thiserror::Error;

use crate::bundle::BundleError;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Something in the request is wrong; nothing was written.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which part.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// No run starts with this.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// The one run that starts with this was removed.
    #[error("run {run} was removed; its journal ended with hash {head}")]
    Removed {
        /// The run.
        run: RunId,
        /// The hash of its last event.
        head: Hash,
    },
    /// Several runs start with this.
    #[error("`{prefix}` fits several runs: {}", examples.join(", "))]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// Some that fit.
        examples: Vec<String>,
    },
    /// The run has no such agent.
    #[error("there is no agent {0}")]
    NoAgent(AgentId),
    /// The run has ended.
    #[error("run {run} has ended ({status})")]
    Ended {
        /// The run.
        run: RunId,
        /// How.
        status: RunStatus,
    },
    /// The run has not ended.
    #[error("run {0} has not ended")]
    StillRunning(RunId),
    /// The run has ended, but not well.
    #[error("run {run} {status}; what it made may be half of something")]
    NotCompleted {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// The run has no files of its own.
    #[error(
        "run {0} worked in place: nobody in it could change files, or it has no state directory to keep them in"
    )]
    InPlace(RunId),
    /// The files of a run could not be used.
    #[error("the files of run {run}: {problem}")]
    Files {
        /// The run.
        run: RunId,
        /// What is wrong.
        problem: WorkspaceError,
    },
    /// Cleaning could not go on.
    #[error("cleaning: {0}")]
    Cleaning(WorkspaceError),
    /// What a run made could not be brought into the checkout.
    #[error("run {run} was not applied to {}: {problem}", .dir.display())]
    NotApplied {
        /// The run.
        run: RunId,
        /// The checkout.
        dir: PathBuf,
        /// Why not.
        problem: ApplyError,
    },
    /// There is a file where a run was to be written, and it was not to be replaced.
    #[error("{}: it is there already", .0.display())]
    ExportExists(PathBuf),
    /// A run could not be written into a file; nothing is there under its name.
    #[error("{path}: {problem}", path = .path.display())]
    NotExported {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A run's files could not be read while it was written into a file.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Nobody waits for this answer, or not any more.
    #[error("{agent} does not wait for an answer about `{operation}`")]
    NotAsked {
        /// The agent.
        agent: AgentId,
        /// What was answered.
        operation: String,
    },
    /// The journal could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run could not be started, read or carried on.
    #[error(transparent)]
    Runtime(RuntimeError),
    /// The journal holds something that cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl Error {
    /// Something in a request is wrong.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Invalid { field, problem } => Error::Invalid { field, problem },
            RuntimeError::Store(error) => Error::Store(error),
            other => Error::Runtime(other),
        }
    }
}
