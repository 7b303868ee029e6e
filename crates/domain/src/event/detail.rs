//! What the events of runs and of conversations carry.

use serde::{Deserialize, Serialize};

use super::catalogue_text::CatalogueText;
use super::files::{BaseSnapshot, RunResult};
use crate::budget::Figures;
use crate::code::Code;
use crate::contract::Contract;
use crate::definition::Definition;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::FailKind;
use crate::permission::{Approvals, ProjectRules, Rules};
use crate::plan::Plan;
pub use crate::plan::UnownedWriters;
use crate::text::Text;

/// How a run is limited beyond its root's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// Base of the turn limit by depth; none does not limit.
    pub base_turns: Option<u32>,
    /// How many calls may run at once in the tree.
    pub parallel: u32,
    /// Whether children close by themselves once integrated.
    pub close_on_completion: bool,
    /// Rules of the user's settings.
    pub operator_rules: Rules,
    /// Rules of the run.
    pub run_rules: Rules,
    /// What a person allowed in advance: `--allow`, and what they stored by saying "always".
    #[serde(default, skip_serializing_if = "Approvals::is_empty")]
    pub approvals: Approvals,
    /// What becomes of writers that own nothing of their own.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub unowned_writers: UnownedWriters,
    /// Where a person said that a provider is, for this run. Never with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<GivenBaseUrl>,
    /// Rules of the project's settings.
    #[serde(default, skip_serializing_if = "<[Rules]>::is_empty")]
    pub project_rules: ProjectRules,
    /// The forked skill that is all the root does: no model is asked there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The skill that a person had the root take in: its files are the root's to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_skill: Option<String>,
    /// Whether who follows a task hears the events of sub-agents below it too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_sub_agent_events: bool,
}

/// Where a provider is, as a person said it for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenBaseUrl {
    /// The provider.
    pub provider: String,
    /// Its base URL.
    pub url: String,
}

/// See [`super::EventBody::RunStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStarted {
    /// What the user asked for.
    pub request: Text,
    /// The root's contract.
    pub contract: Contract,
    /// Its hash.
    pub contract_hash: Hash,
    /// The working directory.
    pub dir: String,
    /// The embedder's session, opaque.
    pub session_id: Option<String>,
    /// Limits and rules of the whole run.
    pub terms: RunTerms,
    /// The definitions as they were when the run started; a run keeps them.
    pub definitions: Vec<Definition>,
    /// What was found on the machine beyond those. Runs that found the same share one text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueText>,
    /// The project's instructions for agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_md: Option<Text>,
    /// The files it starts from; none if nobody in it can change any, or if it works in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseSnapshot>,
}

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
fn is_usual(unowned: &UnownedWriters) -> bool {
    *unowned == UnownedWriters::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}
