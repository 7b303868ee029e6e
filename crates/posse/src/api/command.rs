//! API types of what a command of a user did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentId;

/// What became of a request to cancel or kill an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelState {
    /// It has ended.
    Ended,
    /// It had ended before.
    AlreadyEnded,
    /// The request is recorded, and a process executes it.
    Requested,
    /// The request is recorded. No process executes the run, and the request takes effect when the run is resumed.
    AtResume,
}

/// A request to cancel or kill a run, or one of its agents with its subtree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelResult {
    /// The run's id.
    pub run: String,
    /// The agent; the root, whose id is that of the run, stands for the run.
    pub agent: String,
    /// What became of the request.
    pub state: CancelState,
    /// How it ended, in words.
    pub summary: Option<String>,
}

impl CancelResult {
    /// The result for an agent.
    pub fn new(agent: &AgentId, state: CancelState, summary: Option<String>) -> Self {
        Self { run: agent.run().to_string(), agent: agent.to_string(), state, summary }
    }
}

/// A message that was sent to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentMessage {
    /// The run's id.
    pub run: String,
    /// The agent that reads the message before its next turn.
    pub agent: String,
    /// Whether a process executes the run and so delivers the message now; otherwise it is saved until the run is resumed.
    pub carried: bool,
}

impl SentMessage {
    /// The result for an agent. `is_executed` says whether a process executes its run.
    pub fn new(agent: &AgentId, is_executed: bool) -> Self {
        Self { run: agent.run().to_string(), agent: agent.to_string(), carried: is_executed }
    }
}

/// Operations that are no longer allowed in a directory without a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RevokedApprovals {
    /// The whole path of the directory.
    pub dir: String,
    /// The operations that later runs ask about again.
    pub operations: Vec<String>,
}

/// The files that `init` writes into a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitResult {
    /// The files, in the order of writing.
    pub files: Vec<InitFile>,
}

/// A file that `init` writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitFile {
    /// The path of the file.
    pub path: String,
    /// Whether it was written; otherwise it existed and was not changed.
    pub written: bool,
}
