//! The port to tools.
//!
//! A tool is either an *effect* (it touches the outside: read, write, exec, net) or a *request* (it asks the
//! engine: delegate, journal). An effect is carried out in two parts, so that what it will do can be committed
//! before it does it: `prepare` only looks, [`PreparedEffect::run`] acts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::code::Code;
use posse_domain::contract::ExecutionContext;
use posse_domain::event::{EffectClass, TodoItem, WriteIntent};
use posse_domain::id::AgentId;
pub use posse_domain::lifecycle::SpawnRequest;
use posse_domain::message::Image;
use posse_domain::permission::{Approvals, PathRules};
use serde_json::Value;
use tokio::sync::watch;

/// Where programs and models see a workspace, wherever it is: the same for every agent of every run.
pub const WORKSPACE_SHOWN_AT: &str = "/workspace";

/// Where and for whom a call runs. Everything a tool knows of its caller is in here.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The calling agent.
    pub agent: AgentId,
    /// Its place in the tree.
    pub context: Arc<ExecutionContext>,
    /// The call's id.
    pub call_id: Arc<str>,
    /// The workspace; every path is beneath it.
    pub workspace: Arc<PathBuf>,
    /// Whether the workspace is the agent's own; otherwise it is the person's folder.
    pub isolated: bool,
    /// Hashes of the files the agent has read, so that a write can tell whether they changed since.
    pub seen: Arc<dyn SeenFiles>,
    /// The directories of the skills that the agent may use, by name.
    pub skills: Arc<SkillDirs>,
    /// What the agent's rules say of paths. The call's own operation was decided before; a tool asks here for
    /// what else it comes upon: where a link leads, and, as `read`, every file whose content it would show.
    pub rules: PathRules,
    /// What a person allowed by name: opens protected names and addresses that are not public.
    pub approvals: Approvals,
    /// Whether programs may use the network.
    pub network: bool,
    /// How long the call may take. A tool that can end its work gently does so at this limit; one that does not is
    /// dropped a little later.
    pub limit: Duration,
    /// How long it may give no sign of life: a program that prints nothing for that long is ended.
    pub idle: Duration,
    /// Says when the call is to end before that.
    pub stop: StopSignal,
}

/// Where the files of skills are: `skill://NAME/PATH` is the file `PATH` beneath the directory of `NAME`.
pub type SkillDirs = BTreeMap<String, SkillDir>;

/// The directory of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDir {
    /// Where it is.
    pub path: PathBuf,
    /// The project that it is part of: what its git ignores is not read. None if it is the person's own.
    pub project: Option<PathBuf>,
}

/// How much a call is asked to hurry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It may go on.
    None,
    /// It is to end what it does, gracefully.
    Gently,
    /// It is to end at once.
    AtOnce,
}

/// Tells a running call that it is to end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Option<watch::Receiver<Urgency>>);

impl StopSignal {
    /// A signal, and what gives it. Dropping the latter is not a stop.
    pub fn new() -> (watch::Sender<Urgency>, Self) {
        let (sender, receiver) = watch::channel(Urgency::None);
        (sender, Self(Some(receiver)))
    }

    /// The signal that this sender gives.
    pub fn of(sender: &watch::Sender<Urgency>) -> Self {
        Self(Some(sender.subscribe()))
    }

    /// A signal that nobody ever gives: for calls that are dropped, or waited for.
    pub fn never() -> Self {
        Self::default()
    }

    /// How much the call is to hurry now.
    pub fn now(&self) -> Urgency {
        self.0.as_ref().map_or(Urgency::None, |signal| *signal.borrow())
    }

    /// Returns once the call is to hurry at least this much; never, if nobody can say so any more.
    pub async fn at_least(&mut self, urgency: Urgency) {
        if let Some(signal) = &mut self.0
            && signal.wait_for(|now| *now >= urgency).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// What an agent has read so far in this process.
pub trait SeenFiles: Send + Sync + std::fmt::Debug {
    /// The hash the agent last saw of `path`.
    fn seen(&self, path: &str) -> Option<posse_domain::hash::Hash>;
    /// Notes that the agent has seen `path` with this content.
    fn note(&self, path: &str, hash: posse_domain::hash::Hash);
}

/// What a tool gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model reads.
    pub text: String,
    /// What it sees beside it.
    pub images: Vec<Image>,
}

impl ToolOutput {
    /// An output that is text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new() }
    }
}

/// Why a tool did not do it; the text goes back to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// Why, as a word.
    pub code: Code,
    /// Why, for the model: what is wrong and what to do.
    pub text: String,
}

impl ToolFailure {
    /// A failure of the tool itself.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: Code::ToolError, text: text.into() }
    }

    /// Input that does not fit.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self { code: Code::InvalidInput, text: text.into() }
    }
}

/// The result of an effect.
pub type ToolResult = Result<ToolOutput, ToolFailure>;

/// An effect that is ready to happen.
pub struct PreparedEffect {
    /// For a write: what it will do.
    pub write: Option<WriteIntent>,
    /// For an exec: what its programs will run in.
    pub sandbox: Option<String>,
    /// Does it. Dropping the future ends what it began, as far as that can be ended.
    pub run: Box<dyn FnOnce() -> BoxFuture<'static, ToolResult> + Send>,
}

/// How an effect that had begun stands after a crash.
pub enum RecoveredEffect {
    /// It happened; this is its result.
    Done(ToolOutput),
    /// It did not happen; it can be done now.
    Apply(PreparedEffect),
    /// Nobody can tell.
    Unknown,
}

/// A tool that touches the outside.
pub trait EffectTool: Send + Sync + 'static {
    /// Looks and validates, without changing anything.
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>>;

    /// Finds out what became of a write whose result is not in the journal. Only called for writes.
    fn recover(
        &self,
        call: CallContext,
        input: Value,
        intent: WriteIntent,
    ) -> BoxFuture<'static, RecoveredEffect> {
        let _ = (call, input, intent);
        Box::pin(async { RecoveredEffect::Unknown })
    }

    /// A limit on the call's own time, beyond the agent's.
    fn timeout(&self, input: &Value) -> Option<Duration> {
        let _ = input;
        None
    }
}

/// What a tool asks of the engine. Decided purely, in the commit of the reply that asked.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineRequest {
    /// A new child.
    Spawn(Box<SpawnRequest>),
    /// How a child stands.
    Status {
        /// Which; none for all of the caller's.
        task_id: Option<String>,
        /// How long to wait for a change.
        wait_ms: Option<u64>,
    },
    /// A message to a running child.
    Send {
        /// Which.
        task_id: String,
        /// What.
        message: String,
    },
    /// Ends a child and all below it.
    Cancel {
        /// Which.
        task_id: String,
        /// Why.
        reason: String,
    },
    /// Closes a child that stays open after completion.
    Close {
        /// Which.
        task_id: String,
    },
    /// Replaces the agent's own list.
    Todo(Vec<TodoItem>),
    /// A skill: its text, or what its sub-agent makes of it.
    Skill {
        /// Which.
        name: String,
        /// What it is called with; may be empty.
        arguments: String,
    },
}

/// A tool that asks the engine.
pub trait RequestTool: Send + Sync + 'static {
    /// Turns typed input into a request.
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure>;
}

/// How a tool works.
#[derive(Clone)]
pub enum Handler {
    /// It touches the outside.
    Effect(Arc<dyn EffectTool>),
    /// It asks the engine.
    Request(Arc<dyn RequestTool>),
}

/// A definition as the text of `task` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawnable {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Whether its agents may spawn in turn.
    pub may_spawn: bool,
    /// Whether its agents' calls ask a person: nobody trusted it.
    pub asks: bool,
}

/// Tells a model about a tool, given the definitions its agent may spawn.
pub type Describe = Arc<dyn Fn(&[Spawnable]) -> ToolSpec + Send + Sync>;

/// One tool.
#[derive(Clone)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does to the outside.
    pub class: EffectClass,
    /// What the model reads about it; depends on what the agent may spawn.
    pub describe: Describe,
    /// What a call acts on, as permission rules see it (a path, a command, a definition's name).
    pub specifier: fn(&Value) -> Option<String>,
    /// How it works.
    pub handler: Handler,
}
