//! Starts and resumes runs. A runtime is what one process embeds; it may carry many runs at once.

mod fold;
mod request;

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
use crate::deltas::{Delta, DeltaHub};
use crate::driver::insisting::insist;
use crate::driver::{Driver, Progress, Replay, Seed, Stop};
use crate::ports::{
    Claim, Faults, Head, Holder, Hooks, Models, RunKey, Store, StoreError, System, TenantId, Tool, Workspaces,
};
use crate::projection::Projection;

/// How often a new id is drawn when one is taken.
const ID_TRIES: usize = 8;

/// What a runtime is made of.
pub struct Parts {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Clock and chance.
    pub system: Arc<dyn System>,
    /// Where agents work; without it, all of them work in the run's directory.
    pub workspaces: Option<Arc<dyn Workspaces>>,
    /// Programs of a person that hear of what agents do, and may object.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Fault points, for tests.
    pub faults: Faults,
}

/// How a runtime behaves.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Whose runs it carries.
    pub tenant: TenantId,
    /// How often leases are renewed; well below the store's lease time.
    pub heartbeat: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { tenant: TenantId::local(), heartbeat: Duration::from_secs(3) }
    }
}

/// How a runtime stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// Not at all.
    Running,
    /// At once; runs stay resumable.
    Now,
}

/// Why a run did not start, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuntimeError {
    /// Something in the run's description is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which part.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The journal could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal does not hold together.
    #[error("the journal of run {run} is damaged at event {seq}: {problem}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The first bad event.
        seq: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Something the run needs is not there; nothing was written.
    #[error("run {run} cannot go on: {problem}")]
    Unavailable {
        /// The run.
        run: RunId,
        /// What is missing.
        problem: String,
    },
    /// Posse contradicted itself; nothing wrong was written.
    #[error("run {run} was stopped because its state is inconsistent ({problem}); it can be resumed")]
    Inconsistent {
        /// The run.
        run: RunId,
        /// What was found.
        problem: String,
    },
    /// The runtime was stopped; the run can be resumed.
    #[error("run {run} was stopped; `posse resume {run}` goes on with it")]
    Stopped {
        /// The run.
        run: RunId,
    },
}

/// What came of a resume.
pub enum ResumeOutcome {
    /// The run goes on here.
    Going(RunHandle),
    /// Somebody alive owns it.
    Held(Holder),
    /// It had ended already.
    Ended(Box<RunEnded>),
}

/// A run that has ended, as its journal tells it.
#[derive(Debug)]
pub struct RunEnded {
    /// The final state.
    pub run: Run,
    /// How it ended.
    pub outcome: Outcome,
    /// The journal's end.
    pub head: Head,
}

/// A run that this process carries.
#[derive(Clone)]
pub struct RunHandle {
    key: RunKey,
    progress: watch::Receiver<Progress>,
    deltas: DeltaHub,
}

impl RunHandle {
    /// The run.
    pub fn id(&self) -> &RunId {
        &self.key.run
    }

    /// Waits until the run has ended, or this process gave it up.
    pub async fn ended(&self) -> Result<(), RuntimeError> {
        let mut progress = self.progress.clone();
        let ended = progress.wait_for(|progress| progress.ended.is_some()).await;
        let ended = ended.map_or(Some(Err(Stop::Asked)), |progress| progress.ended.clone());
        let run = self.key.run.clone();
        match ended {
            Some(Ok(())) => Ok(()),
            Some(Err(Stop::Store(error))) => Err(error.into()),
            Some(Err(Stop::Unavailable(problem))) => Err(RuntimeError::Unavailable { run, problem }),
            Some(Err(Stop::Inconsistent(problem))) => Err(RuntimeError::Inconsistent { run, problem }),
            Some(Err(Stop::Asked)) | None => Err(RuntimeError::Stopped { run }),
        }
    }

    /// Ephemeral progress from now on; a slow reader loses some.
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

/// Carries runs.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

impl Runtime {
    /// A runtime of these parts.
    pub fn new(parts: Parts, options: RuntimeOptions) -> Self {
        let tools = parts.tools.iter().map(|tool| (tool.name, tool.clone())).collect();
        Self(Arc::new(Inner { parts, options, tools, stopping: watch::Sender::new(StopKind::Running) }))
    }

    /// The journal.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.parts.store
    }

    /// The key of a run of this runtime's tenant.
    pub fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: self.0.options.tenant.clone(), run: run.clone() }
    }

    /// Starts a run; returns once `run.started` is durable. No person can be asked.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, RuntimeError> {
        self.start_new(request, false, None).await
    }

    /// The same with a person attending to this process who can be asked. That is no part of the run: see
    /// [`Runtime::resume_attended`].
    pub async fn start_attended(&self, request: RunRequest) -> Result<RunHandle, RuntimeError> {
        self.start_new(request, true, None).await
    }

    /// Starts a run that repeats a recorded one; `request` is the recorded one's.
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
        // The text of the catalogue is made while the host takes the snapshot: both may take a while.
        let catalogue = async { checked.request.catalogue.as_ref().map(CatalogueText::text) };
        let (base, _) = tokio::join!(self.snapshot(id, checked), catalogue);
        let now_ms = self.0.parts.system.now_ms();
        let event =
            Event { agent: id.root(), at_ms: now_ms, body: Box::new(checked.started(id, base?)).into() };
        let run = Run::begin(&event)
            .map_err(|illegal| RuntimeError::Invalid { field: "definitions", problem: illegal.problem })?;
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

    /// A run must have room for its first call and a report. What it needs is known from its first event, which is made
    /// here without the files that it starts from: no limit depends on those.
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
        // Whatever else is wrong with it is found when it begins.
        let Ok(run) = Run::begin(&event) else { return Ok(()) };
        let (_, seed) = self.seed(run, false, (None, 0), None);
        match Driver::new(self.0.clone(), seed).problem_with_limits() {
            Some((field, problem)) => Err(RuntimeError::Invalid { field, problem }),
            None => Ok(()),
        }
    }

    /// The files a run starts from. A run in which nobody can change a file needs none: what its root may not do, no
    /// child may.
    async fn snapshot(
        &self,
        id: &RunId,
        checked: &CheckedRequest,
    ) -> Result<Option<BaseSnapshot>, RuntimeError> {
        let changes = |tool: &str| self.0.tools.get(tool).is_some_and(|tool| tool.class.changes_workspace());
        let Some(workspaces) = &self.0.parts.workspaces else { return Ok(None) };
        if !checked.tools.iter().any(|tool| changes(tool.as_str())) {
            return Ok(None);
        }
        let base = insist(|| workspaces.begin(id, &checked.request.dir)).await;
        self.0.parts.faults.hit("engine.run.after_snapshot");
        base.map(Some).map_err(|problem| RuntimeError::Invalid { field: "dir", problem: problem.text })
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

    /// Goes on with a run that nobody alive owns. Nobody can be asked: a question of the root that is open is
    /// answered with no, unless the run says that an `ask` escalates.
    pub async fn resume(&self, run: &RunId) -> Result<ResumeOutcome, RuntimeError> {
        self.resume_as(run, false, None).await
    }

    /// The same with somebody attending who can be asked.
    pub async fn resume_attended(&self, run: &RunId) -> Result<ResumeOutcome, RuntimeError> {
        self.resume_as(run, true, None).await
    }

    /// Goes on with a run that repeats a recorded one.
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
        // Read before anything is written: a damaged journal is left as it is, and a run that has ended needs no
        // owner.
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
            Ok(folded) => self.go_on(&key, epoch, (attended, replay), folded).await,
            Err(error) => {
                store.release(&key, epoch).await?;
                Err(error)
            }
        }
    }

    async fn go_on(
        &self,
        key: &RunKey,
        epoch: u64,
        (attended, replay): (bool, Option<Replay>),
        folded: LoadedRun,
    ) -> Result<ResumeOutcome, RuntimeError> {
        let LoadedRun { mut run, events, last_at_ms, head } = folded;
        // The fold leaves long texts where they are; the request is shown again in the run's row.
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

    /// Stops all runs of this runtime at once; they stay resumable.
    pub fn stop(&self) {
        self.0.stopping.send_replace(StopKind::Now);
    }

    /// The state of a run, folded from its journal.
    pub async fn load(&self, run: &RunId) -> Result<Run, RuntimeError> {
        self.fold(&self.key(run)).await.map(|folded| folded.run)
    }
}
