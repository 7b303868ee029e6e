//! A run as an entry of a list. It comes from the run's row alone, so that a list costs one query for any number of
//! runs.

use posse_domain::budget::Usage;
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
    /// When its last lease holder renewed the lease, in milliseconds since 1970, if no process executes it.
    pub alive_at_ms: Option<i64>,
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
            alive_at_ms: entry.alive_at_ms,
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
    /// Whether it ended because its root or a required sub-agent ran out of turns.
    pub is_turn_limited: bool,
    /// Until when its last lease holder is known to have lived, in milliseconds since 1970, if it is interrupted.
    pub stopped_at_ms: Option<i64>,
    /// What its agents spent. The usage of a replay is that of the recorded run. In an interrupted run, the calls without
    /// a reply were cut off.
    pub usage: Usage,
    /// Whether no call was answered, and one in progress is of unknown price: what the run spends is unknown.
    pub is_cost_unknown: bool,
}

impl ListedRun {
    /// Its status in a list.
    pub fn status(&self) -> ListStatus {
        match (&self.run.damage, self.run.shown_status()) {
            (Some(_), _) => ListStatus::Damaged,
            (None, ShownStatus::Interrupted) => ListStatus::Interrupted,
            (None, ShownStatus::Recorded(RunStatus::Running)) if !self.blocked.questions().is_empty() => {
                ListStatus::Waiting
            }
            (None, ShownStatus::Recorded(RunStatus::Running)) => ListStatus::Running,
            // Whether it completed or failed, its work may be unfinished, and more turns help.
            (None, ShownStatus::Recorded(RunStatus::Completed | RunStatus::Failed))
                if self.is_turn_limited =>
            {
                ListStatus::TurnLimit
            }
            (None, ShownStatus::Recorded(RunStatus::Completed)) => ListStatus::Completed,
            (None, ShownStatus::Recorded(RunStatus::Failed)) => ListStatus::Failed,
            (None, ShownStatus::Recorded(RunStatus::Cancelled)) => ListStatus::Cancelled,
        }
    }

    /// Whether a list of the runs with this status has it. A run that failed at its turn limit is also a failed one.
    pub fn has_status(&self, status: ListStatus) -> bool {
        let is_failed =
            status == ListStatus::Failed && self.run.damage.is_none() && self.run.status == RunStatus::Failed;
        self.status() == status || is_failed
    }

    /// Whether it replays a recorded run, and so spends nothing.
    pub fn is_replay(&self) -> bool {
        crate::replayed(&self.run.model).is_some()
    }

    /// How long it took, or has taken so far.
    pub fn wall_ms(&self, now_ms: i64) -> u64 {
        let until = self.run.ended_at_ms.or(self.stopped_at_ms).unwrap_or(now_ms);
        until.saturating_sub(self.run.created_at_ms).max(0).cast_unsigned()
    }
}

/// The status of a run in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListStatus {
    /// A process executes it.
    Running,
    /// A process executes it, and a call waits for an answer.
    Waiting,
    /// It has not ended, and no process executes it.
    Interrupted,
    /// It ended with an accepted result.
    Completed,
    /// It ended, completed or failed, because its root or a required sub-agent ran out of turns.
    TurnLimit,
    /// It ended without an accepted result.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its row or its head is unreliable.
    Damaged,
}

impl ListStatus {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Waiting,
        Self::Interrupted,
        Self::Completed,
        Self::TurnLimit,
        Self::Failed,
        Self::Cancelled,
        Self::Damaged,
    ];

    /// The status with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// The status as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::TurnLimit => "turn-limit",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Damaged => "damaged",
        }
    }
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
