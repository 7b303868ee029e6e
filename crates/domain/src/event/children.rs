//! What the events of a child's lifecycle carry.

use serde::{Deserialize, Serialize};

use crate::budget::Figures;
use crate::code::Code;
use crate::contract::Contract;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{AgentState, FailKind};
use crate::object_id::ObjectId;
use crate::text::Text;

/// See [`super::EventBody::SubagentCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentCreated {
    /// Always `created`.
    pub to: AgentState,
    /// The definition's name.
    pub definition: String,
    /// The skill it was forked with.
    pub skill: Option<String>,
    /// Its depth.
    pub depth: u32,
    /// Its parent.
    pub parent_id: AgentId,
    /// The root.
    pub root_id: AgentId,
    /// Its turns per attempt; none does not limit.
    pub turn_limit: Option<u32>,
    /// The parent's tool call that asked for it.
    pub call_id: String,
    /// Whether the parent went on without waiting.
    pub background: bool,
    /// Whether it can write or execute.
    pub writer: bool,
    /// The contract's hash.
    pub contract_hash: Hash,
    /// The contract.
    pub contract: Contract,
}

/// What a child waits for before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuedFor {
    /// A slot of the run or of its definition.
    Slot,
    /// Another writer to close.
    Ownership,
    /// Room in a budget.
    Budget,
}

/// See [`super::EventBody::SubagentQueued`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentQueued {
    /// What it waits for.
    pub waits_for: QueuedFor,
}

/// See [`super::EventBody::SubagentStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentStarted {
    /// `created`.
    pub from: AgentState,
    /// `running`.
    pub to: AgentState,
    /// The snapshot of its parent's files that it starts from; none if the run works in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ObjectId>,
}

/// See [`super::EventBody::SubagentAttempt`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentAttempt {
    /// 2 or more.
    pub n: u32,
    /// The kind of failure that ended the attempt before.
    pub kind: FailKind,
    /// Why it ended, as a word.
    pub code: Code,
    /// Why it ended, for people and for the new attempt.
    pub reason: String,
    /// Whether the new attempt works on the files that the one before changed; otherwise it begins with the same files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

/// See [`super::EventBody::SubagentWaitingForMerge`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentWaitingForMerge {
    /// `running`.
    pub from: AgentState,
    /// `waiting_for_merge`.
    pub to: AgentState,
    /// The report.
    pub report: Text,
    /// Whether it ran out of turns before it was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns_exhausted: bool,
    /// The commit with what it made of its files; none if that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ObjectId>,
}

/// See [`super::EventBody::SubagentFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentFailed {
    /// The state it was in.
    pub from: AgentState,
    /// `failed`.
    pub to: AgentState,
    /// The kind of failure.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
    /// What it could still report.
    pub report: Option<Text>,
}

/// How an agent ended, in the words of the closed event.
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
    /// The child.
    pub sub_agent_id: AgentId,
    /// Its number minus one; in a plan the step's position.
    pub step_idx: u32,
    /// `completed` or `failed`.
    pub from: AgentState,
    /// `closed`.
    pub to: AgentState,
    /// How it ended.
    pub final_status: FinalStatus,
    /// `integrated`, or the failed kind.
    pub close_reason: String,
    /// What it spent itself.
    pub usage: Figures,
    /// What it and all below it spent.
    pub subtree_usage: Figures,
}

/// See [`super::EventBody::SubagentRefused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentRefused {
    /// The tool call that asked.
    pub call_id: String,
    /// The definition asked for.
    pub definition: String,
    /// Why, as a word.
    pub code: Code,
    /// Why, for the model and for people.
    pub reason: String,
}

/// What an integration changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Nothing.
    None,
    /// Files, written where the parent works.
    InPlace,
    /// A commit, merged into the parent's files.
    Merged,
}

/// See [`super::EventBody::IntegrationPassed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegrationPassed {
    /// `waiting_for_merge`.
    pub from: AgentState,
    /// `completed`.
    pub to: AgentState,
    /// What it changed.
    pub change: Change,
    /// Files of the parent that were found with a content of neither side, and were kept as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// See [`super::EventBody::IntegrationFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegrationFailed {
    /// `waiting_for_merge`.
    pub from: AgentState,
    /// `failed`.
    pub to: AgentState,
    /// `integration` or `cancelled`.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
}
