//! Posse for embedders: start runs of sub-agents under contract, watch them, cancel them.
//!
//! A [`Posse`] is opened on a state directory (or on memory, for tests). It starts runs, each of which is a tree
//! of agents; everything that happens is in a durable journal that any process can read while it grows.
//!
//! ```
//! use posse::{NewRun, Posse, RunStatus};
//!
//! # async fn example() -> Result<(), posse::Error> {
//! // A model that needs nothing: its replies are in the script.
//! let script = posse::scripted::ScriptedModel::from_yaml(r#"
//! - when: {definition: coder, turn: 1}
//!   reply:
//!     text: "I will ask."
//!     tool_calls:
//!       - {name: task, input: {subagent_type: explore, description: "find it", prompt: "Where is main?"}}
//! - when: {definition: explore}
//!   reply: {text: "In src/main.rs."}
//! - when: {definition: coder}
//!   reply: {text: "It is in src/main.rs."}
//! "#, "demo.yaml").map_err(|error| posse::Error::invalid("model", error.to_string()))?;
//!
//! let posse = Posse::builder().model("scripted/demo", script).in_memory().open()?;
//! let run = posse.start(NewRun::new("Where is main?").model("scripted/demo").dir(".")).await?;
//! let finished = posse.wait(run.id()).await?;
//! assert_eq!(finished.status, RunStatus::Completed);
//! assert_eq!(finished.text, "It is in src/main.rs.");
//! assert_eq!(posse.children(&run.id().root()).await?.len(), 1);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

pub mod api;
mod approvals;
mod base;
mod builder;
mod bundle;
mod error;
mod events;
mod explain;
mod export;
mod gc;
mod info;
mod names;
mod new_run;
mod replay;
mod reports;
mod requests;
mod secrets;
mod system;
pub mod view;
mod work;
mod workspaces;

use std::collections::HashMap;
use std::sync::Arc;

pub use approvals::{ApprovalStore, StoredApproval};
pub use builder::PosseBuilder;
pub use bundle::{BUNDLE_EXTENSION, BundleError};
pub use error::Error;
pub use events::{Events, JournalEvent, TaskEvents};
pub use export::{ExportOptions, ExportSummary, LARGE_FILE_BYTES};
pub use gc::{GcRequest, GcSummary};
pub use info::{AgentInfo, DepthInfo, RunInfo, RunOutcome, RunSummary, SpendingTotal, TotalsByName};
pub use new_run::NewRun;
pub use posse_agent::definition::{Definitions, builtin, parse_agents};
pub use posse_domain::budget::{Budget, Figures, Usage, effective_max_depth};
pub use posse_domain::definition::Definition;
pub use posse_domain::event::{EventBody, FinalStatus, OrderChecker, RunResult};
pub use posse_domain::id::{AgentId, RunId};
pub use posse_domain::lifecycle::{AgentState, CloseReason, FailKind, FailureReason, RunStatus};
pub use posse_domain::permission::{
    Answer, Approvals, Decision, Explanation, OnAsk, Operation, Pattern, ProjectRules, Rule, Rules,
};
pub use posse_domain::request::{
    DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, DEFAULT_ROOT, GivenBaseUrl, RunRequest, RunTerms,
};
pub use posse_domain::skill::{DiscoveredDefinitions, Skill};
pub use posse_engine::ports;
pub use posse_engine::ports::{ModelSpending, RunSpending};
pub use posse_engine::{
    Delta, DeltaCall, DeltaPart, REQUEST_MAX_BYTES, RunHandle, TaskEvent, TaskState, VerifiedJournal,
    VerifyError,
};
pub use posse_files::discovery;
pub use posse_models::{
    BaseUrl, Endpoint, Format, Http, Key, KeyNeed, Limits, ModelRegistry, PriceTag, Prices, Provider,
    ProviderError, ProviderWords, Providers, Proxy, TextModels, ToolCalls, ollama_models, prices_taken,
    scripted,
};
pub use posse_sandbox as sandbox;
pub use posse_sandbox::init;
pub use posse_tools::{Search, hooks};
pub use posse_workspace as workspace;
pub use posse_workspace::{
    ApplyError, ApplySummary, DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, DEFAULT_MAX_RUN_BYTES, DiffForm,
    DiffOptions, GIT_PATH, WorkspaceError, WorkspaceOptions,
};
pub use replay::{RecordedRun, replayed};
pub use requests::Request;
pub use secrets::{names_a_secret, url_passwords};
pub use view::{ProviderWait, RunView};
pub use work::{AppliedRun, ApplyWhich, RestoredWork, SalvagedWork};
pub use workspaces::WorkspaceSettings;

use posse_domain::event::Event;
use posse_engine::ports::{Holder, MailCommand, RunEntry, RunKey, Store, TenantId, Tool};
use posse_engine::{HistoryError, ResumeOutcome, Runtime};

/// What came of a resume.
pub enum Resume {
    /// The run goes on in this process.
    Going(RunHandle),
    /// Somebody alive owns it.
    Held(Holder),
    /// It had ended already.
    Ended,
}

impl From<ResumeOutcome> for Resume {
    fn from(resumed: ResumeOutcome) -> Self {
        match resumed {
            ResumeOutcome::Going(handle) => Resume::Going(handle),
            ResumeOutcome::Held(holder) => Resume::Held(holder),
            ResumeOutcome::Ended(_) => Resume::Ended,
        }
    }
}

/// Runs of sub-agents on one state directory.
#[derive(Clone)]
pub struct Posse {
    runtime: Runtime,
    store: Arc<dyn Store>,
    tenant: TenantId,
    tools: Arc<[Tool]>,
    /// The workspaces beneath the state directory, if there is one.
    files: Option<posse_workspace::Workspaces>,
    /// Where the files of replays are laid out.
    replays: Option<replay::ReplayHome>,
    hook_failures: Option<hooks::HookFailures>,
    /// Where answers of "always" are stored.
    approvals: Option<Arc<dyn ApprovalStore>>,
}

impl Posse {
    /// Starts to describe a `Posse`.
    pub fn builder() -> PosseBuilder {
        PosseBuilder::default()
    }

    fn new(
        runtime: Runtime,
        tenant: TenantId,
        tools: Arc<[Tool]>,
        files: Option<posse_workspace::Workspaces>,
        replays: Option<replay::ReplayHome>,
    ) -> Self {
        let store = runtime.store().clone();
        Self { store, runtime, tenant, tools, files, replays, hook_failures: None, approvals: None }
    }

    /// What of the [command hooks](PosseBuilder::command_hooks) fails while runs are carried; none without such hooks.
    pub fn hook_failures(&self) -> Option<hooks::HookFailures> {
        self.hook_failures.clone()
    }

    /// Starts a run; returns once its beginning is durable. With a model `replay/<run>` or `replay/<bundle>` a recorded
    /// run is run again, see [`Posse::replay`]; the request may be empty.
    pub async fn start(&self, run: NewRun) -> Result<RunHandle, Error> {
        let known: Vec<&str> = self.tools.iter().map(|tool| tool.name).collect();
        let attended = run.attended;
        self.start_request(run.into_request(&known)?, attended).await
    }

    /// Starts a run whose request is complete: [`NewRun::into_request`] gives one, in this process or in another. Whether
    /// a person attends to this process is no part of it; see [`NewRun::attended`].
    pub async fn start_request(&self, request: RunRequest, attended: bool) -> Result<RunHandle, Error> {
        if let Some(name) = replayed(&request.model) {
            let recorded = self.recorded(name).await?;
            return self.replay(&recorded, request, attended).await;
        }
        let started = if attended {
            self.runtime.start_attended(request).await
        } else {
            self.runtime.start(request).await
        };
        Ok(started?)
    }

    /// Goes on with a run that nobody alive owns.
    pub async fn resume(&self, run: &RunId) -> Result<Resume, Error> {
        self.resume_as(run, false).await
    }

    /// The same with somebody attending who answers the root's questions; see [`NewRun::attended`].
    pub async fn resume_attended(&self, run: &RunId) -> Result<Resume, Error> {
        self.resume_as(run, true).await
    }

    async fn resume_as(&self, run: &RunId, attended: bool) -> Result<Resume, Error> {
        let resumed = match (self.replay_of(run).await?, attended) {
            (Some(recorded), attended) => {
                self.runtime.resume_replay(run, attended, recorded.replay(attended)).await?
            }
            (None, true) => self.runtime.resume_attended(run).await?,
            (None, false) => self.runtime.resume(run).await?,
        };
        Ok(resumed.into())
    }

    /// The newest runs whose id starts with `prefix`, newest first.
    pub async fn runs(&self, prefix: &str, limit: u32) -> Result<Vec<RunSummary>, Error> {
        let runs = self.store.runs(&self.tenant, prefix, limit).await?;
        Ok(runs.into_iter().map(RunSummary::from).collect())
    }

    /// The one run whose id starts with `prefix`.
    pub async fn find(&self, prefix: &str) -> Result<RunId, Error> {
        let mut runs = self.store.runs(&self.tenant, prefix, 3).await?;
        match runs.len() {
            0 => Err(self.no_run(prefix).await?),
            1 => Ok(runs.remove(0).run),
            _ => Err(Error::Ambiguous {
                prefix: prefix.to_owned(),
                examples: runs.iter().map(|entry| entry.run.to_string()).collect(),
            }),
        }
    }

    /// Why there is no run with this beginning: there never was one, or it was removed.
    async fn no_run(&self, prefix: &str) -> Result<Error, Error> {
        let mut removed = self.store.removed(&self.tenant, prefix, 2).await?;
        Ok(match (removed.len(), removed.pop()) {
            (1, Some(removed)) => Error::Removed { run: removed.run, head: removed.head.hash },
            _ => Error::NoRun(prefix.to_owned()),
        })
    }

    /// A run whose head is where its journal ends. On any other nothing can be built: who waited for what its head
    /// says would wait for ever.
    async fn sound(&self, run: &RunId) -> Result<RunEntry, Error> {
        let entry = self.store.runs(&self.tenant, run.as_str(), 1).await?.into_iter().next();
        let entry = entry.ok_or_else(|| Error::NoRun(run.to_string()))?;
        match &entry.damage {
            Some(problem) => Err(damaged(run, problem)),
            None if entry.head.seq == 0 => Err(damaged(run, "it has no events")),
            None => Ok(entry),
        }
    }

    /// Refuses a run whose head is damaged: [`Posse::find`] finds it nevertheless, so that it can be verified.
    pub async fn check_head(&self, run: &RunId) -> Result<(), Error> {
        self.sound(run).await.map(drop)
    }

    /// A run with all its agents.
    pub async fn get(&self, run: &RunId) -> Result<RunInfo, Error> {
        let entry = self.sound(run).await?;
        let rows = self.store.agents(&self.key(run)).await?;
        let until_ms = self.last_known_ms(&entry).await?;
        RunInfo::new(entry, rows, until_ms)
    }

    /// Until when the agents of a run that are open have been at it: until now if a process is running it, else until its
    /// last event.
    async fn last_known_ms(&self, entry: &RunEntry) -> Result<i64, Error> {
        if let Some(ended_at_ms) = entry.row.ended_at_ms {
            return Ok(ended_at_ms);
        }
        if entry.holder.is_some() {
            return Ok(system::now_ms());
        }
        let last = self.store.read(&self.key(&entry.run), entry.head.seq.saturating_sub(1), 1).await?;
        Ok(last.first().map_or(entry.row.created_at_ms, |event| event.at_ms))
    }

    /// Whether the root of a run that completed ran out of turns, or a sub-agent that it needed.
    pub async fn is_turn_limited(&self, run: &RunSummary) -> Result<bool, Error> {
        if run.status != RunStatus::Completed {
            return Ok(false);
        }
        let last = self.store.read(&self.key(&run.run), run.events.saturating_sub(1), 1).await?;
        let body = last.first().and_then(|stored| Event::decode(stored).ok()).map(|event| event.body);
        Ok(body.is_some_and(|body| RunOutcome::is_turn_limited_by(&body)))
    }

    /// What the agents of the newest runs spent, newest first: at most `limit` runs. One question to the store, however many
    /// runs there are.
    pub async fn spending(&self, limit: u32) -> Result<Vec<RunSpending>, Error> {
        Ok(self.store.spending(&self.tenant, limit).await?)
    }

    /// The children of an agent, oldest first.
    pub async fn children(&self, agent: &AgentId) -> Result<Vec<AgentInfo>, Error> {
        let info = self.get(&agent.run()).await?;
        Ok(info.agents.into_iter().filter(|child| child.parent.as_ref() == Some(agent)).collect())
    }

    /// Asks an agent and all below it to end; the root ends the run. Durable: it is honoured even if the run's
    /// owner dies, or if nobody owns it until it is resumed.
    pub async fn cancel(&self, agent: &AgentId, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        self.post(agent, MailCommand::Cancel { agent: agent.clone(), reason, kill: false }).await
    }

    /// Sends a message to a running agent; it reads it before its next turn.
    pub async fn send(&self, agent: &AgentId, text: &str) -> Result<(), Error> {
        self.post(agent, MailCommand::Send { agent: agent.clone(), text: text.to_owned() }).await
    }

    async fn post(&self, agent: &AgentId, command: MailCommand) -> Result<(), Error> {
        let run = agent.run();
        let info = self.get(&run).await?;
        if !info.status.is_running() {
            return Err(Error::Ended { run, status: info.status });
        }
        if !info.agents.iter().any(|known| known.id == *agent) {
            return Err(Error::NoAgent(agent.clone()));
        }
        self.store.post(&self.key(&run), command).await?;
        Ok(())
    }

    /// The events of a run after number `after`, and every one that follows, whichever process writes it.
    pub fn events(&self, run: &RunId, after: u64) -> Events {
        Events::new(self.store.clone(), self.key(run), after)
    }

    /// An agent's events as a task's: status, message, error, done.
    pub fn task_events(&self, agent: &AgentId) -> TaskEvents {
        TaskEvents::new(self.events(&agent.run(), 0), agent.clone())
    }

    /// Where a person said that a provider is when they started the run; see [`NewRun::base_url`].
    pub async fn base_url(&self, run: &RunId) -> Result<Option<GivenBaseUrl>, Error> {
        let key = self.key(run);
        let first = self.store.read(&key, 0, 1).await?.into_iter().next();
        let first = first.map(|stored| posse_engine::decode(&key, &stored)).transpose()?;
        Ok(match first.map(|event| event.body) {
            Some(EventBody::RunStarted(started)) => started.request.terms.base_url,
            _ => None,
        })
    }

    /// The skills that a run can use, as they were when it started.
    pub async fn skills(&self, run: &RunId) -> Result<Vec<Skill>, Error> {
        let first = self.events(run, 0).with_found().try_next().await?;
        let first = first.ok_or_else(|| damaged(run, "it has no events"))?;
        let EventBody::RunStarted(started) = first.body else { return Ok(Vec::new()) };
        let Some(text) = started.request.catalogue else { return Ok(Vec::new()) };
        let catalogue = text.read().map_err(|error| {
            HistoryError::Missing(format!("what run {run} found on the machine cannot be read: {error}"))
        })?;
        Ok(Arc::unwrap_or_clone(catalogue).skills)
    }

    /// Waits until a run has ended, whichever process executes it.
    pub async fn wait(&self, run: &RunId) -> Result<RunOutcome, Error> {
        // The summary is enough to know that it has not ended; only the end itself is read from the journal.
        let head = self.sound(run).await?.head.seq;
        let mut events = self.events(run, head.saturating_sub(1));
        let mut seen = head.saturating_sub(1);
        loop {
            let event = match events.try_next().await? {
                Some(event) => event,
                // The head is written with its event: without it the journal was damaged, and no event will come.
                None if seen < head => {
                    return Err(damaged(
                        run,
                        format!("it has no event {head}, where its head says that it ends"),
                    ));
                }
                None if self.get(run).await?.status.is_running() => events.next().await?,
                // The end may have been written just now, in one commit with the row that says so.
                None => events.try_next().await?.ok_or_else(|| {
                    damaged(run, "its last event is not the end of a run, and its row says that it has ended")
                })?,
            };
            seen = event.seq;
            if let Some(finished) = RunOutcome::from_event(run, &event.body) {
                return self.with_count(finished).await;
            }
        }
    }

    async fn with_count(&self, mut finished: RunOutcome) -> Result<RunOutcome, Error> {
        let info = self.get(&finished.run).await?;
        finished.agents = info.agents.len() as u64;
        finished.is_replay = info.is_replay;
        if finished.result.is_some() {
            // Only told: a directory that cannot be looked at does not change how the run ended.
            finished.disk_bytes = self.disk_bytes(&finished.run).await.ok().flatten();
        }
        Ok(finished)
    }

    /// How a run ended, if it has.
    pub async fn finished(&self, run: &RunId) -> Result<Option<RunOutcome>, Error> {
        if self.get(run).await?.status.is_running() {
            return Ok(None);
        }
        self.wait(run).await.map(Some)
    }

    /// Checks a run's journal and the tables beside it.
    pub async fn verify(&self, run: &RunId) -> Result<VerifiedJournal, VerifyError> {
        posse_engine::verify(&*self.store, &self.key(run)).await
    }

    /// Looks for damage that no single run would show.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        Ok(self.store.check().await?.problems)
    }

    /// Why an agent may or may not do something: every layer's say, and the outcome, with all that a person has
    /// allowed in the run so far.
    pub async fn explain(&self, agent: &AgentId, operation: &str) -> Result<Explanation, Error> {
        let info = self.get(&agent.run()).await?;
        let found = info.agents.iter().find(|known| known.id == *agent);
        let found = found.ok_or_else(|| Error::NoAgent(agent.clone()))?;
        let approvals = self.runtime.load(&agent.run()).await?.terms.approvals;
        let asked = explain::ExplainQuery::read(operation, &self.tools)?;
        Ok(asked.explain(&found.authority()?, &found.contract_json, &approvals))
    }

    /// Stops carrying runs at once; they stay resumable.
    pub fn stop(&self) {
        self.runtime.stop();
    }

    /// The names of the tools agents can have.
    pub fn tool_names(&self) -> Vec<&'static str> {
        self.tools.iter().map(|tool| tool.name).collect()
    }

    fn key(&self, run: &RunId) -> RunKey {
        self.runtime.key(run)
    }
}

/// The version of the SQLite that journals are kept with.
pub fn sqlite_version() -> &'static str {
    posse_store::sqlite_version()
}

/// The tools that are always there.
pub fn builtin_tools() -> Vec<Tool> {
    posse_tools::builtin(posse_tools::ToolServices::default())
}

/// Groups agents by parent, for callers that draw trees.
pub fn by_parent(agents: &[AgentInfo]) -> HashMap<Option<&AgentId>, Vec<&AgentInfo>> {
    let mut groups: HashMap<Option<&AgentId>, Vec<&AgentInfo>> = HashMap::new();
    for agent in agents {
        groups.entry(agent.parent.as_ref()).or_default().push(agent);
    }
    groups
}

/// A journal that does not hold what the tables beside it say.
fn damaged(run: &RunId, problem: impl Into<String>) -> Error {
    ports::StoreError::Damaged { run: run.clone(), problem: problem.into() }.into()
}
