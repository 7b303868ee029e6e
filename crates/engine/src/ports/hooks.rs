//! The port to the user's hooks: programs that are notified of the operations of agents and may deny them. A hook can
//! only deny an operation or have the user asked. No answer of a hook gives an agent more rights.

use futures::future::BoxFuture;
use serde_json::Value;

use super::CallContext;

/// The moments at which hooks are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// Before a tool call. An objection denies the call.
    PreToolUse,
    /// After a tool call. An objection is added to the text that the model reads.
    PostToolUse,
    /// Before the first turn of a sub-agent. An objection fails the sub-agent.
    SubagentStart,
    /// After the last turn of a sub-agent. An objection prevents the integration of its work.
    SubagentStop,
}

impl Moment {
    /// Every moment, in the order of the variants.
    pub const ALL: [Moment; 4] =
        [Moment::PreToolUse, Moment::PostToolUse, Moment::SubagentStart, Moment::SubagentStop];

    /// The name of the moment in settings and in the input of hooks.
    pub fn name(self) -> &'static str {
        match self {
            Moment::PreToolUse => "PreToolUse",
            Moment::PostToolUse => "PostToolUse",
            Moment::SubagentStart => "SubagentStart",
            Moment::SubagentStop => "SubagentStop",
        }
    }

    /// Whether hooks are notified of a tool call at this moment, and not of a sub-agent.
    pub fn is_about_calls(self) -> bool {
        match self {
            Moment::PreToolUse | Moment::PostToolUse => true,
            Moment::SubagentStart | Moment::SubagentStop => false,
        }
    }

    /// Whether an objection at this moment prevents the operation. After a tool call it is too late for that.
    pub fn can_prevent(self) -> bool {
        self != Moment::PostToolUse
    }
}

/// The access of a hook to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookAccess {
    /// The agent's files, writable. The hook follows a call that could change them and still has access to them.
    Change,
    /// The agent's files, read-only.
    Read,
    /// The files of an ancestor, or the user's folder, read-only, because the agent itself has no files yet.
    Borrowed,
}

/// One notification of hooks, with all data about the moment that they may read.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The moment of the notification.
    pub moment: Moment,
    /// The agent (the caller of the tool, or the sub-agent), and the directory in which the hook runs.
    pub at: CallContext,
    /// The access of the hooks to the files in that directory.
    pub reach: HookAccess,
    /// The name of the agent's definition.
    pub definition: String,
    /// The skill that the agent was forked with.
    pub skill: Option<String>,
    /// The tool call, for the moments before and after a call.
    pub call: Option<HookedCall>,
    /// The report of the sub-agent, for the moment of its end.
    pub report: Option<String>,
}

/// The tool call that hooks are notified of.
#[derive(Debug, Clone)]
pub struct HookedCall {
    /// The id of the call within its agent.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub input: Value,
    /// The result. Only set after the call.
    pub output: Option<String>,
    /// Whether the call starts a sub-agent, with any tool. Hooks for `task` are then notified too.
    pub spawns: bool,
}

/// The combined answer of all notified hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// No hook objects.
    Goes,
    /// A hook wants the user to decide, for this reason. Counts as an objection if no user can be asked, and at every
    /// moment except before a tool call.
    Asks(String),
    /// A hook objects, for this reason, which the model and the user read.
    Denied(String),
}

/// Notifies the hooks that the user configured.
pub trait Hooks: Send + Sync + 'static {
    /// Whether any hook wants to be notified. `about` is the name of the tool or the definition of the sub-agent. For a
    /// call that starts a sub-agent the engine also asks with `task`. Called for every tool call, so it must be fast.
    fn wants(&self, moment: Moment, about: &str) -> bool;

    /// Notifies the interested hooks and waits for their answers, for a limited time or until the stop signal of the
    /// call. When it returns, no process of the hooks is alive. After a crash it is called again if no event followed
    /// from the answer.
    fn run(&self, call: HookCall) -> BoxFuture<'static, HookAnswer>;
}
