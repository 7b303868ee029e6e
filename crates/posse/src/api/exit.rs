//! The exit codes of runs that have ended.

use posse_domain::code::Code;

use crate::{AgentView, CloseReason, FailKind, RunOutcome, RunStatus};

/// How a run ended, as the exit code of a command that executed it or waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RunExit {
    /// The run completed.
    Done = 0,
    /// The run failed, or its result could not be applied.
    Failed = 1,
    /// The run was cancelled.
    Cancelled = 3,
    /// A key is missing, or a provider does not accept it.
    Unauthenticated = 4,
    /// A limit ended the run: a budget, a timeout, or turns.
    Exhausted = 5,
    /// A replay made another request than the recorded run.
    Differs = 6,
}

impl RunExit {
    /// The exit code of a run. One that could not be applied, although that was requested, is a failure.
    pub fn of(finished: &RunOutcome, applied: Option<bool>) -> Self {
        let code = finished.failure.as_ref().map(|failure| failure.code);
        match (finished.status, finished.fail_kind) {
            _ if applied == Some(false) => Self::Failed,
            (RunStatus::Completed, _) if finished.is_turn_limited() => Self::Exhausted,
            (RunStatus::Completed, _) => Self::Done,
            _ if code == Some(Code::Unauthenticated) => Self::Unauthenticated,
            _ if code == Some(Code::ReplayDiffers) => Self::Differs,
            (RunStatus::Cancelled, _) | (_, Some(FailKind::Cancelled)) => Self::Cancelled,
            (_, Some(FailKind::Budget | FailKind::Timeout)) => Self::Exhausted,
            _ if finished.is_turn_limited() => Self::Exhausted,
            _ => Self::Failed,
        }
    }

    /// The exit code for an agent that has closed.
    pub fn of_agent(agent: &AgentView) -> Self {
        let code = agent.failure.as_ref().map(|failure| failure.code);
        match agent.close_reason {
            Some(CloseReason::Integrated) if agent.is_turn_limited() => Self::Exhausted,
            Some(CloseReason::Integrated) => Self::Done,
            _ if code == Some(Code::Unauthenticated) => Self::Unauthenticated,
            _ if code == Some(Code::ReplayDiffers) => Self::Differs,
            Some(CloseReason::Failed(FailKind::Cancelled)) => Self::Cancelled,
            Some(CloseReason::Failed(FailKind::Budget | FailKind::Timeout)) => Self::Exhausted,
            _ if code == Some(Code::TurnLimit) => Self::Exhausted,
            _ => Self::Failed,
        }
    }

    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureReason, Usage};

    fn outcome(status: RunStatus, failure: Option<(FailKind, Code)>) -> RunOutcome {
        RunOutcome {
            run: "aaaaaaaa".parse().expect("a run"),
            status,
            text: String::new(),
            failure: failure.map(|(_, code)| FailureReason { code, reason: "because".to_owned() }),
            fail_kind: failure.map(|(kind, _)| kind),
            usage: Usage::default(),
            is_replay: false,
            replay: None,
            elapsed_ms: 0,
            refused: crate::view::RefusedOperations::default(),
            unchanged: Vec::new(),
            turns: 1,
            agents: 1,
            failed: Vec::new(),
            turns_exhausted: false,
            turn_limited: Vec::new(),
            result: None,
            disk_bytes: None,
        }
    }

    #[test]
    fn every_end_of_a_run_has_its_exit_code() {
        let failed = |kind, code| outcome(RunStatus::Failed, Some((kind, code)));
        let completed = outcome(RunStatus::Completed, None);
        let limited = RunOutcome { turns_exhausted: true, ..completed.clone() };
        let cancelled = outcome(RunStatus::Cancelled, Some((FailKind::Cancelled, Code::Cancelled)));
        let cases = [
            (completed, 0),
            (failed(FailKind::Execution, Code::ModelError), 1),
            (failed(FailKind::Policy, Code::PermissionDenied), 1),
            (cancelled, 3),
            (failed(FailKind::Cancelled, Code::Cancelled), 3),
            (failed(FailKind::Execution, Code::Unauthenticated), 4),
            (failed(FailKind::Execution, Code::ReplayDiffers), 6),
            (failed(FailKind::Budget, Code::BudgetExhausted), 5),
            (failed(FailKind::Timeout, Code::Timeout), 5),
            (limited, 5),
        ];
        for (finished, code) in cases {
            assert_eq!(RunExit::of(&finished, None).code(), code, "{finished:?}");
            assert_eq!(RunExit::of(&finished, Some(true)).code(), code, "{finished:?}");
            assert_eq!(RunExit::of(&finished, Some(false)), RunExit::Failed, "{finished:?}");
        }
    }
}
