//! Queues and starts a created child.

use super::{AgentState, CommandRefused, NewEvent, OpenState, Run};
use crate::event::{QueuedFor, SubagentQueued, SubagentStarted};
use crate::id::AgentId;
use crate::object_id::ObjectId;

impl Run {
    /// Journals what a created child waits for, once.
    pub fn queue(&self, id: &AgentId, waits_for: QueuedFor) -> Result<NewEvent, CommandRefused> {
        if self.to_start(id)? {
            return Err(CommandRefused::AlreadyQueued);
        }
        Ok((id.clone(), SubagentQueued { waits_for }.into()))
    }

    /// Starts a created child, from a snapshot of its parent's files if the run has workspaces.
    pub fn start(&self, id: &AgentId, base: Option<ObjectId>) -> Result<NewEvent, CommandRefused> {
        self.to_start(id)?;
        let started = SubagentStarted { from: AgentState::Created, to: AgentState::Running, base };
        Ok((id.clone(), started.into()))
    }

    /// Whether the journal has the wait of an agent that has not started.
    fn to_start(&self, id: &AgentId) -> Result<bool, CommandRefused> {
        let agent = self.commanded(id)?;
        match &agent.state {
            OpenState::Created { .. } if self.is_cancelled(id) => Err(CommandRefused::Cancelled),
            OpenState::Created { queued } => Ok(*queued),
            OpenState::Running { .. }
            | OpenState::WaitingForMerge { .. }
            | OpenState::Completed { .. }
            | OpenState::Failed(_) => Err(CommandRefused::State(agent.state.name())),
        }
    }
}
