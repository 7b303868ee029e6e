//! The one list of event kinds, from which the enum, its wire names and its codec are generated.

use super::calls::{ModelCalled, ModelReplied, ProviderWaitEnded, ProviderWaitStarted};
use super::children::{
    IntegrationFailed, IntegrationPassed, SubagentAttempt, SubagentClosed, SubagentCreated, SubagentFailed,
    SubagentQueued, SubagentRefused, SubagentStarted, SubagentWaitingForMerge,
};
use super::codec::CodecError;
use super::detail::{
    CancelRequested, ContextCompacted, ContextTrimmed, MessageReceived, RunCancelled, RunCompleted,
    RunFailed, RunPlanned, RunResumed, TodoChanged,
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
        /// The data of an event, by kind.
        #[derive(Debug, Clone, PartialEq)]
        pub enum EventBody {
            $(#[doc = $doc] $variant($detail),)*
        }

        /// The kind of an event, without its data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $(#[doc = $doc] $variant,)*
        }

        impl EventKind {
            /// The kind's name in the journal.
            pub fn as_str(self) -> &'static str {
                match self { $(EventKind::$variant => $kind,)* }
            }

            /// Parses the name that [`as_str`](Self::as_str) returns.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($kind => Some(EventKind::$variant),)* _ => None }
            }

            /// Whether an event of this kind is the last one of its run.
            pub fn ends_run(self) -> bool {
                matches!(self, EventKind::RunCompleted | EventKind::RunFailed | EventKind::RunCancelled)
            }
        }

        impl std::fmt::Display for EventKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl From<&EventBody> for EventKind {
            fn from(body: &EventBody) -> Self {
                match body { $(EventBody::$variant(_) => EventKind::$variant,)* }
            }
        }

        impl EventBody {
            /// The names of all kinds.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The names of all kinds, each with its meaning.
            pub const MEANINGS: &'static [(&'static str, &'static str)] = &[$(($kind, $doc)),*];

            /// The kind's name in the journal.
            pub fn kind(&self) -> &'static str {
                match self { $(EventBody::$variant(_) => $kind,)* }
            }

            /// The event's data as JSON, for users and other programs.
            pub fn detail(&self) -> serde_json::Value {
                // Cannot fail: the data has only string keys.
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
    /// The run and its root agent started.
    RunStarted(Box<RunStarted>) => "run.started",
    /// The host executes a plan; the root is asked only if a step fails.
    RunPlanned(Box<RunPlanned>) => "run.planned",
    /// A new lease holder continued the run.
    RunResumed(RunResumed) => "run.resumed",
    /// The run completed.
    RunCompleted(RunCompleted) => "run.completed",
    /// The run failed.
    RunFailed(RunFailed) => "run.failed",
    /// The run was cancelled.
    RunCancelled(RunCancelled) => "run.cancelled",
    /// A child's contract is committed.
    SubagentCreated(Box<SubagentCreated>) => "agent.subagent_created",
    /// A child waits to start.
    SubagentQueued(SubagentQueued) => "agent.subagent_queued",
    /// The first attempt began.
    SubagentStarted(SubagentStarted) => "agent.subagent_started",
    /// A further attempt began.
    SubagentAttempt(SubagentAttempt) => "agent.subagent_attempt",
    /// The child ended its work. Nothing is accepted yet.
    SubagentWaitingForMerge(SubagentWaitingForMerge) => "agent.subagent_waiting_for_merge",
    /// The child failed before it had anything to integrate.
    SubagentFailed(SubagentFailed) => "agent.subagent_failed",
    /// The child is closed and has no further activity.
    SubagentClosed(SubagentClosed) => "agent.subagent_closed",
    /// A child was refused. The event belongs to its parent.
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
    /// The child's change is merged. Its parent's files are about to be updated.
    WorktreeMerged(WorktreeMerged) => "agent.worktree_merged",
    /// An isolated workspace was created for the agent.
    WorkspaceMade(WorkspaceMade) => "agent.workspace_made",
    /// Everything in the agent's workspace is in a commit that a ref keeps.
    WorkspaceSalvaged(WorkspaceSalvaged) => "agent.workspace_salvaged",
    /// The directory of a workspace was removed.
    WorkspaceRemoved(WorkspaceRemoved) => "agent.workspace_removed",
    /// A model call is about to be sent.
    ModelCalled(ModelCalled) => "agent.model_called",
    /// A model call ended or failed.
    ModelReplied(Box<ModelReplied>) => "agent.model_replied",
    /// The agent waits for its model's provider: a limit, or a provider that does not answer.
    ProviderWaitStarted(ProviderWaitStarted) => "agent.provider_wait_started",
    /// The wait is over, or the agent no longer waits.
    ProviderWaitEnded(ProviderWaitEnded) => "agent.provider_wait_ended",
    /// An effect is about to start.
    ToolIntended(ToolIntended) => "agent.tool_intended",
    /// A tool call has its result.
    ToolFinished(ToolFinished) => "agent.tool_finished",
    /// A tool call was cut off. Its outcome is unknown.
    ToolInterrupted(ToolInterrupted) => "agent.tool_interrupted",
    /// A rule denied a call, or asked about it.
    PermissionDecided(PermissionDecided) => "agent.permission_decided",
    /// A call waits for a user's answer.
    InputRequested(Box<InputRequested>) => "agent.input_requested",
    /// A call that waited for a user has its answer.
    InputAnswered(InputAnswered) => "agent.input_answered",
    /// A message for the agent, delivered between turns.
    MessageReceived(MessageReceived) => "agent.message_received",
    /// The agent and all agents below it are cancelled.
    CancelRequested(CancelRequested) => "agent.cancel_requested",
    /// Old tool outputs were removed from the conversation.
    ContextTrimmed(ContextTrimmed) => "agent.context_trimmed",
    /// A summary replaced the older messages of the conversation.
    ContextCompacted(ContextCompacted) => "agent.context_compacted",
    /// The agent's to-do list changed.
    TodoChanged(TodoChanged) => "agent.todo_changed",
}
