//! What the events of tool calls carry: what was decided, intended, asked and done.

use serde::{Deserialize, Serialize};

use super::detail::is_zero;
use crate::code::Code;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::message::Image;
use crate::permission::{Decision, Rule};
use crate::text::Text;

/// What a tool does to the outside; decides how it is recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Looks only; runs again.
    Read,
    /// Writes a file; the intent carries hashes that tell whether it happened.
    Write,
    /// Runs something; never again by itself.
    Exec,
    /// Asks the network; asked again and counted.
    Net,
    /// Spawns or talks to children; reattached by call id.
    Delegate,
    /// Changes the journal only; part of the same commit.
    Journal,
}

impl EffectClass {
    /// Whether an agent with such a tool can change its workspace.
    pub fn changes_workspace(self) -> bool {
        matches!(self, EffectClass::Write | EffectClass::Exec)
    }

    /// Whether a call of this class has to do with the files of its agent.
    pub fn touches_files(self) -> bool {
        matches!(self, EffectClass::Read | EffectClass::Write | EffectClass::Exec)
    }

    /// Whether a call of this class is journalled before it starts. For a read the committed reply is the intent.
    pub fn needs_intent(self) -> bool {
        self != EffectClass::Read
    }
}

/// What a write will do, so that after a crash one look tells whether it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteIntent {
    /// The file, relative to the workspace.
    pub path: String,
    /// Its hash before; none if it does not exist.
    pub before: Option<Hash>,
    /// Its hash after.
    pub after: Hash,
}

/// See [`super::EventBody::ToolIntended`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolIntended {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Its effect class.
    pub class: EffectClass,
    /// What it acts on, as permission rules see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specifier: Option<String>,
    /// For a write, what it will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteIntent>,
    /// For an exec, what its programs run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// See [`super::EventBody::ToolFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFinished {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Whether it did what was asked.
    pub ok: bool,
    /// Why not, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What the model reads.
    pub output: Text,
    /// What the model sees beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The child whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentId>,
    /// Files whose content the agent saw or made in this call, by hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// A file as an agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    /// The file, relative to the workspace.
    pub path: String,
    /// Its content's hash.
    pub hash: Hash,
}

/// See [`super::EventBody::ToolInterrupted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolInterrupted {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What the model is told.
    pub output: Text,
    /// Working time it took before it was cut off; none that anybody knows of if a crash did that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elapsed_ms: u64,
}

/// See [`super::EventBody::PermissionDecided`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionDecided {
    /// The call.
    pub call_id: String,
    /// `tool:specifier`.
    pub operation: String,
    /// The decision.
    pub decision: Decision,
    /// The layer that decided.
    pub layer: Option<String>,
    /// Its rule, if it was a rule.
    pub rule: Option<Rule>,
}

/// See [`super::EventBody::InputRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequested {
    /// The call that waits.
    pub call_id: String,
    /// `tool:specifier`.
    pub operation: String,
    /// The tool.
    pub tool: String,
    /// What it is called with, as JSON.
    pub arguments: Text,
    /// The layer that asks.
    pub layer: Option<String>,
    /// Its rule, if it was a rule.
    pub rule: Option<Rule>,
    /// What it said of this one call, if it did: a hook does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What an answer must name: the hash of tool, arguments and contract.
    pub approval: Hash,
}

/// What a question was answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// Who answered a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A person.
    Person,
    /// The host: there is nobody to ask any more, or a person's "always" covers it by now.
    Host,
}

/// See [`super::EventBody::InputAnswered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputAnswered {
    /// The call that waited.
    pub call_id: String,
    /// The hash of the question.
    pub approval: Hash,
    /// The answer.
    pub decision: QuestionAnswer,
    /// Whether the operation's exact literal is allowed from now on, in this run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Who answered.
    pub by: AnsweredBy,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
