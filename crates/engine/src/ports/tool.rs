//! The port to tools: the engine describes, prepares and executes the tool calls of agents through it.
//!
//! A tool is either an *effect* (it acts on the outside world: read, write, exec, net) or a *request* (it makes a
//! request to the engine: delegate, journal). An effect has two parts, so that its intent can be committed before it
//! acts: [`EffectTool::prepare`] changes nothing, and [`PreparedEffect::run`] acts.

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

use super::WorkspaceId;

/// The path at which programs and models see a workspace. It is the same for every agent of every run, independent of
/// the actual directory.
pub const WORKSPACE_SHOWN_AT: &str = "/workspace";

/// The agent, directory and limits of a call. A tool knows nothing else about its caller.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The calling agent.
    pub agent: AgentId,
    /// The agent's position in the tree.
    pub context: Arc<ExecutionContext>,
    /// The id of the call within its agent.
    pub call_id: Arc<str>,
    /// The directory of the workspace. Every path of the call is beneath it.
    pub workspace: Arc<PathBuf>,
    /// The kind of files in the directory.
    pub files: CallFiles,
    /// Hashes of the files that the agent has read, so that a write can detect whether they changed since.
    pub seen: Arc<dyn SeenFiles>,
    /// The directories of the skills that the agent may use, by name.
    pub skills: Arc<SkillDirs>,
    /// The agent's rules about paths. The engine has already decided on the call's own operation. A tool must check
    /// here every other path that it finds: the target of a link, and, as `read`, every file whose content it would
    /// show.
    pub rules: PathRules,
    /// The protected names and non-public addresses that the user allowed.
    pub approvals: Approvals,
    /// Whether programs may use the network.
    pub network: bool,
    /// The time limit of the call. A tool that can end its work gracefully does so at this limit. The engine aborts any
    /// other call a little later.
    pub limit: Duration,
    /// The idle timeout: a program that prints nothing for this long is ended.
    pub idle: Duration,
    /// Signals that the call must end before its limit.
    pub stop: StopSignal,
}

/// The kind of files that a call works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFiles {
    /// An isolated workspace: the calling agent's own, or for a hook that of an ancestor.
    Workspace(WorkspaceId),
    /// The files of a snapshot, shared by all agents that only read them.
    Shared,
    /// The user's folder, in a run in which no agent can change files, or the directory of a skill.
    Folder,
}

impl CallFiles {
    /// Whether Posse stores these files, so that programs and models see them at [`WORKSPACE_SHOWN_AT`].
    pub fn is_isolated(&self) -> bool {
        match self {
            Self::Workspace(_) | Self::Shared => true,
            Self::Folder => false,
        }
    }
}

/// The directories of skills: `skill://NAME/PATH` is the file `PATH` beneath the directory of `NAME`.
pub type SkillDirs = BTreeMap<String, SkillDir>;

/// The directory of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDir {
    /// The path on this machine.
    pub path: PathBuf,
    /// The project that contains the directory. Files that its git ignores are not read. `None` for a skill of the
    /// user.
    pub project: Option<PathBuf>,
}

/// Whether, and how fast, a call must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The call may continue.
    None,
    /// The call must end gracefully.
    Gently,
    /// The call must end at once.
    AtOnce,
}

/// Signals to a running call that it must end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Option<watch::Receiver<Urgency>>);

impl StopSignal {
    /// A signal and its sender. Dropping the sender does not stop the call.
    pub fn new() -> (watch::Sender<Urgency>, Self) {
        let (sender, receiver) = watch::channel(Urgency::None);
        (sender, Self(Some(receiver)))
    }

    /// A new receiver of this sender's signal.
    pub fn of(sender: &watch::Sender<Urgency>) -> Self {
        Self(Some(sender.subscribe()))
    }

    /// A signal that is never sent, for calls that the engine aborts or awaits instead of stopping them.
    pub fn never() -> Self {
        Self::default()
    }

    /// The current urgency.
    pub fn now(&self) -> Urgency {
        self.0.as_ref().map_or(Urgency::None, |signal| *signal.borrow())
    }

    /// Waits until the urgency is at least this. Never returns if the sender is dropped before.
    pub async fn at_least(&mut self, urgency: Urgency) {
        if let Some(signal) = &mut self.0
            && signal.wait_for(|now| *now >= urgency).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// The files that an agent has read so far, with their hashes.
pub trait SeenFiles: Send + Sync + std::fmt::Debug {
    /// The hash of `path` when the agent last read it.
    fn seen(&self, path: &str) -> Option<posse_domain::hash::Hash>;
    /// Records that the agent has read `path` with this content.
    fn note(&self, path: &str, hash: posse_domain::hash::Hash);
}

/// The result of a successful call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    /// The images that the model gets with the text.
    pub images: Vec<Image>,
}

impl ToolOutput {
    /// An output that consists of text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new() }
    }
}

/// The result of a failed call. The model reads the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// The kind of failure.
    pub code: Code,
    /// For the model: the problem, and how to avoid it.
    pub text: String,
}

impl ToolFailure {
    /// A failure of the tool itself.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: Code::ToolError, text: text.into() }
    }

    /// The failure of a call whose arguments the tool cannot use.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self { code: Code::InvalidInput, text: text.into() }
    }
}

/// The result of an effect.
pub type ToolResult = Result<ToolOutput, ToolFailure>;

/// A prepared effect that has not started.
pub struct PreparedEffect {
    /// The files that a write will change. Only set for a write.
    pub write: Option<WriteIntent>,
    /// The sandbox in which the programs will run. Only set for an exec.
    pub sandbox: Option<String>,
    /// Executes the effect. Dropping the future aborts the effect as far as possible.
    pub run: Box<dyn FnOnce() -> BoxFuture<'static, ToolResult> + Send>,
}

/// What is known after a crash about an effect that had begun.
pub enum RecoveredEffect {
    /// The effect happened, with this result.
    Done(ToolOutput),
    /// The effect did not happen, and can be executed now.
    Apply(PreparedEffect),
    /// It cannot be determined whether the effect happened.
    Unknown,
}

/// A tool that acts on the outside world.
pub trait EffectTool: Send + Sync + 'static {
    /// Validates the arguments and reads the data that the effect needs, without changing anything.
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>>;

    /// Determines after a crash whether a write happened whose result is not in the journal. Only called for writes.
    fn recover(
        &self,
        call: CallContext,
        input: Value,
        intent: WriteIntent,
    ) -> BoxFuture<'static, RecoveredEffect> {
        let _ = (call, input, intent);
        Box::pin(async { RecoveredEffect::Unknown })
    }

    /// The call's own timeout, in addition to the agent's limits.
    fn timeout(&self, input: &Value) -> Option<Duration> {
        let _ = input;
        None
    }
}

/// A request of a tool to the engine. The engine decides on it in the commit of the reply that contains the call.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineRequest {
    /// Creates a child.
    Spawn(Box<SpawnRequest>),
    /// Reports the states of children.
    Status {
        /// The child. `None` for all children of the caller.
        task_id: Option<String>,
        /// How long to wait for a change.
        wait_ms: Option<u64>,
    },
    /// Sends a message to a running child.
    Send {
        /// The task id of the recipient.
        task_id: String,
        /// The text of the message.
        message: String,
    },
    /// Cancels a child and its subtree.
    Cancel {
        /// The task id of the child to cancel.
        task_id: String,
        /// The reason, for the journal.
        reason: String,
    },
    /// Closes a child that stays open after its completion.
    Close {
        /// The task id of the child to close.
        task_id: String,
    },
    /// Replaces the agent's own todo list.
    Todo(Vec<TodoItem>),
    /// Loads the instructions of a skill, or forks a sub-agent with it.
    Skill {
        /// The name of the skill.
        name: String,
        /// The arguments of the skill. May be empty.
        arguments: String,
    },
}

/// A tool that makes a request to the engine.
pub trait RequestTool: Send + Sync + 'static {
    /// Converts typed input into a request.
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure>;
}

/// The implementation of a tool.
#[derive(Clone)]
pub enum Handler {
    /// Acts on the outside world.
    Effect(Arc<dyn EffectTool>),
    /// Makes a request to the engine.
    Request(Arc<dyn RequestTool>),
}

/// A definition that an agent may spawn, as the description of `task` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawnable {
    /// The name of the definition.
    pub name: String,
    /// When to use the definition, for the model.
    pub description: String,
    /// Whether its agents may spawn children themselves.
    pub may_spawn: bool,
    /// Whether the user is asked about the calls of its agents, because no user has trusted the definition.
    pub asks: bool,
}

/// Creates the description of a tool for a model, from the definitions that the agent may spawn.
pub type Describe = Arc<dyn Fn(&[Spawnable]) -> ToolSpec + Send + Sync>;

/// A tool that agents can call.
#[derive(Clone)]
pub struct Tool {
    /// The unique name by which models call the tool.
    pub name: &'static str,
    /// The class of its effect.
    pub class: EffectClass,
    /// Creates the description that the model reads. It depends on the definitions that the agent may spawn.
    pub describe: Describe,
    /// The specifier of a call for permission rules: a path, a command, the name of a definition.
    pub specifier: fn(&Value) -> Option<String>,
    /// The implementation.
    pub handler: Handler,
}
