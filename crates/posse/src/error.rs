//! What can go wrong for an embedder.

use posse_domain::id::{AgentId, RunId};
use posse_engine::ports::StoreError;
use posse_engine::{HistoryError, RuntimeError};
use thiserror::Error;

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
        status: String,
    },
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
