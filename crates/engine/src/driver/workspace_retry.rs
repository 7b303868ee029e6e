//! Retries workspace operations of the driver when the machine failed.
//!
//! A killed helper program is not a failure of an agent: the agent must neither fail nor lose its changes. The
//! operation is therefore retried a few times. If that does not help, the run is given up as it is, and tries again
//! when it is resumed.
//!
//! A command can also end its own sandbox. If that happens on each try while other sandboxes start well, the command is
//! the cause, and the operation fails: a resumed run would only fail in the same way.

use std::time::Duration;

use crate::ports::{StopSignal, Urgency, WorkspaceError, WorkspaceResult};

/// Limit of tries. More tries would only delay the failure on a machine that cannot execute the operation.
const TRIES_MAX: u32 = 5;
/// The first pause between two tries. Each further pause is four times as long, about two seconds in all.
const PAUSE_FIRST: Duration = Duration::from_millis(25);

/// Repeats an operation while the machine fails, up to `TRIES_MAX` tries. The port guarantees that every operation may
/// be repeated.
pub(crate) async fn retry<T>(ask: impl Fn() -> WorkspaceResult<T>) -> Result<T, WorkspaceError> {
    retry_unless(&StopSignal::never(), ask).await
}

/// Like [`retry`], for an operation that can be stopped. A stopped operation is not repeated.
pub(crate) async fn retry_unless<T>(
    stop: &StopSignal,
    ask: impl Fn() -> WorkspaceResult<T>,
) -> Result<T, WorkspaceError> {
    let (mut tried, mut pause) = (1, PAUSE_FIRST);
    let mut always_suspect = true;
    loop {
        let problem = match ask().await {
            Err(problem) if problem.may_pass() => problem,
            done => return done,
        };
        always_suspect &= matches!(problem, WorkspaceError::Suspect(_));
        if tried == TRIES_MAX && always_suspect {
            return Err(WorkspaceError::Unsupported(format!("{problem} each of {tried} times")));
        }
        if tried == TRIES_MAX || stop.now() != Urgency::None {
            return Err(WorkspaceError::Unavailable(format!("{problem} (tried {tried} times)")));
        }
        tracing::warn!(%problem, tried, "the machine failed; the operation is tried again");
        let mut waking = stop.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = waking.at_least(Urgency::Gently) => {}
        }
        (tried, pause) = (tried + 1, pause * 4);
    }
}
