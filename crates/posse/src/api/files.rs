//! API types of applied, salvaged and removed files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::{AgentId, AppliedRun, CheckedApply, ConflictKind, GcSummary, SalvagedWork};

/// The changes of a run, or of one of its agents, that were applied to the user's directory or taken back from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyResult {
    /// The run's id.
    pub run: String,
    /// The agent whose changes these are; the root, whose id is that of the run, stands for the run's result.
    pub agent: String,
    /// Whether an earlier apply was taken back.
    pub undo: bool,
    /// That directory; null if no agent of the run could change files.
    pub dir: Option<String>,
    /// The number of files that were written or removed.
    pub files: usize,
    /// The number of those files that contain both the run's change and the user's.
    pub merged: usize,
    /// The number of files that equalled the result already.
    pub already: usize,
}

impl ApplyResult {
    /// Converts applied or undone changes, or those of a run without files.
    pub fn new(agent: &AgentId, undo: bool, applied: Option<&AppliedRun>) -> Self {
        let counts = applied.and_then(|applied| applied.applied).unwrap_or_default();
        Self {
            run: agent.run().to_string(),
            agent: agent.to_string(),
            undo,
            dir: applied.map(|applied| applied.dir.display().to_string()),
            files: counts.files,
            merged: counts.merged,
            already: counts.already,
        }
    }
}

/// What an apply would do to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedWrite {
    /// The file does not exist yet.
    Add,
    /// The file is replaced by the run's.
    Change,
    /// The file gets the run's change beside the user's.
    Merge,
    /// The file is removed.
    Remove,
}

/// A file that an apply would write or remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedFile {
    /// Its path in the user's directory.
    pub path: String,
    /// What would be done to it.
    pub write: PlannedWrite,
}

/// What an apply would do. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyCheck {
    /// The run's id.
    pub run: String,
    /// The agent whose changes these are; the root, whose id is that of the run, stands for the run's result.
    pub agent: String,
    /// The user's directory; null if no agent of the run could change files.
    pub dir: Option<String>,
    /// The first files that would be written or removed.
    pub planned: Vec<PlannedFile>,
    /// The number of files that would be written or removed.
    pub files: usize,
    /// The number of those files that would contain both the run's change and the user's.
    pub merged: usize,
    /// The number of files that equal the result already.
    pub already: usize,
}

impl ApplyCheck {
    /// Converts what an apply would do, or that of a run without files.
    pub fn new(agent: &AgentId, checked: Option<&CheckedApply>) -> Self {
        let plan = checked.and_then(|checked| checked.plan.clone()).unwrap_or_default();
        let planned = |file: &crate::PlannedFile| PlannedFile {
            path: file.path.clone(),
            write: match file.write {
                crate::PlannedWrite::Add => PlannedWrite::Add,
                crate::PlannedWrite::Change => PlannedWrite::Change,
                crate::PlannedWrite::Merge => PlannedWrite::Merge,
                crate::PlannedWrite::Remove => PlannedWrite::Remove,
            },
        };
        Self {
            run: agent.run().to_string(),
            agent: agent.to_string(),
            dir: checked.map(|checked| checked.dir.display().to_string()),
            planned: plan.files.iter().map(planned).collect(),
            files: plan.summary.files,
            merged: plan.summary.merged,
            already: plan.summary.already,
        }
    }
}

/// The change of a sub-agent that was not merged into the files of its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeConflict {
    /// The sub-agent.
    pub agent: String,
    /// Its parent, whose files are the other side.
    pub parent: String,
    /// The first files that both changed.
    pub files: Vec<ConflictedFile>,
    /// The number of further files.
    pub more_files: usize,
}

/// A file that a sub-agent and its parent changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictedFile {
    /// The path of the file.
    pub path: String,
    /// Why the changes were not merged: `lines`, `parent_deleted`, `agent_deleted`, `not_text` or `in_the_way`.
    pub kind: String,
    /// The first places that both changed.
    pub hunks: Vec<ConflictHunk>,
    /// The number of further places.
    pub more_hunks: usize,
}

/// Lines that both changed, with the first lines of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictHunk {
    /// The number of the first line in the parent's file.
    pub line: usize,
    /// The parent's lines.
    pub parent: Vec<String>,
    /// The sub-agent's lines.
    pub agent: Vec<String>,
    /// The number of further lines of both.
    pub more_lines: usize,
}

impl From<&crate::MergeConflict> for MergeConflict {
    fn from(conflict: &crate::MergeConflict) -> Self {
        Self {
            agent: conflict.agent.to_string(),
            parent: conflict.parent.to_string(),
            files: conflict.found.files.iter().map(ConflictedFile::from).collect(),
            more_files: conflict.found.more,
        }
    }
}

impl From<&crate::FileConflict> for ConflictedFile {
    fn from(file: &crate::FileConflict) -> Self {
        let kind = match file.kind {
            ConflictKind::Lines => "lines",
            ConflictKind::OursDeleted => "parent_deleted",
            ConflictKind::TheirsDeleted => "agent_deleted",
            ConflictKind::NotText => "not_text",
            ConflictKind::InTheWay => "in_the_way",
        };
        let hunk = |hunk: &crate::ConflictHunk| ConflictHunk {
            line: hunk.line,
            parent: hunk.ours.lines.clone(),
            agent: hunk.theirs.lines.clone(),
            more_lines: hunk.ours.more + hunk.theirs.more,
        };
        Self {
            path: file.path.clone(),
            kind: kind.to_owned(),
            hunks: file.hunks.iter().map(hunk).collect(),
            more_hunks: file.more_hunks,
        }
    }
}

/// Salvaged work of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Salvage {
    /// The agent that did the work.
    pub agent: String,
    /// The number of its attempt.
    pub attempt: u32,
    /// When the work was kept.
    pub at: String,
    /// The commit with the work; null if the workspace could not be read, and is kept unchanged.
    pub commit: Option<String>,
    /// How many files differ from the agent's base; null if the salvaged work was removed since.
    pub files: Option<u64>,
    /// The commit with the workspace's `.git` as plain files; null if the agent changed nothing in it.
    pub git: Option<String>,
    /// What is not included, each file with the reason: a bounded list.
    pub left_out: Vec<String>,
    /// The total number of omitted files.
    pub left_out_count: u64,
    /// Why the workspace could not be read.
    pub problem: Option<String>,
}

impl Salvage {
    /// Converts salvaged work.
    pub fn new(work: &SalvagedWork) -> Self {
        Self {
            agent: work.agent.to_string(),
            attempt: work.attempt,
            at: timestamp(work.at_ms),
            commit: work.commit.map(|commit| commit.to_string()),
            files: work.files,
            git: work.git.map(|commit| commit.to_string()),
            left_out: work.left_out.clone(),
            left_out_count: work.left_out_count,
            problem: work.problem.clone(),
        }
    }
}

/// An item that was not removed, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptItem {
    /// A description of the item.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl From<&crate::ports::KeptItem> for KeptItem {
    fn from(item: &crate::ports::KeptItem) -> Self {
        Self { what: item.what.clone(), why: item.why.clone() }
    }
}

/// What was removed from the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GcResult {
    /// Whether nothing was removed, because a dry run was requested.
    pub dry_run: bool,
    /// The paths and refs that were removed, or would be removed.
    pub removed: Vec<String>,
    /// What was not removed.
    pub kept: Vec<KeptItem>,
    /// The bytes on disk that were freed, or would be freed.
    pub freed_bytes: u64,
}

impl GcResult {
    /// Converts what was removed, or would be.
    pub fn new(cleaned: &GcSummary, dry_run: bool) -> Self {
        Self {
            dry_run,
            removed: cleaned.removed.clone(),
            kept: cleaned.kept.iter().map(KeptItem::from).collect(),
            freed_bytes: cleaned.freed_bytes,
        }
    }
}
