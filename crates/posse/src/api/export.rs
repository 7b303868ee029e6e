//! API type of an exported run.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ExportSummary;

/// The bundle of a run.
#[derive(Serialize, JsonSchema)]
pub struct ExportResult<'a> {
    run: &'a str,
    /// The bundle's file.
    path: &'a Path,
    /// Its size.
    bytes: u64,
    /// The hash of the run's last event.
    head: String,
    events: u64,
    blobs: u64,
    /// How many files the run began with.
    files: u64,
    file_bytes: u64,
    /// The largest of these files with their sizes, the largest first.
    large_files: &'a [(String, u64)],
    /// How many secrets were replaced by a mark.
    secrets: u64,
    /// Where secrets were replaced, and what they looked like: a bounded list.
    secret_places: &'a [String],
    /// Files that the bundle omits, each with the reason.
    left_out: &'a [String],
    /// How many agent definitions the run did not use; the bundle omits their texts.
    unused_agents: u64,
    /// How many skills the run did not use; the bundle omits their texts.
    unused_skills: u64,
    /// Whether the run began with its own files. If not, a replay reads its directory at that time.
    has_base: bool,
}

impl<'a> ExportResult<'a> {
    /// Converts the summary of an export.
    pub fn new(summary: &'a ExportSummary) -> Self {
        Self {
            run: summary.run.as_str(),
            path: &summary.path,
            bytes: summary.bytes,
            head: summary.head.to_string(),
            events: summary.events,
            blobs: summary.blobs,
            files: summary.files,
            file_bytes: summary.file_bytes,
            large_files: &summary.large_files,
            secrets: summary.secrets,
            secret_places: &summary.secret_places,
            left_out: &summary.left_out,
            unused_agents: summary.unused_agents,
            unused_skills: summary.unused_skills,
            has_base: summary.has_base,
        }
    }
}
