//! Payloads of events about a child's lifecycle.

use serde::{Deserialize, Serialize};

use crate::budget::Figures;
use crate::code::Code;
use crate::contract::Contract;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{AgentState, CloseReason, FailKind};
use crate::object_id::ObjectId;
use crate::text::Text;

/// See [`super::EventBody::SubagentCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentCreated {
    /// Always `created`.
    pub to: AgentState,
    /// The name of the child's definition.
    pub definition: String,
    /// The skill that the child was forked with.
    pub skill: Option<String>,
    /// The child's depth in the tree.
    pub depth: u32,
    /// The id of the child's parent.
    pub parent_id: AgentId,
    /// The id of the run's root agent.
    pub root_id: AgentId,
    /// The child's turns per attempt. None means no limit.
    pub turn_limit: Option<u32>,
    /// The parent's tool call that asked for it.
    pub call_id: String,
    /// Whether the parent continues without waiting for the child.
    pub background: bool,
    /// Whether the child's tools can write files or execute programs.
    pub writer: bool,
    /// Hash of the child's contract.
    pub contract_hash: Hash,
    /// The child's contract.
    pub contract: Contract,
}

/// Why a child cannot start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuedFor {
    /// It waits for a slot of the run or of its definition.
    Slot,
    /// It waits until another writer closes.
    Ownership,
    /// It waits until a budget has enough left.
    Budget,
}

/// See [`super::EventBody::SubagentQueued`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentQueued {
    /// The limit that the child waits for.
    pub waits_for: QueuedFor,
}

/// See [`super::EventBody::SubagentStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentStarted {
    /// Always `created`.
    pub from: AgentState,
    /// Always `running`.
    pub to: AgentState,
    /// The snapshot of the parent's files that the child starts from. None if the run has no workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ObjectId>,
}

/// See [`super::EventBody::SubagentAttempt`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentAttempt {
    /// The attempt's number, 2 or more.
    pub n: u32,
    /// The kind of failure that ended the previous attempt.
    pub kind: FailKind,
    /// The error code that ended the previous attempt.
    pub code: Code,
    /// Why the previous attempt ended, for users and for the new attempt.
    pub reason: String,
    /// Whether the new attempt continues with the files that the previous attempt changed. Otherwise it starts from the
    /// same snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

/// See [`super::EventBody::SubagentWaitingForMerge`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentWaitingForMerge {
    /// Always `running`.
    pub from: AgentState,
    /// Always `waiting_for_merge`.
    pub to: AgentState,
    /// The child's report.
    pub report: Text,
    /// Whether the child reached its turn limit before it was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns_exhausted: bool,
    /// The commit with the child's changes. None if it changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ObjectId>,
}

/// See [`super::EventBody::SubagentFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentFailed {
    /// The state in which the child failed.
    pub from: AgentState,
    /// Always `failed`.
    pub to: AgentState,
    /// The kind of failure.
    pub kind: FailKind,
    /// The stable error code.
    pub code: Code,
    /// The reason for users.
    pub reason: String,
    /// The report, if the child could still write one.
    pub report: Option<Text>,
}

/// The outcome of an agent in its closed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    /// Integration passed.
    Completed,
    /// Anything else.
    Failed,
}

/// See [`super::EventBody::SubagentClosed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentClosed {
    /// The id of the closed child.
    pub sub_agent_id: AgentId,
    /// The child's number minus one. In a plan, the step's position.
    pub step_idx: u32,
    /// `completed` or `failed`.
    pub from: AgentState,
    /// Always `closed`.
    pub to: AgentState,
    /// The outcome of the child.
    pub final_status: FinalStatus,
    /// `integrated`, or the kind of failure.
    pub close_reason: CloseReason,
    /// What the child itself spent.
    pub usage: Figures,
    /// What the child and all agents below it spent.
    pub subtree_usage: Figures,
}

/// See [`super::EventBody::SubagentRefused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentRefused {
    /// The tool call that requested the child.
    pub call_id: String,
    /// The requested definition.
    pub definition: String,
    /// The stable error code.
    pub code: Code,
    /// The reason for the model and for users.
    pub reason: String,
}

/// What an integration changed in the parent's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The child changed no files.
    None,
    /// The child wrote directly into the parent's files.
    InPlace,
    /// The child's commit was merged into the parent's files.
    Merged,
}

/// See [`super::EventBody::IntegrationPassed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegrationPassed {
    /// Always `waiting_for_merge`.
    pub from: AgentState,
    /// Always `completed`.
    pub to: AgentState,
    /// How the child's changes reached the parent's files.
    pub change: Change,
    /// Files of the parent whose content matched neither side of the merge. They were kept as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// See [`super::EventBody::IntegrationFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegrationFailed {
    /// Always `waiting_for_merge`.
    pub from: AgentState,
    /// Always `failed`.
    pub to: AgentState,
    /// `integration` or `cancelled`.
    pub kind: FailKind,
    /// The stable error code.
    pub code: Code,
    /// The reason for users.
    pub reason: String,
}
