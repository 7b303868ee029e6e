//! Derives what an open agent waits for, from the agent's own wait, the journal and the desks. `task_status` and the
//! journal show it.

use std::fmt;

use posse_domain::event::QueuedFor;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{AgentState, CommandRefused, OpenState};
use posse_domain::text::first_line;

use super::Driver;
use super::desks::calls::asked_operation;
use super::session::AgentWait;

/// Limit of characters of an operation in a status.
const OPERATION_MAX_CHARS: usize = 120;

/// What an open agent waits for. If there are several reasons, the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason<'a> {
    /// An approver's answer about this operation.
    Approver(&'a str),
    /// A permit of its model's provider, or the end of a pause.
    Provider,
    Hooks,
    Merge,
    /// The conversation of the closed child that it continues.
    History,
    Snapshot,
    /// Another writer, which must close first.
    Writer,
    Budget,
    Slot,
    Child,
}

impl WaitReason<'_> {
    /// The reason why a created agent is queued, for the journal. A wait that ends with the next input is not
    /// journalled.
    fn queued_for(wait: Option<Self>) -> Option<QueuedFor> {
        match wait {
            Some(Self::Hooks | Self::History | Self::Snapshot) => None,
            Some(Self::Writer) => Some(QueuedFor::Ownership),
            Some(Self::Budget) => Some(QueuedFor::Budget),
            Some(Self::Approver(_) | Self::Provider | Self::Merge | Self::Slot | Self::Child) | None => {
                Some(QueuedFor::Slot)
            }
        }
    }
}

impl fmt::Display for WaitReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approver(operation) => {
                return write!(f, "a person: {}", first_line(operation, OPERATION_MAX_CHARS));
            }
            Self::Provider => "its model's provider",
            Self::Hooks => "a hook",
            Self::Merge => "its integration",
            Self::History => "the conversation that it continues",
            Self::Snapshot => "its parent's files",
            Self::Writer => "another writer",
            Self::Budget => "budget",
            Self::Slot => "a slot",
            Self::Child => "a child",
        })
    }
}

impl Driver {
    pub(super) fn wait_of(&self, id: &AgentId) -> Option<WaitReason<'_>> {
        let (session, agent) = (self.core.sessions.get(id)?, self.core.run.open(id)?);
        if let Some(operation) = asked_operation(&self.core, id) {
            return Some(WaitReason::Approver(operation));
        }
        if agent.provider_wait.is_some() {
            return Some(WaitReason::Provider);
        }
        if self.calls.waits_for_hooks(id) {
            return Some(WaitReason::Hooks);
        }
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            return Some(WaitReason::Merge);
        }
        match session.wait {
            AgentWait::History => return Some(WaitReason::History),
            AgentWait::Snapshot => return Some(WaitReason::Snapshot),
            _ if self.writers.is_waiting(id) => return Some(WaitReason::Writer),
            AgentWait::Budget => return Some(WaitReason::Budget),
            AgentWait::Slot => return Some(WaitReason::Slot),
            AgentWait::Idle
            | AgentWait::Provider(_)
            | AgentWait::Reply(_)
            | AgentWait::Salvage
            | AgentWait::End { .. } => {}
        }
        self.calls.waits_in_engine(id).then_some(WaitReason::Child)
    }

    /// Journals what the children that were created in this round wait for.
    pub(super) fn log_waits(&mut self) {
        for id in std::mem::take(&mut self.fresh) {
            if !self.core.sessions.contains_key(&id) {
                continue;
            }
            let Some(queued_for) = WaitReason::queued_for(self.wait_of(&id)) else { continue };
            match self.core.run.queue(&id, queued_for) {
                Ok((id, body)) => self.core.emit(id, body),
                // The child was started or cancelled in the round that created it.
                Err(CommandRefused::State(AgentState::Running) | CommandRefused::Cancelled) => {}
                Err(refused) => self.core.stop_for_refusal(&id, "queue", refused),
            }
        }
    }
}
