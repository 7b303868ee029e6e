//! A run as an entry of a list. It comes from the run's row alone, so that a list costs one query for any number of
//! runs.

use posse_domain::id::RunId;
use posse_domain::lifecycle::RunStatus;
use posse_engine::ports::{Holder, RunEntry};

use super::BlockedAgents;

/// A run as an entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The run's id.
    pub run: RunId,
    /// Its status in the row; `failed`, with the problem in `damage`, if the stored one is unknown.
    pub status: RunStatus,
    /// The request's first line.
    pub title: String,
    /// The root's definition.
    pub definition: String,
    /// The root's model.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session.
    pub session_id: Option<String>,
    /// The number of agents in the run.
    pub agents: u64,
    /// The number of events in its journal.
    pub events: u64,
    /// When it started, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_at_ms: Option<i64>,
    /// The process that executes it, if any.
    pub holder: Option<Holder>,
    /// Why its row or its head is unreliable, if it is; [`Posse::verify`](crate::Posse::verify) reports every problem.
    pub damage: Option<String>,
}

impl From<RunEntry> for RunSummary {
    fn from(entry: RunEntry) -> Self {
        Self {
            run: entry.run,
            status: entry.row.status,
            title: entry.row.title,
            definition: entry.row.definition,
            model: entry.row.model,
            dir: entry.row.dir,
            session_id: entry.row.session_id,
            agents: entry.agents,
            events: entry.head.seq,
            created_at_ms: entry.row.created_at_ms,
            ended_at_ms: entry.row.ended_at_ms,
            holder: entry.holder,
            damage: entry.damage,
        }
    }
}

impl RunSummary {
    /// The status for display.
    pub fn shown_status(&self) -> ShownStatus {
        ShownStatus::new(self.status, self.holder.is_some())
    }
}

/// A run in a list, with what its row does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedRun {
    /// The run as its row describes it.
    pub run: RunSummary,
    /// What its agents wait for; empty if it has ended or is damaged.
    pub blocked: BlockedAgents,
    /// Whether it completed, but its root or a required sub-agent ran out of turns.
    pub is_turn_limited: bool,
}

/// The status of a run for display: a run that has not ended and that no process executes is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownStatus {
    /// It has not ended, and no process executes it.
    Interrupted,
    /// A process executes it, or it has ended.
    Recorded(RunStatus),
}

impl ShownStatus {
    pub(super) fn new(status: RunStatus, is_executed: bool) -> Self {
        if status.is_running() && !is_executed { Self::Interrupted } else { Self::Recorded(status) }
    }

    /// The status as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Recorded(status) => status.as_str(),
        }
    }
}
