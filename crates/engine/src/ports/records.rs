//! The port to records of calls outside the journal and the workspace: outputs that are too long for a result, and
//! records of processes.
//!
//! | operation | guarantee |
//! |---|---|
//! | `output_dir` | a directory of this machine; only outputs of this agent are in it, and its programs may read them |
//! | `keep_output` | when it returns, `find_output` returns this output on every machine that shares the records |
//! | `find_output` | the whole output in a file of this machine, fetched if another machine kept it; `None` if there is none |
//! | `process_record` | a file of this machine that lists the live processes of one call |
//! | `end_processes` | when it returns, no recorded process of the run is alive on this machine |
//!
//! Reports are text that the journal contains as well. [`Workspaces::report`](super::Workspaces::report) writes them
//! for users.

use std::fmt;
use std::path::PathBuf;

use futures::future::BoxFuture;
use posse_domain::id::{AgentId, RunId};
use thiserror::Error;

/// Why a record could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// An output could not be stored or fetched.
    #[error("the output `{name}` cannot be kept or read: {reason}")]
    Output {
        /// The name of the output.
        name: String,
        /// The error that the machine reported.
        reason: String,
    },
    /// Processes of an earlier lease holder may be alive. A new lease holder must not continue the run at the same
    /// time.
    #[error("processes that an earlier lease holder started cannot be ended: {0}")]
    ProcessesAlive(String),
}

/// Stores outputs and records of processes.
pub trait RunRecords: fmt::Debug + Send + Sync + 'static {
    /// The directory of an agent's outputs on this machine. It may not exist yet.
    fn output_dir(&self, agent: &AgentId) -> PathBuf;

    /// Keeps the output that a call has written into the directory of its agent.
    fn keep_output(&self, agent: &AgentId, name: &str) -> BoxFuture<'static, Result<(), RecordError>>;

    /// The file that contains an output of an agent. `name` is a single path component.
    fn find_output(
        &self,
        agent: &AgentId,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<PathBuf>, RecordError>>;

    /// The file in which the processes of a call are recorded.
    fn process_record(&self, run: &RunId, call: &str) -> PathBuf;

    /// Ends the processes that an earlier lease holder left running on this machine.
    fn end_processes(&self, run: &RunId) -> BoxFuture<'static, Result<(), RecordError>>;
}
