//! Exit codes, once.
//!
//! Why it is like this: `docs/decisions/cli-exit-codes.md`.

use std::process::ExitCode;

use posse::RunOutcome;
use posse_domain::code::Code;
use posse_domain::lifecycle::FailKind;

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
        match (finished.status, &finished.failure) {
            ("completed", _) if finished.is_turn_limited() => Exit::EXHAUSTED,
            ("completed", _) => Exit::DONE,
            (_, Some((_, reason))) if is_about_key(reason) => Exit::UNAUTHENTICATED,
            ("cancelled", _) | (_, Some((FailKind::Cancelled, _))) => Exit::CANCELLED,
            (_, Some((FailKind::Budget | FailKind::Timeout, _))) => Exit::EXHAUSTED,
            _ => Exit::FAILED,
        }
    }

    /// The same of a run that was to be applied, or not: one that could not be is a failure.
    pub(crate) fn of_applied(finished: &RunOutcome, applied: Option<bool>) -> Exit {
        if applied == Some(false) { Exit::FAILED } else { Exit::of(finished) }
    }
}

/// Whether a run failed because of a key: its reason begins with the code.
fn is_about_key(reason: &str) -> bool {
    reason.strip_prefix(Code::Unauthenticated.as_str()).is_some_and(|rest| rest.starts_with(':'))
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.0)
    }
}
