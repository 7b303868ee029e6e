//! The port to a person's hooks: programs that hear of what agents do, and may object. They can only deny; nothing they
//! say widens what an agent may do.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use posse_domain::contract::ExecutionContext;
use posse_domain::id::AgentId;
use serde_json::Value;

use super::StopSignal;

/// What a hook hears of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// A tool is about to be used; an objection refuses the call.
    PreToolUse,
    /// A tool was used; an objection is told to the model.
    PostToolUse,
    /// A sub-agent is about to start; an objection fails it before its first turn.
    SubagentStart,
    /// A sub-agent has ended its work; an objection keeps its work from being integrated.
    SubagentStop,
}

/// One moment, with all that a hook is told.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// Which moment.
    pub moment: Moment,
    /// The agent: the caller of the tool, or the sub-agent.
    pub agent: AgentId,
    /// Its place in the tree.
    pub context: Arc<ExecutionContext>,
    /// Its definition.
    pub definition: String,
    /// The skill it was forked with.
    pub skill: Option<String>,
    /// Where it works.
    pub workspace: Arc<PathBuf>,
    /// Whether that is its own; otherwise it is the person's folder.
    pub isolated: bool,
    /// The call, for the moments that are about one.
    pub call: Option<HookedCall>,
    /// The sub-agent's report, at its end.
    pub report: Option<String>,
    /// Says when it is to end early.
    pub stop: StopSignal,
}

/// The tool call that a hook hears of.
#[derive(Debug, Clone)]
pub struct HookedCall {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
    /// What came of it, after the call: the text, and whether it failed.
    pub output: Option<(String, bool)>,
}

/// What the hooks said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nobody objects.
    Goes,
    /// Somebody does, and this is why, for the model and for people.
    Denied(String),
}

/// A person's hooks.
pub trait Hooks: Send + Sync + 'static {
    /// Whether anybody wants to hear of it: `about` is the tool's name, or the sub-agent's definition. Asked before
    /// anything is done for it, on a hot path.
    fn wants(&self, moment: Moment, about: &str) -> bool;

    /// Tells whoever wants to hear, and waits for what they say; bounded in time. Called again after a crash if what
    /// it said was not journalled.
    fn tell(&self, call: HookCall) -> BoxFuture<'static, HookAnswer>;
}
