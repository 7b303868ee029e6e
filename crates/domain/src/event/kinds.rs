//! The list of event kinds, once: the enum, its wire names and its codec all come from here.

use super::calls::{ModelCalled, ModelReplied, ProviderWaitEnded, ProviderWaitStarted};
use super::children::{
    IntegrationFailed, IntegrationPassed, SubagentAttempt, SubagentClosed, SubagentCreated, SubagentFailed,
    SubagentQueued, SubagentRefused, SubagentStarted, SubagentWaitingForMerge,
};
use super::codec::CodecError;
use super::detail::{
    CancelRequested, ContextTrimmed, MessageReceived, RunCancelled, RunCompleted, RunFailed, RunPlanned,
    RunResumed, TodoChanged,
};
use super::files::{
    ChecksFailed, ChecksPassed, WorkspaceMade, WorkspaceRemoved, WorkspaceSalvaged, WorktreeConflicted,
    WorktreeMerged,
};
use super::run_started::RunStarted;
use super::tools::{
    InputAnswered, InputRequested, PermissionDecided, ToolFinished, ToolIntended, ToolInterrupted,
};

macro_rules! events {
    ($(#[doc = $doc:literal] $variant:ident($detail:ty) => $kind:literal,)*) => {
        /// What happened, by kind.
        #[derive(Debug, Clone, PartialEq)]
        pub enum EventBody {
            $(#[doc = $doc] $variant($detail),)*
        }

        impl EventBody {
            /// Every kind there is.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Every kind there is, with what it tells.
            pub const MEANINGS: &'static [(&'static str, &'static str)] = &[$(($kind, $doc)),*];

            /// The kind's name in the journal.
            pub fn kind(&self) -> &'static str {
                match self { $(EventBody::$variant(_) => $kind,)* }
            }

            /// All of it, as people and programs outside see it.
            pub fn detail(&self) -> serde_json::Value {
                // A detail is plain data with text keys: it always has a JSON form.
                match self { $(EventBody::$variant(detail) => serde_json::to_value(detail).unwrap_or_default(),)* }
            }

            pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
                match self { $(EventBody::$variant(detail) => serde_json::to_string(detail),)* }
            }

            pub(super) fn from_json(kind: &str, json: &str) -> Result<Self, CodecError> {
                match kind {
                    $($kind => serde_json::from_str(json)
                        .map(EventBody::$variant)
                        .map_err(|error| CodecError::Malformed { kind: kind.to_owned(), error: error.to_string() }),)*
                    _ => Err(CodecError::UnknownKind { kind: kind.to_owned() }),
                }
            }
        }

        $(impl From<$detail> for EventBody {
            fn from(detail: $detail) -> Self {
                EventBody::$variant(detail)
            }
        })*
    };
}

events! {
    /// The run began; also the beginning of its root agent.
    RunStarted(Box<RunStarted>) => "run.started",
    /// The host carries out a plan; the root is asked only if a step fails.
    RunPlanned(Box<RunPlanned>) => "run.planned",
    /// A new owner went on with the run.
    RunResumed(RunResumed) => "run.resumed",
    /// The run ended well.
    RunCompleted(RunCompleted) => "run.completed",
    /// The run failed.
    RunFailed(RunFailed) => "run.failed",
    /// The run was cancelled.
    RunCancelled(RunCancelled) => "run.cancelled",
    /// A child's contract is committed.
    SubagentCreated(Box<SubagentCreated>) => "agent.subagent_created",
    /// A child waits for its turn to start.
    SubagentQueued(SubagentQueued) => "agent.subagent_queued",
    /// The first attempt began.
    SubagentStarted(SubagentStarted) => "agent.subagent_started",
    /// A further attempt began.
    SubagentAttempt(SubagentAttempt) => "agent.subagent_attempt",
    /// The child ended its work; nothing is accepted yet.
    SubagentWaitingForMerge(SubagentWaitingForMerge) => "agent.subagent_waiting_for_merge",
    /// The child failed before it had anything to integrate.
    SubagentFailed(SubagentFailed) => "agent.subagent_failed",
    /// No further activity, ever.
    SubagentClosed(SubagentClosed) => "agent.subagent_closed",
    /// A child that may not run; the event is its parent's.
    SubagentRefused(SubagentRefused) => "agent.subagent_refused",
    /// The child's work was accepted.
    IntegrationPassed(IntegrationPassed) => "agent.integration_passed",
    /// The child's work was not accepted.
    IntegrationFailed(IntegrationFailed) => "agent.integration_failed",
    /// The child's command criteria passed on the merged tree.
    ChecksPassed(ChecksPassed) => "agent.checks_passed",
    /// One of the child's command criteria failed on the merged tree.
    ChecksFailed(ChecksFailed) => "agent.checks_failed",
    /// The child's change cannot be merged, or may not be.
    WorktreeConflicted(WorktreeConflicted) => "agent.worktree_conflicted",
    /// The child's change is merged; its parent's files are about to be brought up to date.
    WorktreeMerged(WorktreeMerged) => "agent.worktree_merged",
    /// An isolated workspace was made for the agent.
    WorkspaceMade(WorkspaceMade) => "agent.workspace_made",
    /// Everything in the agent's workspace is in a commit that a ref keeps.
    WorkspaceSalvaged(WorkspaceSalvaged) => "agent.workspace_salvaged",
    /// The directory of a workspace is gone.
    WorkspaceRemoved(WorkspaceRemoved) => "agent.workspace_removed",
    /// A model call is about to be sent.
    ModelCalled(ModelCalled) => "agent.model_called",
    /// A model call ended, well or not.
    ModelReplied(Box<ModelReplied>) => "agent.model_replied",
    /// The agent waits for its model's provider: a limit, or a provider that does not answer.
    ProviderWaitStarted(ProviderWaitStarted) => "agent.provider_wait_started",
    /// The wait is over, or nobody waits any more.
    ProviderWaitEnded(ProviderWaitEnded) => "agent.provider_wait_ended",
    /// An effect is about to start.
    ToolIntended(ToolIntended) => "agent.tool_intended",
    /// A tool call has its result.
    ToolFinished(ToolFinished) => "agent.tool_finished",
    /// A tool call was cut off; its outcome is unknown.
    ToolInterrupted(ToolInterrupted) => "agent.tool_interrupted",
    /// A rule decided against a call, or asked.
    PermissionDecided(PermissionDecided) => "agent.permission_decided",
    /// A call waits for a person.
    InputRequested(Box<InputRequested>) => "agent.input_requested",
    /// A call that waited for a person has its answer.
    InputAnswered(InputAnswered) => "agent.input_answered",
    /// A message for the agent, delivered between turns.
    MessageReceived(MessageReceived) => "agent.message_received",
    /// The agent and all below it are to end.
    CancelRequested(CancelRequested) => "agent.cancel_requested",
    /// Old tool outputs left the conversation.
    ContextTrimmed(ContextTrimmed) => "agent.context_trimmed",
    /// The agent's own list changed.
    TodoChanged(TodoChanged) => "agent.todo_changed",
}
