//! Posse for embedders: start runs of sub-agents under contract, watch them, cancel them.
//!
//! A [`Posse`] is opened on a state directory (or on memory, for tests). It starts runs, each of which is a tree
//! of agents; everything that happens is in a durable journal that any process can read while it grows.
//!
//! The `main` of a program that executes runs calls [`init`] before anything else, because a sandbox starts the same
//! program again as its init. Otherwise agents can run no commands, unless [`SandboxOptions::init`] names another
//! binary that calls it.
//!
//! [`SandboxOptions::init`]: sandbox::SandboxOptions::init
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
//! "#, "demo.yaml").map_err(|error| posse::Error::invalid(posse::RequestField::Model, error.to_string()))?;
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

#![warn(missing_docs)]

pub mod api;
mod apply;
mod approvals;
pub mod atomic_file;
mod base;
mod builder;
mod bundle;
mod continuation;
mod conversation;
mod error;
mod events;
mod explain;
mod export;
mod folder_entries;
mod gc;
mod new_run;
mod outcome;
mod questions;
pub mod remote;
mod replay;
mod reports;
mod run_folders;
mod secrets;
mod system;
pub mod view;
mod waiting;
pub mod webhook;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use apply::{AppliedAtEnd, AppliedRun, ApplyWhich, CheckedApply, MergeConflict};
pub use approvals::{ApprovalError, ApprovalStore, StoredApproval};
pub use builder::{FilePorts, PosseBuilder};
pub use bundle::{BUNDLE_EXTENSION, BundleError};
pub use continuation::EndedAgent;
pub use conversation::{ConversationEvent, ConversationPart};
pub use error::Error;
pub use events::{Events, JournalEvent, TaskEvents};
pub use explain::{BeyondRules, CommandLimits, ExplainedOperation};
pub use export::{ExportOptions, ExportSummary, LARGE_FILE_BYTES};
pub use folder_entries::{FolderEntry, folder_entries};
pub use gc::GcRequest;
pub use jiff::tz::TimeZone;
pub use new_run::NewRun;
pub use outcome::{ReplayVerdict, RunOutcome};
pub use posse_definitions::{Definitions, builtin, nearest, parse_agents};
pub use posse_domain::budget::{Budget, Figures, Usage, Usd, effective_max_depth};
pub use posse_domain::code::Code;
pub use posse_domain::contract::{Criterion, StepTerms};
pub use posse_domain::definition::{Definition, Mode, Trust};
pub use posse_domain::event::{EventBody, EventKind, FinalStatus, OrderChecker, RunResult};
pub use posse_domain::id::{AGENT_ID_MAX_LEN, AgentId, RUN_ID_LEN, RunId};
pub use posse_domain::lifecycle::{
    AgentState, CloseReason, FailKind, FailureReason, RunStatus, cancelled, with_code,
};
pub use posse_domain::permission::{
    Answer, Approvals, Decision, DecisionReason, Explanation, LayerName, OnAsk, Operation, Pattern,
    ProjectRules, Rule, Rules, ToolName,
};
pub use posse_domain::plan::{Plan, UnownedWriters};
pub use posse_domain::request::{
    Continuation, ContinuedFiles, DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, DEFAULT_ROOT, GivenBaseUrl,
    RunRequest, RunTerms,
};
pub use posse_domain::skill::{DEFAULT_SKILL_AGENT, DiscoveredDefinitions, Skill};
pub use posse_domain::text::first_line;
pub use posse_domain::{canonical_json, event, message, printable, shown_model};
pub use posse_engine::ports;
pub use posse_engine::ports::{
    ApplyError, ApplyPlan, ApplySummary, ConflictHunk, ConflictKind, ConflictLines, DiffForm, DiffOptions,
    FileConflict, FileConflicts, FilesOperation, FilesProgress, FilesProgressReceiver, GcSummary,
    PlannedFile, PlannedWrite, RestoredWork, WorkspaceError,
};
pub use posse_engine::{
    Delta, DeltaCall, DeltaPart, HistoryError, REQUEST_MAX_BYTES, RequestField, RunHandle, RuntimeError,
    TaskEvent, TaskState, VerifiedJournal, VerifyError,
};
pub use posse_files::discovery;
pub use posse_models::{
    BaseUrl, Endpoint, Format, Http, Key, KeyNeed, Limits, ModelRegistry, PriceTag, PricedModel, Prices,
    Provider, ProviderError, ProviderQueues, ProviderWords, Providers, Proxy, TextModels, ToolCalls,
    ollama_models, prices_taken, scripted,
};
pub use posse_sandbox as sandbox;
pub use posse_sandbox::init;
pub use posse_tools::{Search, hooks};
pub use posse_workspace as workspace;
pub use posse_workspace::{
    DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, DEFAULT_MAX_RUN_BYTES, GIT_PATH, WorkspaceKind,
    WorkspaceOptions, WorkspaceSettings,
};
pub use questions::{FoundQuestions, PendingQuestion, QuestionScope};
pub use replay::{RecordedRun, replayed};
pub use reports::ReportFiles;
pub use secrets::{names_a_secret, url_passwords};
pub use view::{AgentRecord, AgentView, ListedRun, RunSummary, RunView};
pub use waiting::{AgentWaitOutcome, WaitOutcome};
pub use work::SalvagedWork;

use posse_domain::event::Event;
use posse_engine::ports::{Holder, MailCommand, RunEntry, RunFiles, RunKey, Store, TenantId, Tool};
use posse_engine::{ResumeOutcome, Runtime};

/// The result of [`Posse::resume`].
pub enum Resume {
    /// This process executes the run from now on.
    Going(RunHandle),
    /// Another process holds the lease and executes the run.
    Held(Holder),
    /// The run had ended already.
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
    /// `None` if the files of runs are not kept.
    files: Option<Arc<dyn RunFiles>>,
    /// The state directory.
    state: PathBuf,
    /// The directory for the files of replays.
    replays: Option<replay::ReplayHome>,
    hook_failures: Option<hooks::HookFailures>,
    /// The store for answers of "always".
    approvals: Option<Arc<dyn ApprovalStore>>,
    /// The server that has the runs, if that is not this machine.
    server: Option<Arc<remote::ServerClient>>,
}

impl Posse {
    /// Returns a builder, which opens the state directory.
    pub fn builder() -> PosseBuilder {
        PosseBuilder::default()
    }

    fn new(
        runtime: Runtime,
        tenant: TenantId,
        tools: Arc<[Tool]>,
        files: Option<Arc<dyn RunFiles>>,
        state: PathBuf,
        replays: Option<replay::ReplayHome>,
    ) -> Self {
        let store = runtime.store().clone();
        Self {
            store,
            runtime,
            tenant,
            tools,
            files,
            state,
            replays,
            hook_failures: None,
            approvals: None,
            server: None,
        }
    }

    /// The failures of [command hooks](PosseBuilder::command_hooks) while runs are executed; `None` without such hooks.
    pub fn hook_failures(&self) -> Option<hooks::HookFailures> {
        self.hook_failures.clone()
    }

    /// How far long operations on files are, such as the first layout of a large project; `None` if workspaces do
    /// not report that. Nothing may rely on a report.
    pub fn files_progress(&self) -> Option<FilesProgressReceiver> {
        self.runtime.files_progress()
    }

    /// Starts a run and returns once its start is durable. The model `replay/<run>` or `replay/<bundle>` replays a
    /// recorded run, see [`Posse::replay`]; then the request may be empty.
    pub async fn start(&self, run: NewRun) -> Result<RunHandle, Error> {
        let known: Vec<&str> = self.tools.iter().map(|tool| tool.name).collect();
        let attended = run.attended;
        self.start_request(run.into_request(&known)?, attended).await
    }

    /// Starts a run from a complete request, which [`NewRun::into_request`] returns, in this process or in another.
    /// Whether an approver attends this process is not part of the request; see [`NewRun::attended`].
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

    /// Continues a run that no process executes.
    pub async fn resume(&self, run: &RunId) -> Result<Resume, Error> {
        self.resume_as(run, false).await
    }

    /// Continues a run with an approver who answers the root's questions; see [`NewRun::attended`].
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

    /// The oldest open runs that no process executes, at most `limit` of them: for a process that looks for runs to
    /// [resume](Self::resume). Another process may take one first, and [`Resume::Held`] then names it.
    pub async fn claimable(&self, limit: u32) -> Result<Vec<RunId>, Error> {
        Ok(self.store.claimable(&self.tenant, limit).await?)
    }

    /// The single run whose id starts with `prefix`.
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

    /// The error for a prefix without a run: it never existed, or it was removed.
    async fn no_run(&self, prefix: &str) -> Result<Error, Error> {
        let mut removed = self.store.removed(&self.tenant, prefix, 2).await?;
        Ok(match (removed.len(), removed.pop()) {
            (1, Some(removed)) => Error::Removed { run: removed.run, head: removed.head.hash },
            _ => Error::NoRun(prefix.to_owned()),
        })
    }

    /// The entry of a run whose head matches the end of its journal, and whose status is known. Any other is an error:
    /// a reader that waits for the event that a wrong head names would wait forever.
    async fn sound(&self, run: &RunId) -> Result<RunEntry, Error> {
        let entry = self.store.runs(&self.tenant, run.as_str(), 1).await?.into_iter().next();
        let entry = entry.ok_or_else(|| Error::NoRun(run.to_string()))?;
        match &entry.damage {
            Some(problem) => Err(damaged(run, problem)),
            None if entry.head.seq == 0 => Err(damaged(run, "it has no events")),
            None => Ok(entry),
        }
    }

    /// Refuses a run with a damaged head. [`Posse::find`] finds it nevertheless, so that it can be verified.
    pub async fn check_head(&self, run: &RunId) -> Result<(), Error> {
        self.sound(run).await.map(drop)
    }

    /// When the last event of a run was, in milliseconds since 1970.
    pub(crate) async fn last_event_at_ms(&self, run: &RunSummary) -> Result<Option<i64>, Error> {
        let last = self.store.read(&self.key(&run.run), run.events.saturating_sub(1), 1).await?;
        Ok(last.first().and_then(|stored| Event::decode(stored).ok()).map(|event| event.at_ms))
    }

    /// Whether the root of a run that has ended, or a sub-agent that it needed, ran out of turns.
    pub async fn is_turn_limited(&self, run: &RunSummary) -> Result<bool, Error> {
        if !matches!(run.status, RunStatus::Completed | RunStatus::Failed) {
            return Ok(false);
        }
        let last = self.store.read(&self.key(&run.run), run.events.saturating_sub(1), 1).await?;
        let body = last.first().and_then(|stored| Event::decode(stored).ok()).map(|event| event.body);
        Ok(body.is_some_and(|body| RunOutcome::is_turn_limited_by(&body)))
    }

    /// Cancels an agent and its subtree; cancelling the root ends the run. Durable: the command takes effect even if
    /// the lease holder dies, or if no process executes the run until it is resumed.
    pub async fn cancel(&self, agent: &AgentId, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        self.post(agent, MailCommand::Cancel { agent: agent.clone(), reason, kill: false }).await
    }

    /// Like [`cancel`](Self::cancel), but running tool calls are stopped at once.
    pub async fn kill(&self, agent: &AgentId, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        self.post(agent, MailCommand::Cancel { agent: agent.clone(), reason, kill: true }).await
    }

    /// Sends a message to a running agent, which reads it before its next turn.
    pub async fn send(&self, agent: &AgentId, text: &str) -> Result<(), Error> {
        self.post(agent, MailCommand::Send { agent: agent.clone(), text: text.to_owned() }).await
    }

    async fn post(&self, agent: &AgentId, command: MailCommand) -> Result<(), Error> {
        let run = agent.run();
        let state = self.current_state(&run).await?;
        if !state.status().is_running() {
            return Err(Error::Ended { run, status: state.status() });
        }
        if state.agents().get(agent).is_none() {
            return Err(Error::NoAgent(agent.clone()));
        }
        self.store.post(&self.key(&run), command).await?;
        Ok(())
    }

    /// The events of a run after number `after`, including all future ones, whichever process writes them.
    pub fn events(&self, run: &RunId, after: u64) -> Events {
        Events::new(self.store.clone(), self.key(run), after)
    }

    /// An agent's events in the form of a task: status, message, error, done.
    pub fn task_events(&self, agent: &AgentId) -> TaskEvents {
        TaskEvents::new(self.events(&agent.run(), 0), agent.clone())
    }

    /// The base URL of a provider that was set when the run started; see [`NewRun::base_url`].
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
            HistoryError::Missing(format!("the catalogue of run {run} cannot be read: {error}"))
        })?;
        Ok(Arc::unwrap_or_clone(catalogue).skills)
    }

    /// Waits until a run has ended, whichever process executes it.
    pub async fn wait(&self, run: &RunId) -> Result<RunOutcome, Error> {
        // The summary is enough to know that it has not ended. Only the end itself is read from the journal.
        let head = self.sound(run).await?.head.seq;
        let mut events = self.events(run, head.saturating_sub(1));
        let mut seen = head.saturating_sub(1);
        loop {
            let event = match events.try_next().await? {
                Some(event) => event,
                // The head is written with its event. Without the event the journal is damaged, and no event will come.
                None if seen < head => {
                    return Err(damaged(
                        run,
                        format!("it has no event {head}, where its head states that it ends"),
                    ));
                }
                None if self.summary(run).await?.status.is_running() => events.next().await?,
                // The end may have been written just now, in one commit with the row.
                None => events.try_next().await?.ok_or_else(|| {
                    damaged(
                        run,
                        "its last event is not the end of a run, and its row states that it has ended",
                    )
                })?,
            };
            seen = event.seq;
            if let Some(finished) = RunOutcome::from_event(run, &event.body) {
                return self.with_count(finished).await;
            }
        }
    }

    async fn with_count(&self, mut finished: RunOutcome) -> Result<RunOutcome, Error> {
        let state = self.current_state(&finished.run).await?;
        finished.agents = state.agents().counts().all();
        finished.elapsed_ms = state.elapsed_ms(state.last_at_ms());
        let children = state.agents().iter().filter(|agent| !agent.id.is_root());
        finished.unchanged =
            children.filter(|agent| agent.is_unchanged()).map(|agent| agent.id.clone()).collect();
        finished.refused = self.refused_of(&state, u64::MAX).await?;
        finished.is_replay = state.is_replay();
        if let Some(name) = state.replay_of() {
            finished.replay = Some(self.replay_verdict(&finished, name).await?);
        }
        if finished.result.is_some() {
            // For information only: an unreadable directory does not change how the run ended.
            finished.disk_bytes = self.disk_bytes(&finished.run).await.ok().flatten();
        }
        Ok(finished)
    }

    /// The outcome of a run; `None` if it has not ended.
    pub async fn finished(&self, run: &RunId) -> Result<Option<RunOutcome>, Error> {
        if self.summary(run).await?.status.is_running() {
            return Ok(None);
        }
        self.wait(run).await.map(Some)
    }

    /// Checks a run's journal and the tables beside it.
    pub async fn verify(&self, run: &RunId) -> Result<VerifiedJournal, VerifyError> {
        posse_engine::verify(&*self.store, &self.key(run)).await
    }

    /// Checks the store for damage that no single run would show.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        Ok(self.store.check().await?.problems)
    }

    /// Compares the files that the workspaces of a run's project share, or those of all projects, with their commits.
    /// Reads all of these files. Returns what another program has changed; the next run does not use it.
    pub async fn check_shared_files(&self, run: Option<&RunId>) -> Result<Vec<String>, Error> {
        match &self.files {
            Some(files) => Ok(files.check_shared(run).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Stops executing runs at once. They can be resumed.
    pub fn stop(&self) {
        self.runtime.stop();
    }

    /// The names of all tools that agents can have.
    pub fn tool_names(&self) -> Vec<&'static str> {
        self.tools.iter().map(|tool| tool.name).collect()
    }

    fn key(&self, run: &RunId) -> RunKey {
        self.runtime.key(run)
    }
}

/// The program that keeps the journal of a [state directory](PosseBuilder::state_dir).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreDescription {
    /// In lower case, such as `sqlite`.
    pub name: &'static str,
    /// As the program itself reports it.
    pub version: &'static str,
}

/// The program that keeps journals, unless an embedder supplies a [store](PosseBuilder::store).
pub fn store_description() -> StoreDescription {
    StoreDescription { name: "sqlite", version: posse_store::sqlite_version() }
}

/// The file or directory of a part of the store in a [state directory](PosseBuilder::state_dir). Errors of the store
/// name no path, because they may be shown on another machine; a front end on this machine can add it.
pub fn store_path(state_dir: &Path, part: ports::StorePart) -> PathBuf {
    posse_store::SqliteStore::path_of(state_dir, part)
}

/// The tools that are always available.
pub fn builtin_tools() -> Vec<Tool> {
    posse_tools::builtin(posse_tools::ToolServices::default())
}

/// The error for a journal that contradicts the tables beside it.
fn damaged(run: &RunId, problem: impl Into<String>) -> Error {
    ports::StoreError::Damaged { run: run.clone(), problem: problem.into() }.into()
}
