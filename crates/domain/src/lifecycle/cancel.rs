//! An agent and all below it are to end. The wish is journalled first; nothing of theirs starts after it.

use super::{Cancel, NewEvent, OpenState, Run};
use crate::event::CancelRequested;
use crate::id::AgentId;

impl Run {
    /// Records the wish. Nothing if the agent has ended, closed or not, or was told already (but a kill overtakes a
    /// cancel).
    pub fn cancel(&self, id: &AgentId, cancel: Cancel) -> Option<NewEvent> {
        let agent = self.open(id)?;
        if matches!(agent.state, OpenState::Completed { .. } | OpenState::Failed(_)) {
            return None;
        }
        let told = agent.cancel.as_ref().is_some_and(|before| before.kill || !cancel.kill);
        if told || self.outcome.is_some() {
            return None;
        }
        let Cancel { by, reason, kill } = cancel;
        Some((id.clone(), CancelRequested { by, reason, kill }.into()))
    }

    /// The agent and all open ones below it, children before parents.
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
