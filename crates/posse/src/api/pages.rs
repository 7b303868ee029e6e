//! API types of lists that a program reads page by page, and of answers that have no type elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{Event, Object, Question, RunSummary, VersionedObject};

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

/// A run that was started or is executed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedRun {
    /// The run's id.
    pub run: String,
    /// What the user should know about the request, its settings and its definitions.
    pub notes: Vec<String>,
}

/// The report of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The agent's id.
    pub agent: String,
    /// The report in Markdown; if the agent failed, the reason and its last text.
    pub report: String,
    /// Whether its turn limit cut off its work.
    pub turns_exhausted: bool,
}

/// A command for a run that is stored and takes effect as soon as a process executes the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredCommand {
    /// The agent that the command is for; the root stands for its run.
    pub agent: String,
    /// Whether a process executes the run, and so acts on the command now.
    pub carried: bool,
}

/// Writes every entry of a list as an object of its own, as `--json` prints it.
fn versioned<T: Object, S: Serializer>(objects: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.iter().map(VersionedObject::new))
}
