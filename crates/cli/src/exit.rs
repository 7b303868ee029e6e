//! Exit codes, once.
//!
//! Why it is like this: `docs/decisions/cli-exit-codes.md`.

use std::process::ExitCode;

use posse::{FailKind, RunOutcome, RunStatus};
use posse_domain::code::Code;

/// How the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// The run completed, or the command did what was asked.
    pub(crate) const DONE: Exit = Exit(0);
    /// The run failed, or the command could not be carried out.
    pub(crate) const FAILED: Exit = Exit(1);
    /// What was typed cannot be right: a flag, a file, an id. Nothing was done.
    pub(crate) const USAGE: Exit = Exit(2);
    /// The run was cancelled.
    pub(crate) const CANCELLED: Exit = Exit(3);
    /// A key is missing, or a provider does not accept it.
    pub(crate) const UNAUTHENTICATED: Exit = Exit(4);
    /// A limit ended the run: a budget, a timeout, or turns.
    pub(crate) const EXHAUSTED: Exit = Exit(5);
    /// The run was left in the middle and can be resumed.
    pub(crate) const INTERRUPTED: Exit = Exit(130);

    /// The code of a run that has ended.
    pub(crate) fn of(finished: &RunOutcome) -> Exit {
        let code = finished.failure.as_ref().map(|failure| failure.code);
        match (finished.status, finished.fail_kind) {
            (RunStatus::Completed, _) if finished.is_turn_limited() => Exit::EXHAUSTED,
            (RunStatus::Completed, _) => Exit::DONE,
            _ if code == Some(Code::Unauthenticated) => Exit::UNAUTHENTICATED,
            (RunStatus::Cancelled, _) | (_, Some(FailKind::Cancelled)) => Exit::CANCELLED,
            (_, Some(FailKind::Budget | FailKind::Timeout)) => Exit::EXHAUSTED,
            _ => Exit::FAILED,
        }
    }

    /// The same of a run that was to be applied, or not: one that could not be is a failure.
    pub(crate) fn of_applied(finished: &RunOutcome, applied: Option<bool>) -> Exit {
        if applied == Some(false) { Exit::FAILED } else { Exit::of(finished) }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.0)
    }
}
