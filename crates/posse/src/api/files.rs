//! API types of applied, salvaged and removed files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::{AppliedRun, GcSummary, RunId, SalvagedWork};

/// The changes of a run that were applied to the user's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyResult {
    /// The run's id.
    pub run: String,
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
    /// Converts an applied run, or one without files.
    pub fn new(run: &RunId, applied: Option<&AppliedRun>) -> Self {
        let counts = applied.and_then(|applied| applied.applied).unwrap_or_default();
        Self {
            run: run.to_string(),
            dir: applied.map(|applied| applied.dir.display().to_string()),
            files: counts.files,
            merged: counts.merged,
            already: counts.already,
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
