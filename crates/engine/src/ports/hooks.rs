//! The port to a person's hooks: programs that hear of what agents do, and may object. They can only deny or ask;
//! nothing they say widens what an agent may do.

use futures::future::BoxFuture;
use serde_json::Value;

use super::CallContext;

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

impl Moment {
    /// All of them.
    pub const ALL: [Moment; 4] =
        [Moment::PreToolUse, Moment::PostToolUse, Moment::SubagentStart, Moment::SubagentStop];

    /// Its name in settings and in what hooks read.
    pub fn name(self) -> &'static str {
        match self {
            Moment::PreToolUse => "PreToolUse",
            Moment::PostToolUse => "PostToolUse",
            Moment::SubagentStart => "SubagentStart",
            Moment::SubagentStop => "SubagentStop",
        }
    }

    /// Whether it is about a call of a tool, and not about a sub-agent.
    pub fn is_about_calls(self) -> bool {
        match self {
            Moment::PreToolUse | Moment::PostToolUse => true,
            Moment::SubagentStart | Moment::SubagentStop => false,
        }
    }

    /// Whether something waits for the answer that can still be kept from happening.
    pub fn is_gate(self) -> bool {
        self != Moment::PostToolUse
    }
}

/// What of the agent's files a hook gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The agent's own, to change: the call that the hook follows could change them, and still has them.
    Change,
    /// The agent's own, to look at.
    Look,
    /// Those of an agent above it, or the person's folder, because it has none of its own yet; to look at.
    Borrowed,
}

/// One moment, with all that a hook is told.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// Which moment.
    pub moment: Moment,
    /// The agent (the caller of the tool, or the sub-agent), and where the hook runs.
    pub at: CallContext,
    /// What it may do there.
    pub reach: Reach,
    /// The agent's definition.
    pub definition: String,
    /// The skill it was forked with.
    pub skill: Option<String>,
    /// The call, for the moments that are about one.
    pub call: Option<HookedCall>,
    /// The sub-agent's report, at its end.
    pub report: Option<String>,
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
    /// What came of it, after the call.
    pub output: Option<String>,
    /// Whether it starts a sub-agent, by whichever tool: whoever wants to hear of `task` hears of it too.
    pub spawns: bool,
}

/// What the hooks said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nobody objects.
    Goes,
    /// A person is to decide, and this is why. Where nobody can be asked, and at every moment but before a tool, it
    /// is an objection.
    Asks(String),
    /// Somebody objects, and this is why, for the model and for people.
    Denied(String),
}

/// A person's hooks.
pub trait Hooks: Send + Sync + 'static {
    /// Whether anybody wants to hear of it: `about` is the tool's name, or the sub-agent's definition. Of a call that
    /// starts a sub-agent it is asked as `task` too. Asked before anything is done for it, on a hot path.
    fn wants(&self, moment: Moment, about: &str) -> bool;

    /// Tells whoever wants to hear, and waits for what they say; bounded in time, and ended early by the call's stop
    /// signal. When it returns nothing of the hooks is alive. Called again after a crash if what they said was not
    /// journalled.
    fn run(&self, call: HookCall) -> BoxFuture<'static, HookAnswer>;
}
