//! What became of files.

use schemars::JsonSchema;
use serde::Serialize;

use super::timestamp;
use crate::{AppliedRun, GcSummary, RunId, SalvagedWork};

/// What was brought into the user's folder.
#[derive(Serialize, JsonSchema)]
pub struct ApplyResult<'a> {
    run: &'a str,
    /// The folder; null if the run has no files of its own.
    dir: Option<String>,
    files: usize,
    merged: usize,
    already: usize,
}

impl<'a> ApplyResult<'a> {
    /// A run that was applied, or that has no files of its own.
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
    /// Null if it is not kept any more.
    files: Option<u64>,
    /// The workspace's `.git` as plain files; null if the agent did nothing there.
    git: Option<String>,
    left_out: &'a [String],
    left_out_count: u64,
    problem: Option<&'a str>,
}

impl<'a> Salvage<'a> {
    /// The work of one attempt.
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

/// Something that was kept.
#[derive(Serialize, JsonSchema)]
pub struct KeptItem<'a> {
    what: &'a str,
    why: &'a str,
}

/// What was cleaned.
#[derive(Serialize, JsonSchema)]
pub struct GcResult<'a> {
    /// Whether it was only looked at, and nothing is gone.
    dry_run: bool,
    removed: &'a [String],
    kept: Vec<KeptItem<'a>>,
    freed_bytes: u64,
}

impl<'a> GcResult<'a> {
    /// What a cleaning did, or would do.
    pub fn new(cleaned: &'a GcSummary, dry_run: bool) -> Self {
        Self {
            dry_run,
            removed: &cleaned.removed,
            kept: cleaned.kept.iter().map(|(what, why)| KeptItem { what, why }).collect(),
            freed_bytes: cleaned.freed_bytes,
        }
    }
}
