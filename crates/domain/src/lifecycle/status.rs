//! The states of a run and its agents, as rows of current state and front ends name them. Each is an enum with one
//! spelling, so that no code compares texts.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::FailKind;
use crate::code::Code;
use crate::event::FinalStatus;

/// The state of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run has not ended. A process may or may not be executing it.
    Running,
    /// The run completed.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status's wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        }
    }

    /// Parses the name that [`as_str`](Self::as_str) returns.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

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
    /// The row and the contract are committed.
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

    /// The state's wire name.
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

    /// Parses the name that [`as_str`](Self::as_str) returns.
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
    /// The status's wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            FinalStatus::Completed => "completed",
            FinalStatus::Failed => "failed",
        }
    }

    /// Parses the name that [`as_str`](Self::as_str) returns.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Completed, Self::Failed].into_iter().find(|status| status.as_str() == text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The agent's work was accepted.
    Integrated,
    Failed(FailKind),
}

impl CloseReason {
    /// The reason's wire name in events and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            CloseReason::Integrated => "integrated",
            CloseReason::Failed(kind) => kind.as_str(),
        }
    }

    /// Parses the name that [`as_str`](Self::as_str) returns.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "integrated" => Some(CloseReason::Integrated),
            text => FailKind::parse(text).map(CloseReason::Failed),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for CloseReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CloseReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(Unexpected::Str(&text), &"`integrated` or a kind of failure")
        })
    }
}

impl FailKind {
    const ALL: [Self; 6] =
        [Self::Execution, Self::Policy, Self::Timeout, Self::Budget, Self::Integration, Self::Cancelled];

    /// Parses the name that [`as_str`](Self::as_str) returns.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Why an agent or a run failed: a code for programs, a reason for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReason {
    pub code: Code,
    pub reason: String,
}

/// A reason in words, with its code in brackets after the first line: further lines are a program's output.
pub fn with_code(reason: &str, code: Code) -> String {
    let (first, rest) = reason.trim_end().split_once('\n').unwrap_or((reason.trim_end(), ""));
    // A colon announces the lines that follow.
    match (first.strip_suffix(':'), rest) {
        (_, "") => format!("{first} ({code})"),
        (Some(first), rest) => format!("{first} ({code}):\n{rest}"),
        (None, rest) => format!("{first} ({code})\n{rest}"),
    }
}

/// A cancellation in words. A reason such as "cancelled by the user" says all of it.
pub fn cancelled(reason: &str) -> String {
    if reason.starts_with("cancelled") { reason.to_owned() } else { format!("cancelled: {reason}") }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_code(&self.reason, self.code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_comes_after_the_reason_and_before_the_lines_that_it_announces() {
        for (reason, told) in [
            ("it failed", "it failed (CHECKS_FAILED)"),
            ("it failed\noutput\n", "it failed (CHECKS_FAILED)\noutput"),
            ("it failed:\noutput", "it failed (CHECKS_FAILED):\noutput"),
        ] {
            assert_eq!(with_code(reason, Code::ChecksFailed), told);
        }
    }

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
            let reason = CloseReason::Failed(kind);
            assert_eq!(CloseReason::parse(kind.as_str()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), kind.as_str());
            assert_eq!(serde_json::from_value::<CloseReason>(kind.as_str().into()).unwrap(), reason);
        }
        for (code, _) in Code::MEANINGS {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
        assert_eq!(CloseReason::parse("integrated"), Some(CloseReason::Integrated));
        let unknown = serde_json::from_str::<CloseReason>(r#""ended""#).unwrap_err().to_string();
        assert!(unknown.contains("`integrated` or a kind of failure"), "{unknown}");
        assert_eq!((RunStatus::parse("ended"), CloseReason::parse("")), (None, None));
    }
}
