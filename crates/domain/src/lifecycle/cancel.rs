//! Cancels an agent and all agents below it. The request is journalled first, and none of their effects starts after
//! it.

use super::{Cancel, CommandRefused, NewEvent, OpenState, Run};
use crate::event::CancelRequested;
use crate::id::AgentId;

impl Run {
    /// Records a cancel request. A second request is refused, unless a kill follows a cancel.
    pub fn cancel(&self, id: &AgentId, cancel: Cancel) -> Result<NewEvent, CommandRefused> {
        let agent = self.commanded(id)?;
        match &agent.state {
            OpenState::Created { .. } | OpenState::Running { .. } | OpenState::WaitingForMerge { .. } => {}
            OpenState::Completed { .. } | OpenState::Failed(_) => {
                return Err(CommandRefused::State(agent.state.name()));
            }
        }
        if agent.cancel.as_ref().is_some_and(|before| before.kill || !cancel.kill) {
            return Err(CommandRefused::Cancelled);
        }
        if self.outcome.is_some() {
            return Err(CommandRefused::RunEnded);
        }
        let Cancel { by, reason, kill } = cancel;
        Ok((id.clone(), CancelRequested { by, reason, kill }.into()))
    }

    /// The agent and all open agents below it, children before parents.
    pub fn subtree(&self, id: &AgentId) -> Vec<AgentId> {
        let mut order = Vec::new();
        let mut pending = vec![id.clone()];
        while let Some(next) = pending.pop() {
            let Some(agent) = self.open(&next) else { continue };
            pending.extend(agent.open_children.iter().map(|&number| next.child(number)));
            order.push(next);
        }
        order.reverse();
        order
    }
}
