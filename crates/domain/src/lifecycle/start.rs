//! Waiting to start, and starting.

use super::{AgentState, NewEvent, OpenState, Run};
use crate::event::{QueuedFor, SubagentQueued, SubagentStarted};
use crate::id::AgentId;
use crate::object_id::ObjectId;

impl Run {
    /// Says once that a created child waits. Nothing for an agent that has started, is to end, or has said so
    /// already.
    pub fn queue(&self, id: &AgentId, waits_for: QueuedFor) -> Option<NewEvent> {
        match self.open(id)?.state {
            OpenState::Created { queued: false } if !self.is_cancelled(id) => {
                Some((id.clone(), SubagentQueued { waits_for }.into()))
            }
            _ => None,
        }
    }

    /// Starts a created child from a snapshot of its parent's files, where the run has such. Nothing for an agent
    /// that runs already, or is to end.
    pub fn start(&self, id: &AgentId, base: Option<ObjectId>) -> Option<NewEvent> {
        match self.open(id)?.state {
            OpenState::Created { .. } if !self.is_cancelled(id) => {
                let started = SubagentStarted { from: AgentState::Created, to: AgentState::Running, base };
                Some((id.clone(), started.into()))
            }
            _ => None,
        }
    }
}
