//! What each kind of event carries.

use serde::{Deserialize, Serialize};

use super::catalogue_text::CatalogueText;
use super::files::{BaseSnapshot, RunResult};
use crate::budget::Figures;
use crate::code::Code;
use crate::contract::Contract;
use crate::definition::Definition;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{FailKind, StateName};
use crate::message::Image;
use crate::object_id::ObjectId;
use crate::permission::{Approvals, Decision, ProjectRules, Rule, Rules};
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

/// See [`super::EventBody::SubagentCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentCreated {
    /// Always `created`.
    pub to: StateName,
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
    pub from: StateName,
    /// `running`.
    pub to: StateName,
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
}

/// See [`super::EventBody::SubagentWaitingForMerge`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentWaitingForMerge {
    /// `running`.
    pub from: StateName,
    /// `waiting_for_merge`.
    pub to: StateName,
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
    pub from: StateName,
    /// `failed`.
    pub to: StateName,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub from: StateName,
    /// `closed`.
    pub to: StateName,
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
    pub from: StateName,
    /// `completed`.
    pub to: StateName,
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
    pub from: StateName,
    /// `failed`.
    pub to: StateName,
    /// `integration` or `cancelled`.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
}

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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_usual(unowned: &UnownedWriters) -> bool {
    *unowned == UnownedWriters::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
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
    /// What an answer must name: the hash of tool, arguments and contract.
    pub approval: Hash,
}

/// What a question was answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
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
    pub decision: Answered,
    /// Whether the operation's exact literal is allowed from now on, in this run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Who answered.
    pub by: AnsweredBy,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
