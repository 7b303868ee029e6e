//! What has to do with workspaces, asked for again when the machine failed.
//!
//! A helper that was killed says nothing about an agent's work: it must neither fail the agent nor lose what it made. So the same
//! is asked for again, a few times. If that does not help, the run is given up as it is, and resumed later it asks again.
//!
//! A command can also end its own sandbox. Where that is possible and happens each time, while other sandboxes start well, the
//! command is at fault: resumed later the run would only come to the same end.

use std::time::Duration;

use super::Driver;
use super::effects::Input;
use crate::ports::{StopSignal, Urgency, WorkspaceProblem, WorkspaceResult};

/// How often the same is asked for in all. More would only keep a person waiting for a machine that cannot.
const TRIES_MAX: u32 = 5;
/// The first pause between two tries; each is four times the one before, so that all of them take about two seconds.
const PAUSE_FIRST: Duration = Duration::from_millis(25);

/// Asks until the machine does not fail, a few times. Whatever is asked for may be asked for again: the port says so.
pub(crate) async fn insist<T>(ask: impl Fn() -> WorkspaceResult<T>) -> Result<T, WorkspaceProblem> {
    insist_unless(&StopSignal::never(), ask).await
}

/// The same for something that can be stopped: then it is not asked for again.
pub(super) async fn insist_unless<T>(
    stop: &StopSignal,
    ask: impl Fn() -> WorkspaceResult<T>,
) -> Result<T, WorkspaceProblem> {
    let (mut tried, mut pause) = (1, PAUSE_FIRST);
    let mut always_suspect = true;
    loop {
        let problem = match ask().await {
            Err(problem) if problem.passing => problem,
            done => return done,
        };
        always_suspect &= problem.suspect;
        if tried == TRIES_MAX && always_suspect {
            return Err(format!("{problem} each of {tried} times").into());
        }
        if tried == TRIES_MAX || stop.now() != Urgency::None {
            return Err(WorkspaceProblem::passing(format!("{problem} (tried {tried} times)")));
        }
        tracing::warn!(%problem, tried, "the machine failed; the same is tried again");
        let mut waking = stop.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = waking.at_least(Urgency::Gently) => {}
        }
        (tried, pause) = (tried + 1, pause * 4);
    }
}

impl Driver {
    /// What the machine could not do however often it was asked, if that is what came and somebody still waits for it.
    pub(super) fn given_up(&self, input: &Input) -> Option<String> {
        let is_stopped = match input {
            Input::Checked { child, .. } => self.merging.is_check_stopped(child),
            _ => false,
        };
        input.machine_failed().filter(|_| !is_stopped).map(|problem| problem.text.clone())
    }
}

impl Input {
    /// What the machine could not do, if that is what came.
    fn machine_failed(&self) -> Option<&WorkspaceProblem> {
        let problem = match self {
            Self::Unready { problem, .. } => Some(problem),
            Self::Hooked { answer, .. } => answer.as_ref().err(),
            Self::Made { made, .. } => made.as_ref().err(),
            Self::Shared { dir, .. } => dir.as_ref().err(),
            Self::Snapshot { taken, .. } => taken.as_ref().err(),
            Self::Salvaged { salvage, .. } => salvage.as_ref().err(),
            Self::Merged { merge, .. } => merge.as_ref().err(),
            Self::Checked { checks, .. } => checks.as_ref().err(),
            Self::Updated { updated, .. } => updated.as_ref().err(),
            Self::Delivered(result) => result.as_ref().err(),
            _ => None,
        };
        problem.filter(|problem| problem.passing)
    }
}
