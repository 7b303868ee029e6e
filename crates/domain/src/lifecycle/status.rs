//! The words that rows of current state and front ends have for where a run and its agents stand. Each is an enum with
//! one spelling, so that no text is compared with another text.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FailKind;
use crate::code::Code;
use crate::event::FinalStatus;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has not ended; whether a process executes it is another question.
    Running,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        }
    }

    /// Reads what [`as_str`](Self::as_str) writes.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the run has not ended.
    pub fn is_running(self) -> bool {
        self == RunStatus::Running
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The states of an agent's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Row and contract committed.
    Created,
    /// An attempt is under way.
    Running,
    /// The work ended, nothing is accepted yet.
    WaitingForMerge,
    /// Integration passed.
    Completed,
    /// It failed.
    Failed,
    /// No further activity, ever.
    Closed,
}

impl AgentState {
    const ALL: [Self; 6] =
        [Self::Created, Self::Running, Self::WaitingForMerge, Self::Completed, Self::Failed, Self::Closed];

    /// The state as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentState::Created => "created",
            AgentState::Running => "running",
            AgentState::WaitingForMerge => "waiting_for_merge",
            AgentState::Completed => "completed",
            AgentState::Failed => "failed",
            AgentState::Closed => "closed",
        }
    }

    /// Reads what [`as_str`](Self::as_str) writes.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FinalStatus {
    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            FinalStatus::Completed => "completed",
            FinalStatus::Failed => "failed",
        }
    }

    /// Reads what [`as_str`](Self::as_str) writes.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Completed, Self::Failed].into_iter().find(|status| status.as_str() == text)
    }
}

/// Why an agent closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Its work was accepted.
    Integrated,
    /// It failed in this way.
    Failed(FailKind),
}

impl CloseReason {
    /// The reason as events and rows have it.
    pub fn as_str(self) -> &'static str {
        match self {
            CloseReason::Integrated => "integrated",
            CloseReason::Failed(kind) => kind.as_str(),
        }
    }

    /// Reads what [`as_str`](Self::as_str) writes.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "integrated" => Some(CloseReason::Integrated),
            text => FailKind::parse(text).map(CloseReason::Failed),
        }
    }
}

impl FailKind {
    const ALL: [Self; 6] =
        [Self::Execution, Self::Policy, Self::Timeout, Self::Budget, Self::Integration, Self::Cancelled];

    /// Reads what [`as_str`](Self::as_str) writes.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Why an agent or a run failed: a code for programs, a reason for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReason {
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
}

impl FailureReason {
    /// The text in the column `error` of an agent's row. The root of a cancelled run has the reason alone there,
    /// because that event has no code.
    pub fn to_column(&self, is_cancelled_run: bool) -> String {
        if is_cancelled_run { self.reason.clone() } else { self.to_string() }
    }

    /// Reads what [`to_column`](Self::to_column) writes. A text without a code, which only another writer of the
    /// table can have left, has the code of the reason for which the agent closed.
    pub fn from_column(text: &str, closed: Option<CloseReason>, is_root: bool) -> Self {
        let kind = match closed {
            Some(CloseReason::Failed(kind)) => kind,
            Some(CloseReason::Integrated) | None => FailKind::Execution,
        };
        let plain = || Self { code: kind.code(), reason: text.to_owned() };
        if is_root && kind == FailKind::Cancelled {
            return plain();
        }
        let coded = text.split_once(": ").and_then(|(code, reason)| Some((Code::parse(code)?, reason)));
        coded.map_or_else(plain, |(code, reason)| Self { code, reason: reason.to_owned() })
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_what_wrote_it() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for state in AgentState::ALL {
            assert_eq!(AgentState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for kind in FailKind::ALL {
            assert_eq!(CloseReason::parse(kind.as_str()), Some(CloseReason::Failed(kind)));
        }
        for (code, _) in Code::MEANINGS {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
        assert_eq!(CloseReason::parse("integrated"), Some(CloseReason::Integrated));
        assert_eq!((RunStatus::parse("ended"), CloseReason::parse("")), (None, None));
    }

    #[test]
    fn the_column_of_a_failure_is_read_as_the_failure() {
        let cancelled = CloseReason::Failed(FailKind::Cancelled);
        for (code, closed, is_root, column) in [
            (Code::Timeout, CloseReason::Failed(FailKind::Timeout), false, "TIMEOUT: a: b"),
            (Code::ModelError, CloseReason::Failed(FailKind::Execution), true, "MODEL_ERROR: a: b"),
            (Code::Cancelled, cancelled, false, "CANCELLED: a: b"),
            (Code::Cancelled, cancelled, true, "a: b"),
        ] {
            let failure = FailureReason { code, reason: "a: b".to_owned() };
            assert_eq!(failure.to_column(is_root && closed == cancelled), column);
            assert_eq!(FailureReason::from_column(column, Some(closed), is_root), failure);
        }
        // A person's words may look like a code.
        let words = FailureReason::from_column("TIMEOUT: enough", Some(cancelled), true);
        assert_eq!((words.code, words.reason.as_str()), (Code::Cancelled, "TIMEOUT: enough"));
        let uncoded = FailureReason::from_column("it broke", None, false);
        assert_eq!((uncoded.code, uncoded.reason.as_str()), (Code::SubagentError, "it broke"));
    }
}
