//! API types of lists that a program reads page by page, and of answers that have no type elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{Event, Object, Question, RunSummary, Salvage, VersionedObject};

/// A part of the list of runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    /// The runs, newest first.
    #[serde(serialize_with = "versioned")]
    pub runs: Vec<RunSummary>,
    /// The cursor of the next page; null on the last one.
    pub next: Option<String>,
}

/// A part of the journal of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventPage {
    /// The events in their order, only those that pass the filters.
    #[serde(serialize_with = "versioned")]
    pub events: Vec<Event<'static>>,
    /// The number of the last event that was looked at: the next page begins after it.
    pub after: u64,
    /// Whether the journal had more events when this page was made.
    pub more: bool,
}

/// The questions that wait for an approver.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QuestionList {
    /// The questions, oldest first in each run.
    #[serde(serialize_with = "versioned")]
    pub questions: Vec<Question>,
}

/// The salvaged work of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SalvageList {
    /// The attempts with their work, oldest first.
    #[serde(serialize_with = "versioned")]
    pub salvages: Vec<Salvage>,
}

/// A run that was started or is executed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedRun {
    /// The run's id.
    pub run: String,
    /// What the user should know about the request, its settings and its definitions.
    pub notes: Vec<String>,
}

/// Writes every entry of a list as an object of its own, as `--json` prints it.
fn versioned<T: Object, S: Serializer>(objects: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.iter().map(VersionedObject::new))
}
