//! API types of applied, salvaged and removed files.

use schemars::JsonSchema;
use serde::Serialize;

use super::timestamp;
use crate::{AppliedRun, GcSummary, RunId, SalvagedWork};

/// The changes of a run that were applied to the user's directory.
#[derive(Serialize, JsonSchema)]
pub struct ApplyResult<'a> {
    run: &'a str,
    /// That directory; null if no agent of the run could change files.
    dir: Option<String>,
    files: usize,
    merged: usize,
    already: usize,
}

impl<'a> ApplyResult<'a> {
    /// Converts an applied run, or one without files.
    pub fn new(run: &'a RunId, applied: Option<&AppliedRun>) -> Self {
        let counts = applied.and_then(|applied| applied.applied).unwrap_or_default();
        Self {
            run: run.as_str(),
            dir: applied.map(|applied| applied.dir.display().to_string()),
            files: counts.files,
            merged: counts.merged,
            already: counts.already,
        }
    }
}

/// Salvaged work of one attempt.
#[derive(Serialize, JsonSchema)]
pub struct Salvage<'a> {
    agent: &'a str,
    attempt: u32,
    at: String,
    commit: Option<String>,
    /// How many files differ from the agent's base; null if the salvaged work was removed since.
    files: Option<u64>,
    /// The commit with the workspace's `.git` as plain files; null if the agent changed nothing in it.
    git: Option<String>,
    left_out: &'a [String],
    left_out_count: u64,
    problem: Option<&'a str>,
}

impl<'a> Salvage<'a> {
    /// Converts salvaged work.
    pub fn new(work: &'a SalvagedWork) -> Self {
        Self {
            agent: work.agent.as_str(),
            attempt: work.attempt,
            at: timestamp(work.at_ms),
            commit: work.commit.map(|commit| commit.to_string()),
            files: work.files,
            git: work.git.map(|commit| commit.to_string()),
            left_out: &work.left_out,
            left_out_count: work.left_out_count,
            problem: work.problem.as_deref(),
        }
    }
}

/// An item that was not removed, with the reason.
#[derive(Serialize, JsonSchema)]
pub struct KeptItem<'a> {
    what: &'a str,
    why: &'a str,
}

/// What was removed from the state directory.
#[derive(Serialize, JsonSchema)]
pub struct GcResult<'a> {
    /// Whether nothing was removed, because a dry run was requested.
    dry_run: bool,
    removed: &'a [String],
    kept: Vec<KeptItem<'a>>,
    freed_bytes: u64,
}

impl<'a> GcResult<'a> {
    /// Converts what was removed, or would be.
    pub fn new(cleaned: &'a GcSummary, dry_run: bool) -> Self {
        Self {
            dry_run,
            removed: &cleaned.removed,
            kept: cleaned.kept.iter().map(|item| KeptItem { what: &item.what, why: &item.why }).collect(),
            freed_bytes: cleaned.freed_bytes,
        }
    }
}
