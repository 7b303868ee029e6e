//! The runs that the server's process executes: those that clients started, and interrupted ones that it took over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use posse::ports::Holder;
use posse::{Posse, Resume, RunHandle, RunId, RunSummary};
use posse_setup::draft::ReplayDraft;
use posse_setup::{Notes, RunDirectory, RunDraft, RunExecution, Setup};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{RUNS_MAX, STOP_PATIENCE};
use super::problem::{Problem, ProblemCode};

/// A run that this process executes.
pub(super) struct ExecutedRun {
    /// Opened with the settings of the run's directory.
    pub(super) posse: Posse,
    pub(super) handle: RunHandle,
}

/// The runs that this process executes, by their ids.
type ExecutedRuns = Arc<Mutex<BTreeMap<RunId, Arc<ExecutedRun>>>>;

/// Executes runs.
pub(super) struct RunHost {
    executed: ExecutedRuns,
    slots: Arc<Semaphore>,
    /// Whether all runs are being stopped.
    stops: Arc<AtomicBool>,
}

/// The right to execute one more run.
pub(super) struct RunSlot(OwnedSemaphorePermit);

/// What became of a run that was to be resumed.
pub(super) enum ResumeOutcome {
    /// This process executes it.
    Executed,
    /// Another process does.
    Held(Holder),
    /// It had ended.
    Ended,
}

impl RunHost {
    /// The slots of all runs of a process.
    pub(super) fn slots() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(RUNS_MAX))
    }

    pub(super) fn new(slots: Arc<Semaphore>) -> Self {
        Self { executed: ExecutedRuns::default(), slots, stops: Arc::default() }
    }

    /// The slots that all tenants share.
    pub(super) fn shared_slots(&self) -> Arc<Semaphore> {
        Arc::clone(&self.slots)
    }

    /// A run that this process executes.
    pub(super) fn executed(&self, run: &RunId) -> Option<Arc<ExecutedRun>> {
        lock(&self.executed).get(run).cloned()
    }

    /// The right to execute one more run.
    pub(super) fn slot(&self) -> Result<RunSlot, Problem> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let detail =
                format!("this server executes {RUNS_MAX} runs, which is the most; nothing was started");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, detail)
        })?;
        Ok(RunSlot(slot))
    }

    /// Starts the run of a draft. The clients of the server answer its questions.
    pub(super) async fn start(
        &self,
        slot: RunSlot,
        draft: RunDraft,
        setup: &Arc<Setup>,
        notes: &mut Notes,
    ) -> Result<RunId, Problem> {
        let setup = Arc::clone(setup);
        let of_directory = Arc::clone(&setup);
        // Settings, definitions and skills are read from files.
        let (draft, directory) = blocking(move || {
            let directory = RunDirectory::load(&draft, &of_directory);
            (draft, directory)
        })
        .await?;
        let directory = notes.take(directory)?;
        let run = notes.take(draft.prepare(&directory, &setup).await)?;
        let local = run.local;
        let posse = blocking(move || directory.open(&local, &setup)).await??;
        let handle = posse.start_request(run.request, true).await?;
        let run = handle.id().clone();
        self.execute(slot, ExecutedRun { posse, handle });
        Ok(run)
    }

    /// Starts a replay. The clients of the server answer its questions.
    pub(super) async fn replay(
        &self,
        slot: RunSlot,
        draft: ReplayDraft,
        setup: &Arc<Setup>,
        notes: &mut Notes,
    ) -> Result<RunId, Problem> {
        let replay = notes.take(draft.prepare(setup).await)?;
        let setup = Arc::clone(setup);
        let (replay, posse) = blocking(move || {
            let posse = replay.open(&setup);
            (replay, posse)
        })
        .await?;
        let posse = posse?;
        let handle = posse.replay(&replay.recorded, replay.run.request, true).await?;
        let run = handle.id().clone();
        self.execute(slot, ExecutedRun { posse, handle });
        Ok(run)
    }

    /// Takes over a run that no process executes.
    pub(super) async fn resume(
        &self,
        slot: RunSlot,
        run: &RunSummary,
        reader: &Posse,
        setup: &Arc<Setup>,
        notes: &mut Notes,
    ) -> Result<ResumeOutcome, Problem> {
        let execution = notes.take(RunExecution::of_stored(run, reader, setup).await)?;
        let setup = Arc::clone(setup);
        let posse = blocking(move || execution.open(&setup)).await??;
        self.resume_with(slot, posse, &run.run).await
    }

    /// Takes over a run with a facade that is open already.
    pub(super) async fn resume_with(
        &self,
        slot: RunSlot,
        posse: Posse,
        run: &RunId,
    ) -> Result<ResumeOutcome, Problem> {
        Ok(match posse.resume_attended(run).await? {
            Resume::Going(handle) => {
                self.execute(slot, ExecutedRun { posse, handle });
                ResumeOutcome::Executed
            }
            Resume::Held(holder) => ResumeOutcome::Held(holder),
            Resume::Ended => ResumeOutcome::Ended,
        })
    }

    /// Keeps a run until this process no longer executes it.
    fn execute(&self, slot: RunSlot, run: ExecutedRun) {
        let run = Arc::new(run);
        let id = run.handle.id().clone();
        lock(&self.executed).insert(id.clone(), Arc::clone(&run));
        let (executed, stops) = (Arc::clone(&self.executed), Arc::clone(&self.stops));
        tokio::spawn(async move {
            let ended = run.handle.ended().await;
            if let Err(error) = ended
                && !stops.load(Ordering::Relaxed)
            {
                tracing::warn!(run = %id, %error, "a run stopped before its end");
            }
            let mut executed = lock(&executed);
            // The run may have been resumed here meanwhile.
            if executed.get(&id).is_some_and(|known| Arc::ptr_eq(known, &run)) {
                executed.remove(&id);
            }
            drop(executed);
            drop(slot.0);
        });
    }

    /// Stops all runs at once, and returns those that can be resumed.
    pub(super) async fn stop(&self) -> Vec<RunId> {
        self.stops.store(true, Ordering::Relaxed);
        let all: Vec<Arc<ExecutedRun>> = lock(&self.executed).values().cloned().collect();
        for run in &all {
            run.posse.stop();
        }
        let mut open = Vec::new();
        let until = tokio::time::Instant::now() + STOP_PATIENCE;
        for run in &all {
            let ended = tokio::time::timeout_at(until, run.handle.ended()).await;
            if !matches!(ended, Ok(Ok(()))) {
                open.push(run.handle.id().clone());
            }
        }
        open
    }
}

/// A panic while the lock was held leaves the map whole.
fn lock(executed: &ExecutedRuns) -> MutexGuard<'_, BTreeMap<RunId, Arc<ExecutedRun>>> {
    executed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads or opens files on a thread that may wait for them.
pub(super) async fn blocking<T: Send + 'static>(
    reading: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(reading).await.map_err(|error| Problem::failed(error.to_string()))
}

/// The problem with a run that is not open to be executed here.
pub(super) fn held(run: &RunId, holder: &Holder) -> Problem {
    Problem::conflict(ProblemCode::ExecutedElsewhere, format!("run {run} is already running ({holder})"))
}

/// Why an interrupted run was not taken over, in one line.
pub(super) fn why(problem: &Problem) -> String {
    match &problem.remedy {
        Some(remedy) => format!("{}; {remedy}", problem.detail),
        None => problem.detail.clone(),
    }
}
