//! The error type of the facade, for embedders.

use std::path::PathBuf;

use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::RunStatus;
use posse_engine::ports::{ApplyError, StoreError, WorkspaceError};
use posse_engine::{HistoryError, RequestField, RuntimeError};
use thiserror::Error;

use crate::bundle::{BUNDLE_EXTENSION, BundleError};

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A part of the request is invalid. Nothing was written.
    #[error("{field}: {problem}")]
    Invalid {
        /// The name of that part.
        field: RequestField,
        /// Why it is invalid.
        problem: String,
    },
    /// The kernel, or the container around this process, lacks a system call that everything here needs.
    #[error(
        "this system refuses `openat2`, by which Posse opens every file of a project: it needs Linux 5.6 or newer, and a \
         container must allow that system call"
    )]
    OldKernel,
    /// A server was not reached, or refused a request.
    #[error(transparent)]
    Server(#[from] crate::remote::ServerError),
    /// No run id starts with this prefix.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// The only run whose id starts with this prefix was removed.
    #[error("run {run} was removed; its journal ended with hash {head}")]
    Removed {
        /// The removed run.
        run: RunId,
        /// The hash of its last event.
        head: Hash,
    },
    /// Several run ids start with this prefix.
    #[error("`{prefix}` fits several runs: {}", examples.join(", "))]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// Some of the matching ids.
        examples: Vec<String>,
    },
    /// The run has no such agent.
    #[error("there is no agent {0}")]
    NoAgent(AgentId),
    /// The journal of the run has no such event.
    #[error("run {run} has no event {event}; its last event is {last}")]
    NoEvent {
        /// The run.
        run: RunId,
        /// The number that was asked for.
        event: u64,
        /// The number of its last event.
        last: u64,
    },
    /// The run has ended, so it accepts no commands.
    #[error("run {run} has ended ({status})")]
    Ended {
        /// The ended run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// The run has not ended, so it has no result.
    #[error("run {0} has not ended")]
    StillRunning(RunId),
    /// The run failed or was cancelled.
    #[error("run {run} {}; its changes may be incomplete", ended(*status))]
    NotCompleted {
        /// The run in question.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// The run is a replay, whose files are a copy of its own.
    #[error("run {run} is a replay of {recorded}: it worked on a copy, and there is nothing to apply")]
    IsReplay {
        /// The replay.
        run: RunId,
        /// The recorded run, or the bundle.
        recorded: String,
    },
    /// No agent of the run could change files.
    #[error("run {0} has no files of its own: no agent in it could change files")]
    NoFiles(RunId),
    /// The files of a run could not be used.
    #[error("the files of run {run}: {problem}")]
    Files {
        /// The run in question.
        run: RunId,
        /// The reason.
        problem: WorkspaceError,
    },
    /// Cleaning stopped at an error.
    #[error("cleaning: {0}")]
    Cleaning(WorkspaceError),
    /// The agent has not ended, so that its changes may become more.
    #[error("agent {0} has not ended")]
    AgentStillRunning(AgentId),
    /// The agent failed or was cancelled before its work was complete.
    #[error("agent {agent} did not complete; its changes may be incomplete")]
    AgentNotCompleted {
        /// The agent in question.
        agent: AgentId,
    },
    /// The changes of a run or of an agent could not be applied to the checkout.
    #[error("{} was not applied to {}: {problem}", named(.agent), .dir.display())]
    NotApplied {
        /// The agent whose changes these are; the root stands for its run.
        agent: AgentId,
        /// The checkout.
        dir: PathBuf,
        /// The reason, such as a conflict.
        problem: ApplyError,
        /// The branch with the result in the user's repository, if it exists.
        branch: Option<String>,
        /// Whether the work was applied although it did not complete.
        is_unfinished: bool,
    },
    /// The changes that were applied could not be taken back from the checkout.
    #[error("the apply of {} to {} was not undone: {problem}", named(.agent), .dir.display())]
    NotUndone {
        /// The agent whose changes these are; the root stands for its run.
        agent: AgentId,
        /// The checkout.
        dir: PathBuf,
        /// The reason, such as a file that the user changed since.
        problem: ApplyError,
    },
    /// The name of an export does not end like that of a bundle. Nothing was written.
    #[error("{}: its name must end in .{BUNDLE_EXTENSION}", .0.display())]
    BundleName(PathBuf),
    /// The target of an export exists, and it was not to be replaced.
    #[error("{}: the file exists already", .0.display())]
    ExportExists(PathBuf),
    /// An export failed. No file was created under its name.
    #[error("{path}: {problem}", path = .path.display())]
    NotExported {
        /// The target file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// A bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A run's files could not be read during an export.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// No call waits for this answer, or no longer.
    #[error("{agent} does not wait for an answer about `{operation}`")]
    NotAsked {
        /// The agent that was answered.
        agent: AgentId,
        /// The operation that the answer was about.
        operation: String,
    },
    /// The journal could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run could not be started, read or continued.
    #[error(transparent)]
    Runtime(RuntimeError),
    /// The journal contains something that cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// How a run ended, as a verb.
fn ended(status: RunStatus) -> String {
    match status {
        RunStatus::Cancelled => format!("was {status}"),
        RunStatus::Running | RunStatus::Completed | RunStatus::Failed => status.to_string(),
    }
}

/// A run or an agent in an error.
fn named(agent: &AgentId) -> String {
    if agent.is_root() { format!("run {agent}") } else { format!("agent {agent}") }
}

impl Error {
    /// The error for an invalid part of a request.
    pub fn invalid(field: RequestField, problem: impl Into<String>) -> Self {
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
