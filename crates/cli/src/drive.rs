//! Carries a run in this process to its end: shows what happens, and listens to Ctrl-C.

use std::sync::Arc;
use std::time::Duration;

use posse::hooks::HookFailures;
pub(crate) use posse::view::is_end;
use posse::{Delta, Posse, RunHandle, RunId, RunOutcome};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::commands::apply::apply_finished;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::note;
use crate::questions::{QuestionPrompter, Step};
use crate::signals::{Ask, Signals};
use crate::view::View;

/// How long a stop waits for the run's lease to be given back. Without it the next owner waits no longer: the
/// lock of a process that has ended is free.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How carrying a run came to an end.
pub(crate) enum DriveOutcome {
    /// The run ended.
    Ended(Box<RunOutcome>),
    /// The process was asked to stop; the run can be resumed.
    Stopped(Ask),
}

/// Carries the run until it ends or somebody asks to stop. Events up to number `known` are the past: they are
/// not told again.
async fn drive(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: &mut View,
    asking: &mut QuestionPrompter,
) -> Result<DriveOutcome, CliError> {
    let run = handle.id();
    let mut events = posse.events(run, if view.needs_past() { 0 } else { known });
    let mut deltas = view.wants().then(|| handle.deltas());
    let mut given_up = Box::pin(handle.ended());
    let mut failing = posse.hook_failures();
    let mut failed = 0;
    let mut left = false;
    let mut cancelling = None;
    let mut posted = true;
    loop {
        tokio::select! {
            event = events.next() => {
                let event = event?;
                if event.seq > known {
                    view.event(&event)?;
                } else {
                    view.past(&event);
                }
                if is_end(event.kind) {
                    break;
                }
                if event.seq > known && asking.is_about(&event) {
                    asking.refresh(posse, run, view).await?;
                }
            }
            step = asking.next() => match step {
                Step::Typed(line) => asking.take(line.as_deref(), posse, view)?,
                Step::Posted(posted) => {
                    if let Some(text) = posted? {
                        view.note(&text);
                    }
                    asking.refresh(posse, run, view).await?;
                }
            },
            // An end is in the journal and is read there; only giving up is news.
            ended = &mut given_up, if !left => {
                left = true;
                ended?;
            }
            ask = signals.next() => {
                asking.withdraw(view);
                if ask != Ask::Interrupt || cancelling.is_some() {
                    stop(posse, handle).await;
                    view.close();
                    view.note(&format!("stopped; `posse resume {run}` goes on with the run"));
                    return Ok(DriveOutcome::Stopped(ask));
                }
                view.note("cancelling; press Ctrl-C again to stop at once and resume later");
                // Not waited for here: a disk that hangs must not make the second Ctrl-C wait.
                cancelling = Some(Box::pin(cancel(posse, run)));
                posted = false;
            }
            done = pending_or(cancelling.as_mut()), if !posted => {
                posted = true;
                done?;
            }
            said = print_event(deltas.as_mut()) => match said {
                Some(said) => view.on_event(&said),
                None => deltas = None,
            },
            () = changed(failing.as_mut(), failed) => failed = print_failed(failing.as_ref(), failed, run, view),
            () = view.due() => view.draw(),
        }
    }
    print_failed(failing.as_ref(), failed, run, view);
    asking.withdraw(view);
    if !left {
        given_up.await?;
    }
    let finished = posse.wait(run).await?;
    view.close();
    Ok(DriveOutcome::Ended(Box::new(finished)))
}

/// What models said in the last moment; none once nobody says anything any more. What came too fast to be shown is
/// left out.
async fn print_event(deltas: Option<&mut broadcast::Receiver<Arc<[Delta]>>>) -> Option<Arc<[Delta]>> {
    let Some(deltas) = deltas else { return std::future::pending().await };
    loop {
        match deltas.recv().await {
            Ok(said) => return Some(said),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Waits until more hooks have failed than are told.
async fn changed(failing: Option<&mut HookFailures>, told: usize) {
    let Some(failing) = failing else { return std::future::pending().await };
    if failing.wait_for(|failed| failed.len() > told).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Tells which hooks of the run have failed since; gives how many are told.
fn print_failed(failing: Option<&HookFailures>, told: usize, run: &RunId, view: &mut View) -> usize {
    let Some(failing) = failing else { return told };
    let failed = failing.borrow().clone();
    for failed in failed.iter().skip(told).filter(|failed| failed.run == *run) {
        view.note(&format!("warning: {}", failed.text));
    }
    failed.len()
}

/// What the future gives; without one, nothing for ever.
async fn pending_or<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn cancel(posse: &Posse, run: &RunId) -> Result<(), CliError> {
    match posse.cancel(&run.root(), "Ctrl-C").await {
        // It ended in the same moment: its end is on the way.
        Err(posse::Error::Ended { .. }) => Ok(()),
        other => Ok(other?),
    }
}

async fn stop(posse: &Posse, handle: &RunHandle) {
    posse.stop();
    if tokio::time::timeout(STOP_PATIENCE, handle.ended()).await.is_err() {
        // The disk hangs. The journal is good at every moment, and the lease ends with the process; dropping the
        // store would wait for the disk all the same, so it is left to the end of the process.
        std::mem::forget(posse.clone());
    }
}

/// Carries the run, and tells how it ended.
pub(crate) async fn drive_and_print(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: View,
    asking: QuestionPrompter,
) -> Result<Exit, CliError> {
    drive_and_apply(posse, handle, known, signals, view, asking, false).await
}

/// Carries the run, applies it if that is wanted and it completed, and tells how it ended.
pub(crate) async fn drive_and_apply(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    mut view: View,
    mut asking: QuestionPrompter,
    apply: bool,
) -> Result<Exit, CliError> {
    match drive_to_end(posse, handle, known, signals, &mut view, &mut asking).await? {
        DriveOutcome::Ended(finished) => print_end(posse, &finished, &mut view, apply).await,
        DriveOutcome::Stopped(ask) => Ok(ask.exit()),
    }
}

/// Tells how a run ended, and applies it if that is wanted and it completed.
pub(crate) async fn print_end(
    posse: &Posse,
    finished: &RunOutcome,
    view: &mut View,
    apply: bool,
) -> Result<Exit, CliError> {
    let outcome = if apply { apply_finished(posse, finished).await } else { None };
    let applied = outcome.as_ref().map(Result::is_ok);
    view.result(finished, applied)?;
    match outcome {
        Some(Ok(said)) => note(&said),
        Some(Err(error)) => note(error.text().trim_end()),
        None if apply => note("not applied: the run did not complete"),
        None => {}
    }
    Ok(Exit::of_applied(finished, applied))
}

/// Carries the run, and leaves it to the caller to tell how it ended.
pub(crate) async fn drive_to_end(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: &mut View,
    asking: &mut QuestionPrompter,
) -> Result<DriveOutcome, CliError> {
    let carried = drive(posse, handle, known, signals, view, asking).await;
    if carried.is_err() {
        asking.withdraw(view);
        // Nothing more may start while nobody watches; what is written stays.
        stop(posse, handle).await;
        view.close();
    }
    carried
}

/// Carries a run that is about to end, without showing it.
pub(crate) async fn drive_quietly(
    posse: &Posse,
    handle: &RunHandle,
    signals: &mut Signals,
) -> Result<(), CliError> {
    tokio::select! {
        ended = handle.ended() => Ok(ended?),
        _ = signals.next() => {
            stop(posse, handle).await;
            Err(CliError::interrupted("stopped before the run was ended")
                .hint(format!("`posse resume {}` ends it", handle.id())))
        }
    }
}
