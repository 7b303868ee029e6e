//! Closes a child: exactly once, after its children, on behalf of the parent.

use super::{AgentState, CloseReason, CommandRefused, NewEvent, OpenState, Run};
use crate::budget::Figures;
use crate::event::{FinalStatus, SubagentClosed};
use crate::id::AgentId;

impl Run {
    /// Closes a completed or failed child without open children.
    pub fn close(&self, id: &AgentId, now_ms: i64) -> Result<NewEvent, CommandRefused> {
        let agent = self.commanded_child(id)?;
        if !agent.open_children.is_empty() {
            return Err(CommandRefused::OpenChildren);
        }
        let (final_status, close_reason) = match &agent.state {
            OpenState::Completed { .. } => (FinalStatus::Completed, CloseReason::Integrated),
            OpenState::Failed(failure) => (FinalStatus::Failed, CloseReason::Failed(failure.kind)),
            OpenState::Created { .. } | OpenState::Running { .. } | OpenState::WaitingForMerge { .. } => {
                return Err(CommandRefused::State(agent.state.name()));
            }
        };
        let wall = wall_since(agent.created_at_ms, now_ms);
        let closed = SubagentClosed {
            sub_agent_id: id.clone(),
            step_idx: agent.contract.parent.step_idx,
            from: agent.state.name(),
            to: AgentState::Closed,
            final_status,
            close_reason,
            usage: self.ledger.own(id).copied().unwrap_or_default() + wall,
            subtree_usage: self.ledger.subtree(id).copied().unwrap_or_default() + wall,
        };
        Ok((id.clone(), closed.into()))
    }
}

/// Wall time as figures. Zero if the clock jumped back.
pub(super) fn wall_since(from_ms: i64, to_ms: i64) -> Figures {
    Figures { wall_ms: u64::try_from(to_ms - from_ms).unwrap_or(0), ..Figures::default() }
}
