//! Waits for a call within its limits, and ends it when it exceeds them or must stop.

use std::time::Duration;

use posse_engine::ports::{StopSignal, Urgency};
use tokio::sync::Notify;

use super::{CallEnd, RunningCall, SandboxError};

/// The shell that commands run in. It reads no start-up files, so that each command starts the same.
pub const SHELL: [&str; 4] = ["bash", "--noprofile", "--norc", "-c"];

/// When a sandbox that was asked to end counts as stuck. It normally ends its programs earlier.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The time limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// For the whole call.
    pub time: Duration,
    /// Without output.
    pub idle: Duration,
}

/// Why a call was ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It exceeded its time limit.
    TimeLimit,
    /// It printed nothing for too long.
    Silent,
    /// The stop signal was given.
    Stopped,
}

impl RunningCall {
    /// Waits until no process of the call is left. A call that exceeds a limit, or whose stop signal is given, is asked
    /// to end, and killed if it does not or if the signal becomes urgent. Then the reason is returned too.
    pub async fn run_to_end(
        &mut self,
        stop: &StopSignal,
        limits: TimeLimits,
    ) -> (Result<CallEnd, SandboxError>, Option<EndReason>) {
        let prints = self.prints();
        let (mut gently, mut at_once) = (stop.clone(), stop.clone());
        let reason = tokio::select! {
            biased;
            ended = self.ended() => return (ended, None),
            () = gently.at_least(Urgency::Gently) => EndReason::Stopped,
            () = tokio::time::sleep(limits.time) => EndReason::TimeLimit,
            () = silence(&prints, limits.idle) => EndReason::Silent,
        };
        self.terminate();
        tokio::select! {
            biased;
            ended = self.ended() => return (ended, Some(reason)),
            () = at_once.at_least(Urgency::AtOnce) => {}
            () = tokio::time::sleep(STUCK_AFTER) => {}
        }
        self.kill();
        (self.ended().await, Some(reason))
    }
}

/// Returns when nothing was printed for the duration `idle`.
async fn silence(prints: &Notify, idle: Duration) {
    while tokio::time::timeout(idle, prints.notified()).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_is_silent_when_it_has_printed_nothing_for_so_long() {
        let (prints, idle) = (Arc::new(Notify::new()), Duration::from_secs(10));
        let listening = prints.clone();
        let silent = tokio::spawn(async move { silence(&listening, idle).await });
        tokio::task::yield_now().await;
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(9)).await;
            prints.notify_one();
            tokio::task::yield_now().await;
            assert!(!silent.is_finished(), "every output begins the time anew");
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        silent.await.expect("it ends");
    }
}
