//! The effects that the driver starts after their commit is durable, and the inputs that it receives. Each effect runs
//! in a task of its desk and sends back exactly one input.

use std::path::PathBuf;
use std::sync::Arc;

use posse_agent::conversation::Conversation;
use posse_domain::event::{CheckRecord, RunResult};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

use super::desks::calls::{CallEffect, CallEnd, CommittedFiles, HookEffect, HookedMoment};
use super::desks::files::FilesEffect;
use super::desks::models::{ModelDone, ModelEffect, WaitEnd};
use crate::history::HistoryError;
use crate::ports::{
    HookAnswer, MadeWorkspace, Mail, Merge, MergeRequest, PreparedEffect, RecoveredEffect, Salvage,
    StoreError, ToolFailure, UpdateOutcome, WorkspaceError, WorkspaceId,
};

pub(crate) enum Effect {
    Model(Box<ModelEffect>),
    Call(Box<CallEffect>),
    Files(FilesEffect),
    Hook(Box<HookEffect>),
    /// Read the conversation of a closed child.
    History {
        agent: AgentId,
        of: AgentId,
    },
}

/// A message in the driver's inbox. Every effect sends one, so the inbox holds at most as many inputs as effects are in
/// flight.
pub(crate) enum Input {
    Model(Box<ModelDone>),
    /// A wait for a provider ended.
    Waited {
        agent: AgentId,
        end: WaitEnd,
    },
    Prepared {
        agent: AgentId,
        call_id: Arc<str>,
        result: Result<PreparedEffect, ToolFailure>,
    },
    /// The workspace could not be prepared for the programs of a call.
    Unready {
        agent: AgentId,
        call_id: Arc<str>,
        problem: WorkspaceError,
    },
    /// A tool call has ended.
    Tool {
        agent: AgentId,
        call_id: Arc<str>,
        end: Box<CallEnd>,
    },
    Recovered {
        agent: AgentId,
        call_id: Arc<str>,
        recovered: RecoveredEffect,
        files: CommittedFiles,
    },
    History {
        agent: AgentId,
        conversation: Result<Conversation, HistoryError>,
    },
    Made {
        agent: AgentId,
        made: Result<MadeWorkspace, WorkspaceError>,
    },
    Shared {
        snapshot: ObjectId,
        dir: Result<PathBuf, WorkspaceError>,
    },
    Snapshot {
        agent: AgentId,
        taken: Result<ObjectId, WorkspaceError>,
    },
    Salvaged {
        agent: AgentId,
        salvage: Result<Salvage, WorkspaceError>,
    },
    Merged {
        request: Box<MergeRequest>,
        merge: Result<Merge, WorkspaceError>,
    },
    Checked {
        child: AgentId,
        checks: Result<Vec<CheckRecord>, WorkspaceError>,
    },
    Updated {
        child: AgentId,
        of: WorkspaceId,
        new: ObjectId,
        updated: Result<UpdateOutcome, WorkspaceError>,
    },
    Published(Result<Option<RunResult>, WorkspaceError>),
    Hooked {
        agent: AgentId,
        about: HookedMoment,
        answer: Result<HookAnswer, WorkspaceError>,
    },
    Mail(Vec<Mail>),
    /// The store does not accept the run's commits any more.
    Lost(StoreError),
}

impl Input {
    /// The failure of the machine that the input reports, if any. It does not count as a failure of the agent.
    pub(crate) fn machine_failure(&self) -> Option<&WorkspaceError> {
        let problem = match self {
            Self::Unready { problem, .. } => Some(problem),
            Self::Hooked { answer, .. } => answer.as_ref().err(),
            Self::Made { made, .. } => made.as_ref().err(),
            Self::Shared { dir, .. } => dir.as_ref().err(),
            Self::Snapshot { taken, .. } => taken.as_ref().err(),
            Self::Salvaged { salvage, .. } => salvage.as_ref().err(),
            Self::Merged { merge, .. } => merge.as_ref().err(),
            Self::Checked { checks, .. } => checks.as_ref().err(),
            Self::Updated { updated, .. } => updated.as_ref().err(),
            Self::Published(result) => result.as_ref().err(),
            _ => None,
        };
        problem.filter(|problem| problem.is_of_machine())
    }
}
