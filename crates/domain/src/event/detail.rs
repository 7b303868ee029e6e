//! What the events of runs and of conversations carry.

use serde::{Deserialize, Serialize};

use super::files::RunResult;
use crate::budget::Figures;
use crate::code::Code;
use crate::id::AgentId;
use crate::lifecycle::FailKind;
use crate::plan::Plan;
use crate::text::Text;

/// See [`super::EventBody::RunPlanned`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlanned {
    /// The plan that the host carries out.
    pub plan: Plan,
}

/// See [`super::EventBody::RunResumed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResumed {
    /// The new owner's epoch.
    pub epoch: u64,
    /// How long nobody owned the run; deadlines stood still.
    pub unowned_ms: u64,
}

/// A child that failed, as a run's result lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedChild {
    /// Its id.
    pub id: AgentId,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
}

/// A child that completed, but ran out of turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnLimited {
    /// The child.
    pub id: AgentId,
    /// Whether the run needed it: then its limit ended the run.
    pub required: bool,
}

/// See [`super::EventBody::RunCompleted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCompleted {
    /// The root's report.
    pub text: Text,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// What the tree spent.
    pub figures: Figures,
    /// Whether the root ran out of turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns_exhausted: bool,
    /// The children that completed, but ran out of turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_limited: Vec<TurnLimited>,
    /// What it made of the files, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// See [`super::EventBody::RunFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFailed {
    /// The kind of failure.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
    /// The root's last words, if any.
    pub text: Option<Text>,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// What the tree spent.
    pub figures: Figures,
    /// What it made of the files so far, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// See [`super::EventBody::RunCancelled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCancelled {
    /// Why.
    pub reason: String,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// What the tree spent.
    pub figures: Figures,
    /// What it made of the files so far, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "who", content = "id")]
pub enum Sender {
    /// A person.
    Person,
    /// Another agent.
    Agent(AgentId),
    /// The host, on behalf of a child that ended.
    Child(AgentId),
    /// The host itself.
    Host(HostNote),
}

/// What the host tells an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostNote {
    /// Its reply had neither text nor calls.
    EmptyReply,
    /// Its final answer does not satisfy the schema.
    SchemaMismatch,
    /// Its report does not answer every criterion.
    CriteriaUnanswered,
    /// Most of a budget is used.
    BudgetLow,
    /// Its reply was cut off before it called anything.
    CutOff,
    /// A hook objects to what a call did.
    Hook,
}

/// See [`super::EventBody::MessageReceived`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageReceived {
    /// Who wrote it.
    pub from: Sender,
    /// The message.
    pub text: Text,
}

/// See [`super::EventBody::CancelRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequested {
    /// Who asked: `user`, an agent's id, or `host`.
    pub by: String,
    /// Why.
    pub reason: String,
    /// At once, without grace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kill: bool,
}

/// See [`super::EventBody::ContextTrimmed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextTrimmed {
    /// The calls whose outputs were left out from here on.
    pub call_ids: Vec<String>,
    /// How many bytes that saved.
    pub freed_bytes: u64,
}

/// The state of an entry of an agent's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Done,
}

/// An entry of an agent's own list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// See [`super::EventBody::TodoChanged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoChanged {
    /// The whole list.
    pub items: Vec<TodoItem>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}
