//! Payloads of events about runs and conversations.

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
    /// The plan that the host executes.
    pub plan: Plan,
}

/// See [`super::EventBody::RunResumed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResumed {
    /// The epoch of the new lease holder.
    pub epoch: u64,
    /// How long no process executed the run. Deadlines did not move in that time.
    pub unowned_ms: u64,
}

/// A failed child in a run's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedChild {
    /// The child's id.
    pub id: AgentId,
    /// The stable error code.
    pub code: Code,
    /// The reason for users.
    pub reason: String,
}

/// A child that completed, but reached its turn limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnLimited {
    /// The child's id.
    pub id: AgentId,
    /// Whether the run required this child, so that its limit ended the run.
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
    /// What the whole tree spent.
    pub figures: Figures,
    /// Whether the root reached its turn limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns_exhausted: bool,
    /// The children that completed, but reached their turn limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_limited: Vec<TurnLimited>,
    /// The run's changes to files, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// See [`super::EventBody::RunFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFailed {
    /// The kind of failure.
    pub kind: FailKind,
    /// The stable error code.
    pub code: Code,
    /// The reason for users.
    pub reason: String,
    /// The root's last text, if any.
    pub text: Option<Text>,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// What the whole tree spent.
    pub figures: Figures,
    /// The run's changes to files so far, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// See [`super::EventBody::RunCancelled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCancelled {
    /// The reason for users.
    pub reason: String,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// What the whole tree spent.
    pub figures: Figures,
    /// The run's changes to files so far, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "who", content = "id")]
pub enum Sender {
    /// A user.
    Person,
    /// Another agent.
    Agent(AgentId),
    /// The host, with the result of a child that ended.
    Child(AgentId),
    /// The host, with a note of its own.
    Host(HostNote),
}

/// Why the host added a note to an agent's conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostNote {
    /// The agent's reply had neither text nor calls.
    EmptyReply,
    /// The agent's final answer does not match the schema.
    SchemaMismatch,
    /// The agent's report does not answer every criterion.
    CriteriaUnanswered,
    /// Most of a budget is spent.
    BudgetLow,
    /// The agent's reply was cut off before its first tool call.
    CutOff,
    /// A hook objects to the result of a call.
    Hook,
}

/// See [`super::EventBody::MessageReceived`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageReceived {
    /// The author of the message.
    pub from: Sender,
    /// The text of the message.
    pub text: Text,
}

/// See [`super::EventBody::CancelRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequested {
    /// The origin of the request: `user`, an agent's id, or `host`.
    pub by: String,
    /// The reason for users.
    pub reason: String,
    /// Whether the agents end at once, without a grace period.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kill: bool,
}

/// See [`super::EventBody::ContextTrimmed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextTrimmed {
    /// The calls whose outputs are omitted from later requests.
    pub call_ids: Vec<String>,
    /// How many bytes the trimming saved.
    pub freed_bytes: u64,
}

/// See [`super::EventBody::ContextCompacted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextCompacted {
    /// The attempt of the call that wrote the summary.
    pub attempt: u32,
    /// The turn before which it was written.
    pub turn: u32,
    /// The number of the summary call before this turn. Not set if the host wrote the summary, because the provider
    /// refused every request for one as too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// The number of messages that the summary replaces. The assignment stays.
    pub replaced: u64,
    /// The number of the newest messages that stay as they are.
    pub kept: u64,
    /// The summary.
    pub summary: Text,
    /// The estimated tokens of the conversation before.
    pub tokens_before: u64,
    /// The estimated tokens of the conversation after.
    pub tokens_after: u64,
}

/// The state of an entry in an agent's to-do list.
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

/// An entry of an agent's to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// The work to do.
    pub text: String,
    /// The state of the entry.
    pub status: TodoStatus,
}

/// See [`super::EventBody::TodoChanged`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoChanged {
    /// The whole list after the change.
    pub items: Vec<TodoItem>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}
