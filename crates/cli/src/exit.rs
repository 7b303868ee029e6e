//! The exit codes of the command: those of runs that have ended ([`RunExit`]), and those of the command alone.
//!
//! Why it is like this: `docs/decisions/cli-exit-codes.md`.

use std::process::ExitCode;

use posse::RunOutcome;
use posse::api::RunExit;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// The run completed, or the command succeeded.
    pub(crate) const DONE: Exit = Exit(RunExit::Done.code());
    /// The run failed, or the command could not be executed.
    pub(crate) const FAILED: Exit = Exit(RunExit::Failed.code());
    /// The input is invalid: a flag, a file, an id. Nothing was done.
    pub(crate) const USAGE: Exit = Exit(2);
    /// A key is missing, or a provider does not accept it.
    pub(crate) const UNAUTHENTICATED: Exit = Exit(RunExit::Unauthenticated.code());
    /// A wait was given up after its time, as by `timeout`. The run continues.
    pub(crate) const TIMED_OUT: Exit = Exit(124);
    /// The run was interrupted and can be resumed.
    pub(crate) const INTERRUPTED: Exit = Exit(130);

    /// The code of a run that has ended.
    pub(crate) fn of(finished: &RunOutcome) -> Exit {
        Exit::of_applied(finished, None)
    }

    /// Like [`Exit::of`], but a run that could not be applied, although that was requested, is a failure.
    pub(crate) fn of_applied(finished: &RunOutcome, applied: Option<bool>) -> Exit {
        Exit(RunExit::of(finished, applied).code())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.0)
    }
}
