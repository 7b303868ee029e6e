//! Closing: exactly once, after the children, by the parent side.

use super::{AgentState, CloseReason, NewEvent, OpenState, Run};
use crate::budget::Figures;
use crate::event::{FinalStatus, SubagentClosed};
use crate::id::AgentId;

impl Run {
    /// Closes a completed or failed child without open children; nothing otherwise.
    pub fn close(&self, id: &AgentId, now_ms: i64) -> Option<NewEvent> {
        let agent = self.open(id)?;
        if id.is_root() || !agent.open_children.is_empty() {
            return None;
        }
        let (final_status, close_reason) = match &agent.state {
            OpenState::Completed { .. } => (FinalStatus::Completed, CloseReason::Integrated),
            OpenState::Failed(failure) => (FinalStatus::Failed, CloseReason::Failed(failure.kind)),
            _ => return None,
        };
        let wall = wall_since(agent.created_at_ms, now_ms);
        let closed = SubagentClosed {
            sub_agent_id: id.clone(),
            step_idx: agent.contract.parent.step_idx,
            from: agent.state.name(),
            to: AgentState::Closed,
            final_status,
            close_reason: close_reason.as_str().to_owned(),
            usage: self.ledger.own(id).copied().unwrap_or_default() + wall,
            subtree_usage: self.ledger.subtree(id).copied().unwrap_or_default() + wall,
        };
        Some((id.clone(), closed.into()))
    }
}

/// Wall time as figures. A clock that jumped back gives none.
pub(super) fn wall_since(from_ms: i64, to_ms: i64) -> Figures {
    Figures { wall_ms: u64::try_from(to_ms - from_ms).unwrap_or(0), ..Figures::default() }
}
