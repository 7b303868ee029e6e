//! Converts text columns of current state to types. Only this adapter knows the texts. A text that no store writes is
//! damage of the run.

use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{CloseReason, FailKind, FailureReason, RunStatus};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::query::{QueryError, text};

/// The value of a column that is never empty. `what` names the column in the error.
pub(super) fn required<T>(
    row: &Row<'_>,
    column: usize,
    what: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, QueryError> {
    let text = text(row, column)?;
    parse(text).ok_or_else(|| QueryError::Value(format!("its {what} `{text}` cannot be read")))
}

pub(super) fn optional<T>(
    row: &Row<'_>,
    column: usize,
    what: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, QueryError> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => required(row, column, what, parse).map(Some),
    }
}

/// The format of the column `error` of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureColumn {
    /// `CODE: reason`.
    Coded,
    /// The reason alone, for the root of a cancelled run, whose last event has no code.
    ReasonAlone,
}

impl FailureColumn {
    /// The format for an agent that closed for this reason. The status of its run is only read if it matters.
    pub(super) fn of<E>(
        agent: &AgentId,
        close_reason: Option<CloseReason>,
        run_status: impl FnOnce() -> Result<Option<RunStatus>, E>,
    ) -> Result<Self, E> {
        // A run also fails if its only child was cancelled. Then the event has a code.
        let is_of_cancelled_run = agent.is_root()
            && close_reason == Some(CloseReason::Failed(FailKind::Cancelled))
            && run_status()? == Some(RunStatus::Cancelled);
        Ok(if is_of_cancelled_run { Self::ReasonAlone } else { Self::Coded })
    }

    pub(super) fn write(self, failure: &FailureReason) -> String {
        match self {
            Self::Coded => format!("{}: {}", failure.code, failure.reason),
            Self::ReasonAlone => failure.reason.clone(),
        }
    }

    /// Parses the output of [`write`](Self::write).
    pub(super) fn read(self, text: &str) -> Option<FailureReason> {
        let (code, reason) = match self {
            Self::Coded => {
                let (code, reason) = text.split_once(": ")?;
                (Code::parse(code)?, reason)
            }
            Self::ReasonAlone => (Code::Cancelled, text),
        };
        Some(FailureReason { code, reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(agent: &str, kind: FailKind, status: RunStatus) -> FailureColumn {
        let agent = agent.parse().unwrap();
        let status = || Ok::<_, std::convert::Infallible>(Some(status));
        FailureColumn::of(&agent, Some(CloseReason::Failed(kind)), status).unwrap()
    }

    #[test]
    fn the_column_of_a_failure_is_read_as_the_failure() {
        for (code, agent, kind, status, column) in [
            (Code::Timeout, "k3f9ab2c.1", FailKind::Timeout, RunStatus::Running, "TIMEOUT: a: b"),
            (Code::ModelError, "k3f9ab2c", FailKind::Execution, RunStatus::Failed, "MODEL_ERROR: a: b"),
            (Code::Cancelled, "k3f9ab2c.1", FailKind::Cancelled, RunStatus::Cancelled, "CANCELLED: a: b"),
            (Code::Cancelled, "k3f9ab2c", FailKind::Cancelled, RunStatus::Failed, "CANCELLED: a: b"),
            (Code::Cancelled, "k3f9ab2c", FailKind::Cancelled, RunStatus::Cancelled, "a: b"),
        ] {
            let failure = FailureReason { code, reason: "a: b".to_owned() };
            let form = form(agent, kind, status);
            assert_eq!(form.write(&failure), column);
            assert_eq!(form.read(column), Some(failure));
        }
        // A user's reason may look like a code.
        let words = FailureColumn::ReasonAlone.read("TIMEOUT: enough").unwrap();
        assert_eq!((words.code, words.reason.as_str()), (Code::Cancelled, "TIMEOUT: enough"));
        for uncoded in ["it broke", "it: broke", "", "TIMEOUT"] {
            assert_eq!(FailureColumn::Coded.read(uncoded), None, "{uncoded}");
        }
    }
}
