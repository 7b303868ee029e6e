//! What the events about files carry: snapshots, workspaces, merges, checks and results.

use serde::{Deserialize, Serialize};

use super::detail::is_zero;
use crate::object_id::ObjectId;
use crate::text::Text;

/// The files a run starts from, as a commit in the project's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseSnapshot {
    /// The commit.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The person's own commit beneath it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<ObjectId>,
    /// What is not as one might expect: submodules, what was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a run made of the files it started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The commit.
    pub commit: ObjectId,
    /// Its branch in the person's repository, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many files differ from the snapshot.
    pub files: u64,
    /// Why there is no branch, though there is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What the root made and the result does not have, because no agent may change it: each path with why, a
    /// bounded list. It is in the root's salvage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Files of the result that agents or unwatched programs obey, such as `AGENTS.md`: to be read before it is taken over. A
    /// bounded list of paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
}

/// One command criterion, run by the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRecord {
    /// The command.
    pub command: String,
    /// Whether it passed.
    pub ok: bool,
    /// How it ended: an exit code, a signal, its time limit, or why it was not run.
    pub ended: String,
    /// What it printed, shortened.
    pub output: Text,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// See [`super::EventBody::ChecksPassed`] and [`super::EventBody::ChecksFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChecksPassed {
    /// The merged tree they ran on.
    pub tree: ObjectId,
    /// The checks, in order.
    pub checks: Vec<CheckRecord>,
}

/// See [`super::EventBody::ChecksFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChecksFailed {
    /// The merged tree they ran on.
    pub tree: ObjectId,
    /// The checks, in order; the last one that ran failed.
    pub checks: Vec<CheckRecord>,
}

/// See [`super::EventBody::WorktreeConflicted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorktreeConflicted {
    /// The parent's files at the time.
    pub ours: ObjectId,
    /// The files that both sides changed, or that the gate refused, each with why.
    pub files: Vec<String>,
}

/// See [`super::EventBody::WorktreeMerged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorktreeMerged {
    /// The parent's files before.
    pub ours: ObjectId,
    /// The commit they are about to become.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// How many paths change.
    pub paths: u64,
}

/// See [`super::EventBody::WorkspaceMade`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceMade {
    /// The attempt it is for.
    pub attempt: u32,
    /// The commit whose files are in it.
    pub base: ObjectId,
    /// What the agent should know about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// See [`super::EventBody::WorkspaceSalvaged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSalvaged {
    /// The attempt.
    pub attempt: u32,
    /// The commit with everything in it; none if it could not be looked at, and is kept as it is.
    pub commit: Option<ObjectId>,
    /// Ignored files that are not in it; a bounded list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_count: u64,
    /// Why it could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// See [`super::EventBody::WorkspaceRemoved`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRemoved {
    /// The attempt.
    pub attempt: u32,
}
