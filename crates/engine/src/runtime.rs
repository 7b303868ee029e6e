//! Starts and resumes runs for an embedder. A process has one runtime, which may execute many runs at once.

mod fold;
mod request;
mod request_field;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::budget::Budget;
use posse_domain::event::{BaseSnapshot, CatalogueText, Event, EventBody};
use posse_domain::id::RunId;
use posse_domain::lifecycle::{Outcome, Run};
use posse_domain::request::RunRequest;
use thiserror::Error;
use tokio::sync::{broadcast, watch};

use self::fold::LoadedRun;
use self::request::CheckedRequest;
pub use self::request::REQUEST_MAX_BYTES;
pub use self::request_field::RequestField;
use crate::deltas::{Delta, DeltaHub};
use crate::driver::workspace_retry::retry;
use crate::driver::{Driver, Progress, Replay, Seed, Stop};
use crate::ports::{
    Claim, Faults, FilesProgressReceiver, Head, Holder, Hooks, Models, RunKey, Store, StoreError, System,
    TenantId, Tool, Workspaces,
};
use crate::projection::Projection;

/// How many ids are tried for a new run if an id is already in use.
const ID_TRIES: usize = 8;

/// The ports and tools of a runtime.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub models: Arc<dyn Models>,
    pub tools: Vec<Tool>,
    /// Clock and random numbers.
    pub system: Arc<dyn System>,
    /// Creates isolated workspaces. Without it, all agents work in the run's directory.
    pub workspaces: Option<Arc<dyn Workspaces>>,
    /// The user's programs that are notified of the operations of agents and may deny them.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Fault points, for tests.
    pub faults: Faults,
}

#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// The tenant whose runs this runtime executes.
    pub tenant: TenantId,
    /// How often leases are renewed. Must be well below the store's lease time.
    pub heartbeat: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { tenant: TenantId::local(), heartbeat: Duration::from_secs(3) }
    }
}

/// Whether a runtime must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    Running,
    /// Stop at once. The runs can be resumed.
    Now,
}

/// Why a run did not start, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuntimeError {
    /// A field of the run request is invalid. Nothing was written.
    #[error("{field}: {problem}")]
    Invalid { field: RequestField, problem: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine failed before the run had started, for example because its disk is full. Nothing was written.
    #[error("the run did not start: {problem}")]
    NotStarted { problem: String },
    /// The journal of the run is damaged.
    #[error("the journal of run {run} is damaged at event {seq}: {problem}")]
    Damaged {
        run: RunId,
        /// The number of the first damaged event.
        seq: u64,
        problem: String,
    },
    /// The run needs something that is missing, such as its directory or a model. Nothing was written.
    #[error("run {run} cannot continue: {problem}")]
    Unavailable {
        run: RunId,
        /// The missing requirement.
        problem: String,
    },
    /// The driver decided on an event that its own state refuses, which is a bug. The event was not written.
    #[error("run {run} was stopped because its state is inconsistent ({problem}); it can be resumed")]
    Inconsistent { run: RunId, problem: String },
    /// The runtime was stopped. The run can be resumed.
    #[error("run {run} was stopped before its end")]
    Stopped { run: RunId },
}

/// The result of a request to resume a run.
pub enum ResumeOutcome {
    /// This process now executes the run.
    Going(RunHandle),
    /// Another process holds the lease of the run.
    Held(Holder),
    /// The run had ended already.
    Ended(Box<RunEnded>),
}

/// An ended run, folded from its journal.
#[derive(Debug)]
pub struct RunEnded {
    /// The state after the last event.
    pub run: Run,
    pub outcome: Outcome,
    /// The end of the journal.
    pub head: Head,
}

/// A run that this process executes.
#[derive(Clone)]
pub struct RunHandle {
    key: RunKey,
    progress: watch::Receiver<Progress>,
    deltas: DeltaHub,
}

impl RunHandle {
    pub fn id(&self) -> &RunId {
        &self.key.run
    }

    /// Waits until the run has ended or this process has given it up.
    pub async fn ended(&self) -> Result<(), RuntimeError> {
        let mut progress = self.progress.clone();
        let ended = progress.wait_for(|progress| progress.ended.is_some()).await;
        let ended = ended.map_or(Some(Err(Stop::Requested)), |progress| progress.ended.clone());
        let run = self.key.run.clone();
        match ended {
            Some(Ok(())) => Ok(()),
            Some(Err(Stop::Store(error))) => Err(error.into()),
            Some(Err(Stop::Unavailable(problem))) => Err(RuntimeError::Unavailable { run, problem }),
            Some(Err(Stop::Inconsistent(problem))) => Err(RuntimeError::Inconsistent { run, problem }),
            Some(Err(Stop::Requested)) | None => Err(RuntimeError::Stopped { run }),
        }
    }

    /// Subscribes to the deltas of the run from now on. A slow reader loses some of them.
    pub fn deltas(&self) -> broadcast::Receiver<Arc<[Delta]>> {
        self.deltas.subscribe()
    }
}

pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) options: RuntimeOptions,
    pub(crate) tools: HashMap<&'static str, Tool>,
    pub(crate) stopping: watch::Sender<StopKind>,
}

/// Starts, resumes and executes the runs of one tenant.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

impl Runtime {
    pub fn new(parts: Parts, options: RuntimeOptions) -> Self {
        let tools = parts.tools.iter().map(|tool| (tool.name, tool.clone())).collect();
        Self(Arc::new(Inner { parts, options, tools, stopping: watch::Sender::new(StopKind::Running) }))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.parts.store
    }

    /// Reports of operations on files that take long; `None` if there are none.
    pub fn files_progress(&self) -> Option<FilesProgressReceiver> {
        self.0.parts.workspaces.as_ref()?.progress()
    }

    /// The key of a run of this runtime's tenant.
    pub fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: self.0.options.tenant.clone(), run: run.clone() }
    }

    /// Starts a run and returns when `run.started` is durable. No user can be asked questions through this process.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, RuntimeError> {
        self.start_new(request, false, None).await
    }

    /// Starts a run while a user attends to this process and answers questions. Attendance is not stored with the run:
    /// a later [`Runtime::resume_attended`] states it again.
    pub async fn start_attended(&self, request: RunRequest) -> Result<RunHandle, RuntimeError> {
        self.start_new(request, true, None).await
    }

    /// Starts a run that repeats a recorded run. `request` is the request of the recorded run.
    pub async fn start_replay(
        &self,
        request: RunRequest,
        attended: bool,
        replay: Replay,
    ) -> Result<RunHandle, RuntimeError> {
        self.start_new(request, attended, Some(replay)).await
    }

    async fn start_new(
        &self,
        request: RunRequest,
        attended: bool,
        replay: Option<Replay>,
    ) -> Result<RunHandle, RuntimeError> {
        let checked = self.check(request, replay.is_some())?;
        for _ in 0..ID_TRIES {
            let id = RunId::from_random(self.0.parts.system.random());
            match self.start_as(&id, &checked, attended, replay.clone()).await {
                Err(RuntimeError::Store(StoreError::Exists(_))) => {}
                other => return other,
            }
        }
        Err(StoreError::Failed("no free run id was found".to_owned()).into())
    }

    async fn start_as(
        &self,
        id: &RunId,
        checked: &CheckedRequest,
        attended: bool,
        replay: Option<Replay>,
    ) -> Result<RunHandle, RuntimeError> {
        self.check_limits(id, checked, replay.is_some())?;
        // The catalogue text is created while the host takes the snapshot, because both may take long.
        let catalogue = async { checked.request.catalogue.as_ref().map(CatalogueText::text) };
        let (base, _) = tokio::join!(self.snapshot(id, checked, replay.is_some()), catalogue);
        let now_ms = self.0.parts.system.now_ms();
        let event =
            Event { agent: id.root(), at_ms: now_ms, body: Box::new(checked.started(id, base?)).into() };
        let run = Run::begin(&event).map_err(|illegal| RuntimeError::Invalid {
            field: RequestField::Definitions,
            problem: illegal.problem,
        })?;
        let (handle, seed) = self.seed(run, attended, (None, 0), replay);
        let driver = Driver::new(self.0.clone(), seed);
        tokio::spawn(driver.start(event, checked.request.plan.clone()));
        let mut progress = handle.progress.clone();
        let begun = progress.wait_for(|progress| progress.durable || progress.ended.is_some()).await;
        let failed = begun.map_or(true, |progress| !progress.durable);
        if failed {
            handle.ended().await?;
        }
        Ok(handle)
    }

    /// Checks that the budgets of a run cover its first model call and a report. The needed amounts follow from the
    /// first event, which is created here without the snapshot, because no limit depends on files.
    fn check_limits(
        &self,
        id: &RunId,
        checked: &CheckedRequest,
        is_replay: bool,
    ) -> Result<(), RuntimeError> {
        let Budget { tokens, usd, wall_ms, .. } = checked.request.budget;
        if is_replay || (tokens, usd, wall_ms) == (None, None, None) {
            return Ok(());
        }
        let body = Box::new(checked.started(id, None)).into();
        let event = Event { agent: id.root(), at_ms: self.0.parts.system.now_ms(), body };
        // Any other problem with the event is reported when the run begins.
        let Ok(run) = Run::begin(&event) else { return Ok(()) };
        let (_, seed) = self.seed(run, false, (None, 0), None);
        match Driver::new(self.0.clone(), seed).problem_with_limits() {
            Some((field, problem)) => Err(RuntimeError::Invalid { field, problem }),
            None => Ok(()),
        }
    }

    /// Takes the snapshot that a run starts from. A run whose root has no tool that changes files needs none, because a
    /// child never has more rights than the root.
    async fn snapshot(
        &self,
        id: &RunId,
        checked: &CheckedRequest,
        is_replay: bool,
    ) -> Result<Option<BaseSnapshot>, RuntimeError> {
        let changes = |tool: &str| self.0.tools.get(tool).is_some_and(|tool| tool.class.changes_workspace());
        let Some(workspaces) = &self.0.parts.workspaces else { return Ok(None) };
        // The directory of a replay has the files that the recorded run began with.
        let continued = checked.request.continues.as_ref().filter(|_| !is_replay);
        let continued = continued.and_then(|continued| Some((continued.agent.run(), continued.files?)));
        if continued.is_none() && !checked.tools.iter().any(|tool| changes(tool.as_str())) {
            return Ok(None);
        }
        let (field, base) = match continued {
            Some((earlier, files)) => {
                (RequestField::Continues, retry(|| workspaces.continue_from(id, &earlier, files)).await)
            }
            None => (RequestField::Dir, retry(|| workspaces.begin(id, &checked.request.dir)).await),
        };
        self.0.parts.faults.hit("engine.run.after_snapshot");
        base.map(Some).map_err(|error| {
            let problem = error.to_string();
            if error.is_of_machine() {
                RuntimeError::NotStarted { problem }
            } else {
                RuntimeError::Invalid { field, problem }
            }
        })
    }

    fn seed(
        &self,
        run: Run,
        attended: bool,
        (epoch, head): (Option<u64>, u64),
        replay: Option<Replay>,
    ) -> (RunHandle, Seed) {
        let key = self.key(&run.id);
        let deltas = DeltaHub::new();
        let (sender, progress) = watch::channel(Progress::default());
        let handle = RunHandle { key: key.clone(), progress, deltas: deltas.clone() };
        let projection = Projection::default();
        (handle, Seed { run, attended, key, epoch, head, projection, deltas, progress: sender, replay })
    }

    /// Continues a run without a live lease holder. No user can be asked: an open question of the root is denied,
    /// unless `on_ask` of the run is `escalate`.
    pub async fn resume(&self, run: &RunId) -> Result<ResumeOutcome, RuntimeError> {
        self.resume_as(run, false, None).await
    }

    /// Continues a run while a user attends to this process and answers questions.
    pub async fn resume_attended(&self, run: &RunId) -> Result<ResumeOutcome, RuntimeError> {
        self.resume_as(run, true, None).await
    }

    /// Continues a run that repeats a recorded run.
    pub async fn resume_replay(
        &self,
        run: &RunId,
        attended: bool,
        replay: Replay,
    ) -> Result<ResumeOutcome, RuntimeError> {
        self.resume_as(run, attended, Some(replay)).await
    }

    async fn resume_as(
        &self,
        run: &RunId,
        attended: bool,
        replay: Option<Replay>,
    ) -> Result<ResumeOutcome, RuntimeError> {
        let key = self.key(run);
        let store = self.0.parts.store.clone();
        let entry = store.runs(&key.tenant, run.as_str(), 1).await?.into_iter().next();
        if let Some(holder) = entry.and_then(|entry| entry.holder) {
            return Ok(ResumeOutcome::Held(holder));
        }
        // The journal is read before the lease is claimed. Nothing is written to a damaged journal, and an ended run
        // needs no lease holder.
        let folded = self.fold(&key).await?;
        if let Some(outcome) = folded.run.outcome.clone() {
            let LoadedRun { run, head, .. } = folded;
            return Ok(ResumeOutcome::Ended(Box::new(RunEnded { run, outcome, head })));
        }
        let epoch = match store.claim(&key).await? {
            Claim::Granted(epoch) => epoch,
            Claim::Held(holder) => return Ok(ResumeOutcome::Held(holder)),
        };
        self.0.parts.faults.hit("engine.recover.after_claim");
        match self.up_to_date(&key, folded).await {
            Ok(folded) => self.resume_folded(&key, epoch, (attended, replay), folded).await,
            Err(error) => {
                store.release(&key, epoch).await?;
                Err(error)
            }
        }
    }

    async fn resume_folded(
        &self,
        key: &RunKey,
        epoch: u64,
        (attended, replay): (bool, Option<Replay>),
        folded: LoadedRun,
    ) -> Result<ResumeOutcome, RuntimeError> {
        let LoadedRun { mut run, events, last_at_ms, head } = folded;
        // The fold does not fetch long texts, but the row of the run shows the text of the request.
        if let Some(EventBody::RunStarted(started)) =
            events.get(&run.id.root()).and_then(|own| own.first()).map(|event| &event.body)
        {
            run.request = started.request.text.clone();
        }
        if let Some(outcome) = run.outcome.clone() {
            self.0.parts.store.release(key, epoch).await?;
            return Ok(ResumeOutcome::Ended(Box::new(RunEnded { run, outcome, head })));
        }
        let (handle, seed) = self.seed(run, attended, (Some(epoch), head.seq), replay);
        let driver = Driver::new(self.0.clone(), seed);
        tokio::spawn(driver.resume(events, last_at_ms));
        Ok(ResumeOutcome::Going(handle))
    }

    /// Stops all runs of this runtime at once. They can be resumed.
    pub fn stop(&self) {
        self.0.stopping.send_replace(StopKind::Now);
    }

    /// The state of a run, folded from its journal.
    pub async fn load(&self, run: &RunId) -> Result<Run, RuntimeError> {
        self.fold(&self.key(run)).await.map(|folded| folded.run)
    }
}
