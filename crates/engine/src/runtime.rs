//! Starts and resumes runs. A runtime is what one process embeds; it may carry many runs at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::budget::{Budget, turn_limit};
use posse_domain::contract::{
    CONTRACT_VERSION, Contract, DEFAULT_IDLE_TIMEOUT_MS, DEFAULT_MAX_RETRIES_PER_TOOL,
    DEFAULT_REPORT_PATH_PATTERN, ExecutionContext, ExecutionTerms, OutputTerms, ParentTerms, ReportFormat,
    StepTerms,
};
use posse_domain::definition::Definition;
use posse_domain::event::{
    BaseSnapshot, Event, EventBody, GivenBaseUrl, RunStarted, RunTerms, UnownedWriters,
};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{Outcome, Run, SkillRights, TASK_PROMPT_MAX_BYTES};
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::{Approvals, Grant, OnAsk, ProjectRules, Rules, ToolSet};
use posse_domain::plan::Plan;
use posse_domain::skill::Catalogue;
use posse_domain::text::first_line;
use thiserror::Error;
use tokio::sync::{broadcast, watch};

use crate::deltas::{Delta, DeltaHub};
use crate::driver::{Driver, OpenEvents, Progress, Replay, Seed, Stop};
use crate::history::{HistoryError, fill, first_event, read_events};
use crate::ports::{
    Claim, Faults, Head, Holder, Hooks, Models, RunKey, Store, StoreError, System, TenantId, Tool, Workspaces,
};
use crate::projection::Projection;

/// Largest request of a user.
pub const REQUEST_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Characters of the request that stand for the goal.
const GOAL_MAX_CHARS: usize = 200;
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

/// A run to start.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct RunSpec {
    /// What the user asks for.
    pub request: String,
    /// The root's definition.
    pub definition: String,
    /// The root's model, `provider/model`.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session, opaque.
    pub session_id: Option<String>,
    /// What the root is told to do, where that is not the request as it was typed.
    pub prompt: Option<String>,
    /// The forked skill that is all the root does: no model is asked there. One of the catalogue.
    pub skill: Option<String>,
    /// The definitions the run can use: built in, or given to this run.
    pub definitions: Vec<Definition>,
    /// The definitions and skills that were found on the machine. None has the name of one of `definitions`.
    pub catalogue: Arc<Catalogue>,
    /// The project's instructions for agents (`AGENTS.md`), part of every system prompt.
    pub agents_md: Option<String>,
    /// Whether the root may give its conversation to children.
    pub may_share_history: bool,
    /// Whether who follows a task hears the events of sub-agents below it too.
    pub include_sub_agent_events: bool,
    /// Base of the turn limit by depth.
    pub base_turns: Option<u32>,
    /// Deepest depth an agent may have.
    pub max_depth: u32,
    /// What the whole tree may spend.
    pub budget: Budget,
    /// How long a model or a tool may be silent; none for the usual time.
    pub idle_timeout_ms: Option<u64>,
    /// How many calls may run at once.
    pub parallel: u32,
    /// Whether children close by themselves once integrated; otherwise their parent closes them.
    pub close_on_completion: bool,
    /// Rules of the user's settings.
    pub operator_rules: Rules,
    /// Rules of the project's settings.
    pub project_rules: ProjectRules,
    /// Rules of this run.
    pub run_rules: Rules,
    /// Where a person said that a provider is, for this run.
    pub base_url: Option<GivenBaseUrl>,
    /// What a person allowed in advance.
    pub approvals: Approvals,
    /// The plan that the host carries out; none lets the root decide.
    pub plan: Option<Plan>,
    /// What becomes of writers that own nothing of their own.
    pub unowned_writers: UnownedWriters,
    /// What becomes of an `ask` that nobody attends to.
    pub on_ask: OnAsk,
    /// Whether somebody who can be asked attends to this process. Not part of the run: a resume says it anew.
    pub attended: bool,
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
pub enum Resumed {
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

    /// Starts a run; returns once `run.started` is durable.
    pub async fn start(&self, spec: RunSpec) -> Result<RunHandle, RuntimeError> {
        self.start_new(spec, None).await
    }

    /// Starts a run that repeats a recorded one; `spec` says what the recorded one was told.
    pub async fn start_replay(&self, spec: RunSpec, replay: Replay) -> Result<RunHandle, RuntimeError> {
        self.start_new(spec, Some(replay)).await
    }

    async fn start_new(&self, spec: RunSpec, replay: Option<Replay>) -> Result<RunHandle, RuntimeError> {
        let terms = self.check(&spec, replay.is_some())?;
        for _ in 0..ID_TRIES {
            let id = RunId::from_random(self.0.parts.system.random());
            match self.start_as(&id, &spec, &terms, replay.clone()).await {
                Err(RuntimeError::Store(StoreError::Exists(_))) => {}
                other => return other,
            }
        }
        Err(StoreError::Failed("no free run id was found".to_owned()).into())
    }

    async fn start_as(
        &self,
        id: &RunId,
        spec: &RunSpec,
        terms: &RootTerms,
        replay: Option<Replay>,
    ) -> Result<RunHandle, RuntimeError> {
        let base = self.snapshot(id, spec, terms).await?;
        let now_ms = self.0.parts.system.now_ms();
        let event =
            Event { agent: id.root(), at_ms: now_ms, body: Box::new(started(id, spec, terms, base)).into() };
        let run = Run::begin(&event)
            .map_err(|illegal| RuntimeError::Invalid { field: "definitions", problem: illegal.problem })?;
        let (handle, seed) = self.seed(run, spec.attended, (None, 0), replay);
        let driver = Driver::new(self.0.clone(), seed);
        tokio::spawn(driver.start(event, spec.plan.clone()));
        let mut progress = handle.progress.clone();
        let begun = progress.wait_for(|progress| progress.durable || progress.ended.is_some()).await;
        let failed = begun.map_or(true, |progress| !progress.durable);
        if failed {
            handle.ended().await?;
        }
        Ok(handle)
    }

    /// The files a run starts from. A run in which nobody can change a file needs none: what its root may not do, no
    /// child may.
    async fn snapshot(
        &self,
        id: &RunId,
        spec: &RunSpec,
        terms: &RootTerms,
    ) -> Result<Option<BaseSnapshot>, RuntimeError> {
        let changes = |tool: &str| self.0.tools.get(tool).is_some_and(|tool| tool.class.changes_workspace());
        let Some(workspaces) = &self.0.parts.workspaces else { return Ok(None) };
        if !terms.tools.iter().any(|tool| changes(tool.as_str())) {
            return Ok(None);
        }
        let base = workspaces.begin(id, &spec.dir).await;
        self.0.parts.faults.hit("engine.run.after_snapshot");
        base.map(Some).map_err(|problem| RuntimeError::Invalid { field: "dir", problem })
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
    pub async fn resume(&self, run: &RunId) -> Result<Resumed, RuntimeError> {
        self.resume_as(run, false, None).await
    }

    /// The same with somebody attending who can be asked.
    pub async fn resume_attended(&self, run: &RunId) -> Result<Resumed, RuntimeError> {
        self.resume_as(run, true, None).await
    }

    /// Goes on with a run that repeats a recorded one.
    pub async fn resume_replay(
        &self,
        run: &RunId,
        attended: bool,
        replay: Replay,
    ) -> Result<Resumed, RuntimeError> {
        self.resume_as(run, attended, Some(replay)).await
    }

    async fn resume_as(
        &self,
        run: &RunId,
        attended: bool,
        replay: Option<Replay>,
    ) -> Result<Resumed, RuntimeError> {
        let key = self.key(run);
        let store = self.0.parts.store.clone();
        let entry = store.runs(&key.tenant, run.as_str(), 1).await?.into_iter().next();
        if let Some(holder) = entry.and_then(|entry| entry.holder) {
            return Ok(Resumed::Held(holder));
        }
        // Read before anything is written: a damaged journal is left as it is, and a run that has ended needs no
        // owner.
        let folded = self.fold(&key).await?;
        if let Some(outcome) = folded.run.outcome.clone() {
            let Folded { run, head, .. } = folded;
            return Ok(Resumed::Ended(Box::new(RunEnded { run, outcome, head })));
        }
        let epoch = match store.claim(&key).await? {
            Claim::Granted(epoch) => epoch,
            Claim::Held(holder) => return Ok(Resumed::Held(holder)),
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

    /// The same state if nobody wrote since it was folded, else folded again; nobody else writes any more.
    async fn up_to_date(&self, key: &RunKey, mut folded: Folded) -> Result<Folded, RuntimeError> {
        let head = self.0.parts.store.head(key).await?;
        if folded.head != head {
            folded = self.fold(key).await?;
        }
        if folded.head != head {
            let (run, seq) = (key.run.clone(), folded.head.seq + 1);
            let problem = format!("the events end at {}, the journal at {}", folded.head.seq, head.seq);
            return Err(RuntimeError::Damaged { run, seq, problem });
        }
        Ok(folded)
    }

    async fn go_on(
        &self,
        key: &RunKey,
        epoch: u64,
        (attended, replay): (bool, Option<Replay>),
        folded: Folded,
    ) -> Result<Resumed, RuntimeError> {
        let Folded { mut run, events, last_at_ms, head } = folded;
        // The fold leaves long texts where they are; the request is shown again in the run's row.
        if let Some(EventBody::RunStarted(started)) =
            events.get(&run.id.root()).and_then(|own| own.first()).map(|event| &event.body)
        {
            run.request = started.request.clone();
        }
        if let Some(outcome) = run.outcome.clone() {
            self.0.parts.store.release(key, epoch).await?;
            return Ok(Resumed::Ended(Box::new(RunEnded { run, outcome, head })));
        }
        let (handle, seed) = self.seed(run, attended, (Some(epoch), head.seq), replay);
        let driver = Driver::new(self.0.clone(), seed);
        tokio::spawn(driver.resume(events, last_at_ms));
        Ok(Resumed::Going(handle))
    }

    /// Folds a run's journal, checking its chain on the way.
    async fn fold(&self, key: &RunKey) -> Result<Folded, RuntimeError> {
        let store = &*self.0.parts.store;
        let damaged = |seq, problem: String| RuntimeError::Damaged { run: key.run.clone(), seq, problem };
        let mut head = Head { seq: 0, hash: Hash::ZERO };
        let mut run: Option<Run> = None;
        let mut kept: Vec<Event> = Vec::new();
        let mut last_at_ms = 0;
        let mut problem = None;
        let first = first_event(store, key).await?;
        let read = read_events(store, key, 0, |stored| {
            let seq = stored.seq;
            let bad = |text: String| HistoryError::Missing(text);
            if seq != head.seq + 1
                || stored.expected_hash(&head.hash, key.tenant.as_str(), &key.run) != stored.hash
            {
                problem = Some((seq, "the hash chain is broken".to_owned()));
                return Err(bad("chain".to_owned()));
            }
            head = Head { seq, hash: stored.hash };
            last_at_ms = stored.at_ms;
            let event = Event::decode(&stored).map_err(|error| HistoryError::Event { seq, error })?;
            let applied = match &mut run {
                Some(run) => run.apply(&event),
                // The beginning has texts that the run cannot do without.
                None => Run::begin(first.as_ref().unwrap_or(&event)).map(|begun| run = Some(begun)),
            };
            if let Err(illegal) = applied {
                problem = Some((seq, illegal.to_string()));
                return Err(bad("illegal".to_owned()));
            }
            kept.push(event);
            Ok(())
        })
        .await;
        match (read, problem) {
            (_, Some((seq, problem))) => return Err(damaged(seq, problem)),
            (Err(HistoryError::Store(error)), None) => return Err(error.into()),
            (Err(HistoryError::Event { seq, error }), None) => return Err(damaged(seq, error.to_string())),
            (Err(HistoryError::Missing(text)), None) => return Err(damaged(head.seq, text)),
            (Ok(()), None) => {}
        }
        let run = run.ok_or_else(|| StoreError::UnknownRun(key.run.clone()))?;
        let events = open_events(store, key, &run, kept).await?;
        Ok(Folded { run, events, last_at_ms, head })
    }

    /// Stops all runs of this runtime at once; they stay resumable.
    pub fn stop(&self) {
        self.0.stopping.send_replace(StopKind::Now);
    }

    /// The state of a run, folded from its journal.
    pub async fn load(&self, run: &RunId) -> Result<Run, RuntimeError> {
        self.fold(&self.key(run)).await.map(|folded| folded.run)
    }

    /// Finds what is wrong with a run before anything is written.
    fn check(&self, spec: &RunSpec, is_replay: bool) -> Result<RootTerms, RuntimeError> {
        let invalid = |field, problem: String| Err(RuntimeError::Invalid { field, problem });
        if spec.request.trim().is_empty() {
            return invalid("request", "is empty".to_owned());
        }
        if spec.request.len() > REQUEST_MAX_BYTES {
            return invalid("request", format!("has more than {REQUEST_MAX_BYTES} bytes"));
        }
        if spec.prompt.as_ref().is_some_and(|prompt| prompt.len() > REQUEST_MAX_BYTES) {
            return invalid("prompt", format!("has more than {REQUEST_MAX_BYTES} bytes"));
        }
        let known = || spec.definitions.iter().chain(&spec.catalogue.definitions);
        let Some(definition) = known().find(|d| d.name.eq_ignore_ascii_case(&spec.definition)) else {
            let known: Vec<&str> = known().map(|d| d.name.as_str()).collect();
            return invalid(
                "agent",
                format!("there is no agent `{}`; known are {}", spec.definition, known.join(", ")),
            );
        };
        if !self.0.parts.system.has_dir(&spec.dir) {
            return invalid("dir", format!("{} is not a directory", spec.dir));
        }
        if spec.base_turns == Some(0) {
            return invalid("max-turns", "must be at least 1: the last turn is the report".to_owned());
        }
        if spec.parallel == 0 {
            return invalid("parallel", "must be at least 1".to_owned());
        }
        if spec.budget.agents == Some(0) {
            return invalid("max-agents", "must be at least 1: the root is one".to_owned());
        }
        if !is_replay {
            let model = match self.0.parts.models.resolve(&spec.model) {
                Ok(model) => model,
                Err(problem) => return invalid("model", problem),
            };
            if spec.budget.usd.is_some() && model.facts().price.is_none() {
                return invalid("max-usd", format!("the price of `{}` is unknown", spec.model));
            }
        }
        let kind_tools = posse_domain::lifecycle::tools_of(definition);
        let Ok(tools) = ToolSet::parse(kind_tools.iter().map(String::as_str)) else {
            return invalid("agent", format!("`{}` lists a tool whose name is none", definition.name));
        };
        let tools = SkillRights::new(definition, None).tools(&tools, &spec.catalogue.skills.iter());
        check_skill(spec)?;
        Ok(RootTerms { definition: definition.clone(), tools })
    }
}

/// A run that is one skill needs one that is there, and is nothing else.
fn check_skill(spec: &RunSpec) -> Result<(), RuntimeError> {
    let Some(name) = &spec.skill else { return Ok(()) };
    let invalid = |problem| Err(RuntimeError::Invalid { field: "skill", problem });
    if spec.plan.is_some() {
        return invalid("a run carries out a plan or a skill, not both".to_owned());
    }
    let names = || spec.catalogue.skills.iter().map(|skill| skill.name.as_str());
    if names().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    invalid(format!("there is no skill `{name}`{}", hint(nearest(name, names()))))
}

/// What the root's contract takes from its definition.
struct RootTerms {
    definition: Definition,
    tools: ToolSet,
}

/// A run as its journal tells it.
struct Folded {
    run: Run,
    events: OpenEvents,
    last_at_ms: i64,
    head: Head,
}

/// The events of agents that are still open, with their long texts.
async fn open_events(
    store: &dyn Store,
    key: &RunKey,
    run: &Run,
    kept: Vec<Event>,
) -> Result<OpenEvents, StoreError> {
    let mut open = OpenEvents::new();
    if run.outcome.is_some() {
        return Ok(open);
    }
    for mut event in kept {
        if run.open(&event.agent).is_some() {
            fill(store, key, &mut event).await?;
            open.entry(event.agent.clone()).or_default().push(event);
        }
    }
    Ok(open)
}

fn started(id: &RunId, spec: &RunSpec, terms: &RootTerms, base: Option<BaseSnapshot>) -> RunStarted {
    let definition = &terms.definition;
    let rights = SkillRights::new(definition, None);
    let spawns = spec.skill.is_some() || rights.can_spawn(&terms.tools, spec.catalogue.skills.iter());
    let clipped = &spec.request[..spec.request.floor_char_boundary(TASK_PROMPT_MAX_BYTES)];
    let contract = Contract {
        version: CONTRACT_VERSION,
        context: ExecutionContext::root(spec.max_depth),
        parent: ParentTerms {
            run_id: id.clone(),
            agent_id: id.root(),
            message_id: None,
            step_idx: 0,
            task_prompt: clipped.into(),
            goal_summary: first_line(
                spec.plan.as_ref().map_or(spec.request.as_str(), |plan| plan.goal.as_str()),
                GOAL_MAX_CHARS,
            )
            .into(),
            continues: None,
            repairs: None,
        },
        step: StepTerms {
            title: first_line(&spec.request, GOAL_MAX_CHARS),
            description: spec.prompt.as_ref().unwrap_or(&spec.request).clone(),
            success_criteria: Vec::new(),
            owns: Vec::new(),
            required: true,
        },
        permissions: Grant {
            allowed_tools: terms.tools.clone(),
            rules: Rules::default(),
            can_spawn_children: spawns,
            max_delegation_depth: spec.max_depth,
            may_share_history: spec.may_share_history,
            on_ask: spec.on_ask,
        },
        execution: ExecutionTerms {
            definition: definition.name.clone(),
            skill: None,
            model: spec.model.clone(),
            temperature: definition.temperature,
            top_p: definition.top_p,
            max_turns: turn_limit(0, spec.base_turns, definition.max_turns, None),
            turn_timeout_ms: None,
            // The root has one attempt, and no attempt timeout unless one is set.
            attempt_timeout_ms: None,
            idle_timeout_ms: spec.idle_timeout_ms.unwrap_or(DEFAULT_IDLE_TIMEOUT_MS),
            max_retries: 0,
            max_retries_per_tool: DEFAULT_MAX_RETRIES_PER_TOOL,
            close_on_completion: true,
            share_history: false,
            extra_context: None,
        },
        budget: spec.budget,
        outputs: OutputTerms {
            report_format: ReportFormat::Markdown,
            report_path_pattern: DEFAULT_REPORT_PATH_PATTERN.to_owned(),
            result_schema: None,
        },
    };
    RunStarted {
        request: spec.request.as_str().into(),
        contract_hash: contract.hash(),
        contract,
        dir: spec.dir.clone(),
        session_id: spec.session_id.clone(),
        terms: RunTerms {
            base_turns: spec.base_turns,
            parallel: spec.parallel,
            close_on_completion: spec.close_on_completion,
            operator_rules: spec.operator_rules.clone(),
            run_rules: spec.run_rules.clone(),
            approvals: spec.approvals.clone(),
            unowned_writers: spec.plan.as_ref().map_or(spec.unowned_writers, |plan| plan.unowned_writers),
            base_url: spec.base_url.clone(),
            project_rules: spec.project_rules.clone(),
            skill: spec.skill.clone(),
            include_sub_agent_events: spec.include_sub_agent_events,
        },
        definitions: spec.definitions.clone(),
        catalogue: (!spec.catalogue.is_empty()).then(|| spec.catalogue.clone().into()),
        agents_md: spec.agents_md.as_deref().map(Into::into),
        base,
    }
}
