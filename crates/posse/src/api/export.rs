//! API type of an exported run.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExportSummary;

/// The bundle of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// The run's id.
    pub run: String,
    /// The bundle's file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The hash of the run's last event.
    pub head: String,
    /// The number of events.
    pub events: u64,
    /// The number of blobs that events name.
    pub blobs: u64,
    /// How many files the run began with.
    pub files: u64,
    /// The size of these files.
    pub file_bytes: u64,
    /// The largest of these files with their sizes, the largest first.
    pub large_files: Vec<(String, u64)>,
    /// How many secrets were replaced by a mark.
    pub secrets: u64,
    /// Where secrets were replaced, and what they looked like: a bounded list.
    pub secret_places: Vec<String>,
    /// Files that the bundle omits, each with the reason.
    pub left_out: Vec<String>,
    /// How many agent definitions the run did not use; the bundle omits their texts.
    pub unused_agents: u64,
    /// How many skills the run did not use; the bundle omits their texts.
    pub unused_skills: u64,
    /// Whether the run began with its own files. If not, a replay reads its directory at that time.
    pub has_base: bool,
}

impl ExportResult {
    /// Converts the summary of an export.
    pub fn new(summary: &ExportSummary) -> Self {
        Self {
            run: summary.run.to_string(),
            path: summary.path.clone(),
            bytes: summary.bytes,
            head: summary.head.to_string(),
            events: summary.events,
            blobs: summary.blobs,
            files: summary.files,
            file_bytes: summary.file_bytes,
            large_files: summary.large_files.clone(),
            secrets: summary.secrets,
            secret_places: summary.secret_places.clone(),
            left_out: summary.left_out.clone(),
            unused_agents: summary.unused_agents,
            unused_skills: summary.unused_skills,
            has_base: summary.has_base,
        }
    }
}
