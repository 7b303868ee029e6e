//! Executes a run in this process to its end: shows its progress and reacts to Ctrl-C.

use std::sync::Arc;
use std::time::Duration;

use posse::hooks::HookFailures;
use posse::{Delta, Posse, RunHandle, RunId, RunOutcome};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::commands::apply::apply_at_end;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::note;
use crate::questions::{QuestionPrompter, Step};
use crate::signals::{Ask, Signals};
use crate::view::{View, next_report};

/// How long a stop waits until the run's lease is released. After that the next lease holder does not wait longer,
/// because the lock of an ended process is free.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How the execution of a run ended.
pub(crate) enum DriveOutcome {
    /// The run ended.
    Ended(Box<RunOutcome>),
    /// A signal stopped the process; the run can be resumed.
    Stopped(Ask),
}

/// Executes the run until it ends or a signal asks to stop. Events up to number `known` are not shown again.
async fn drive(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: &mut View,
    asking: &mut QuestionPrompter,
) -> Result<DriveOutcome, CliError> {
    let run = handle.id();
    let after = if view.needs_past() { 0 } else { known };
    if after > 0 {
        view.start_from(posse.view(run).await?);
    }
    let mut events = posse.events(run, after);
    let mut deltas = view.wants().then(|| handle.deltas());
    let mut given_up = Box::pin(handle.ended());
    let mut reports = posse.files_progress();
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
                if event.kind.ends_run() {
                    break;
                }
                if event.seq > known {
                    asking.refresh(posse, view).await?;
                }
            }
            step = asking.next() => match step {
                Step::Typed(line) => asking.take(line.as_deref(), posse, view)?,
                Step::Posted(posted) => {
                    if let Some(text) = posted? {
                        view.note(&text);
                    }
                    asking.refresh(posse, view).await?;
                }
            },
            // A regular end is read from the journal. Only losing the run is reported here.
            ended = &mut given_up, if !left => {
                left = true;
                ended?;
            }
            ask = signals.next() => {
                asking.withdraw(view);
                if ask != Ask::Interrupt || cancelling.is_some() {
                    stop(posse, handle).await;
                    view.close();
                    view.note(&format!("stopped; `posse resume {run}` continues the run"));
                    return Ok(DriveOutcome::Stopped(ask));
                }
                view.note("cancelling; press Ctrl-C again to stop at once and resume later");
                // Not awaited here: a disk that hangs must not delay the second Ctrl-C.
                cancelling = Some(Box::pin(cancel(posse, run)));
                posted = false;
            }
            done = pending_or(cancelling.as_mut()), if !posted => {
                posted = true;
                done?;
            }
            shown = next_deltas(deltas.as_mut()) => match shown {
                Some(shown) => view.on_event(&shown),
                None => deltas = None,
            },
            report = next_report(&mut reports) => {
                view.progress(report.filter(|report| report.run == run.as_str()).as_ref());
            }
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

/// The newest output of models; `None` once no model writes any more. Output that came too fast to be shown is skipped.
async fn next_deltas(deltas: Option<&mut broadcast::Receiver<Arc<[Delta]>>>) -> Option<Arc<[Delta]>> {
    let Some(deltas) = deltas else { return std::future::pending().await };
    loop {
        match deltas.recv().await {
            Ok(deltas) => return Some(deltas),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Waits until more hooks have failed than are shown.
async fn changed(failing: Option<&mut HookFailures>, shown: usize) {
    let Some(failing) = failing else { return std::future::pending().await };
    if failing.wait_for(|failed| failed.len() > shown).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Shows which hooks of the run have failed since; returns how many are shown.
fn print_failed(failing: Option<&HookFailures>, shown: usize, run: &RunId, view: &mut View) -> usize {
    let Some(failing) = failing else { return shown };
    let failed = failing.borrow().clone();
    for failed in failed.iter().skip(shown).filter(|failed| failed.run == *run) {
        view.note(&format!("warning: {}", failed.text));
    }
    failed.len()
}

/// The output of the future; without one, waits forever.
async fn pending_or<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn cancel(posse: &Posse, run: &RunId) -> Result<(), CliError> {
    match posse.cancel(&run.root(), "Ctrl-C").await {
        // The run ended at the same moment: its end is on the way.
        Err(posse::Error::Ended { .. }) => Ok(()),
        other => Ok(other?),
    }
}

async fn stop(posse: &Posse, handle: &RunHandle) {
    posse.stop();
    if tokio::time::timeout(STOP_PATIENCE, handle.ended()).await.is_err() {
        // The disk hangs. The journal is consistent at every moment, and the lease ends with the process. Dropping the
        // store would wait for the disk, so it is leaked.
        std::mem::forget(posse.clone());
    }
}

/// Executes the run, and prints how it ended.
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

/// Executes the run, applies its result if requested and completed, and prints how it ended.
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

/// Prints how a run ended, and applies its result if requested and completed.
pub(crate) async fn print_end(
    posse: &Posse,
    finished: &RunOutcome,
    view: &mut View,
    apply: bool,
) -> Result<Exit, CliError> {
    let outcome = if apply { apply_at_end(posse, finished).await } else { None };
    let applied = outcome.as_ref().map(Result::is_ok);
    view.result(finished, applied)?;
    match outcome {
        Some(Ok(applied)) => note(&applied),
        Some(Err(error)) => note(error.text().trim_end()),
        None if apply => note("not applied: the run did not complete"),
        None => {}
    }
    Ok(Exit::of_applied(finished, applied))
}

/// Executes the run. The caller prints how it ended.
pub(crate) async fn drive_to_end(
    posse: &Posse,
    handle: &RunHandle,
    known: u64,
    signals: &mut Signals,
    view: &mut View,
    asking: &mut QuestionPrompter,
) -> Result<DriveOutcome, CliError> {
    let driven = drive(posse, handle, known, signals, view, asking).await;
    if driven.is_err() {
        asking.withdraw(view);
        // Nothing more may start without a user who watches. Written events stay.
        stop(posse, handle).await;
        view.close();
    }
    driven
}

/// Executes a run that is about to end, without showing it.
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
