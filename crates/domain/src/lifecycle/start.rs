//! Waiting to start, and starting.

use super::{Decided, OpenState, Run, StateName};
use crate::event::{QueuedFor, SubagentQueued, SubagentStarted};
use crate::id::AgentId;

impl Run {
    /// Says once that a created child waits. Nothing for an agent that has started, or has said so already.
    pub fn queue(&self, id: &AgentId, waits_for: QueuedFor) -> Option<Decided> {
        match self.open(id)?.state {
            OpenState::Created { queued: false } => Some((id.clone(), SubagentQueued { waits_for }.into())),
            _ => None,
        }
    }

    /// Starts a created child. Nothing for an agent that runs already.
    pub fn start(&self, id: &AgentId) -> Option<Decided> {
        match self.open(id)?.state {
            OpenState::Created { .. } => {
                let started = SubagentStarted { from: StateName::Created, to: StateName::Running };
                Some((id.clone(), started.into()))
            }
            _ => None,
        }
    }
}
