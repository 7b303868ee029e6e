//! Payloads of events about files: snapshots, workspaces, merges, checks and results.

use serde::{Deserialize, Serialize};

use super::detail::is_zero;
use crate::object_id::ObjectId;
use crate::pack::Pack;
use crate::text::Text;

/// The files that a run starts from, as a commit in the project's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseSnapshot {
    /// The snapshot's commit.
    pub commit: ObjectId,
    /// The commit's tree.
    pub tree: ObjectId,
    /// The user's commit that the snapshot is based on, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<ObjectId>,
    /// The commit that the result is compared with, if that is not `commit`: a run that continues another one begins with
    /// its result, and both of them together are one change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<ObjectId>,
    /// Surprises that the user should know: submodules, omitted files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The result of a run: its changes to the files it started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The commit with the result.
    pub commit: ObjectId,
    /// The result's branch in the user's repository, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many files differ from the snapshot.
    pub files: u64,
    /// Why there is no branch although there is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Changes of the root that are not in the result, because no agent may make them: each path with the reason. The
    /// list is bounded. The root's salvage has the changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Files of the result that agents or unattended programs obey, such as `AGENTS.md`. Users should read them before
    /// they apply the result. The list of paths is bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
}

/// The files of a workspace after a call, as a commit. The journal has its objects, so that they are durable with the
/// call's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesCommit {
    /// The commit with the files.
    pub commit: ObjectId,
    /// Its parent: the commit of the work ref at that time, which the repository has durably.
    pub follows: ObjectId,
    /// The commit of an earlier call, if the pack omits objects that are in the packs of that call or of those before
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<ObjectId>,
    /// The objects that the repository and the earlier packs lack. `None` if the repository has the commit durably.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<Pack>,
}

/// The result of one command criterion that the host ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRecord {
    /// The command line.
    pub command: String,
    /// Whether it passed.
    pub ok: bool,
    /// How the command ended: an exit code, a signal, its timeout, or why it did not run.
    pub ended: String,
    /// The command's output, shortened.
    pub output: Text,
    /// The duration of the command.
    pub elapsed_ms: u64,
}

/// See [`super::EventBody::ChecksPassed`] and [`super::EventBody::ChecksFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChecksPassed {
    /// The merged tree that the checks ran on.
    pub tree: ObjectId,
    /// The checks in order of execution.
    pub checks: Vec<CheckRecord>,
}

/// See [`super::EventBody::ChecksFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChecksFailed {
    /// The merged tree that the checks ran on.
    pub tree: ObjectId,
    /// The checks in order of execution. The last one that ran failed.
    pub checks: Vec<CheckRecord>,
}

/// See [`super::EventBody::WorktreeConflicted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorktreeConflicted {
    /// The commit of the parent's files at that time.
    pub ours: ObjectId,
    /// The files that both sides changed or that the gate refused, each with the reason.
    pub files: Vec<String>,
}

/// See [`super::EventBody::WorktreeMerged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorktreeMerged {
    /// The commit of the parent's files before the merge.
    pub ours: ObjectId,
    /// The commit that the parent's files are updated to.
    pub commit: ObjectId,
    /// The tree of `commit`.
    pub tree: ObjectId,
    /// The number of paths that change.
    pub paths: u64,
}

/// See [`super::EventBody::WorkspaceMade`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceMade {
    /// The attempt that the workspace is for.
    pub attempt: u32,
    /// The commit that the workspace was created from.
    pub base: ObjectId,
    /// Notes about the workspace for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// See [`super::EventBody::WorkspaceSalvaged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSalvaged {
    /// The attempt whose workspace was salvaged.
    pub attempt: u32,
    /// The commit with all files. None if the workspace could not be read. Then it is kept as it is.
    pub commit: Option<ObjectId>,
    /// Ignored files that are not in the commit. The list is bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The full number of ignored files that are not in the commit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_count: u64,
    /// Why the workspace could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// See [`super::EventBody::WorkspaceRemoved`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRemoved {
    /// The attempt whose workspace was removed.
    pub attempt: u32,
}
