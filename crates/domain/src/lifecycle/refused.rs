//! Why a command is refused in an agent's current state.

use thiserror::Error;

use super::{AgentState, Node, OpenAgent, Run};
use crate::id::AgentId;

/// The reason for refusing a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CommandRefused {
    #[error("there is no such agent")]
    UnknownAgent,
    /// The command does not apply to an agent in this state.
    #[error("the agent is {}", .0.as_str())]
    State(AgentState),
    /// The root has no parent that would start, integrate or close it.
    #[error("the agent is the root")]
    Root,
    #[error("the agent or an ancestor is cancelled")]
    Cancelled,
    #[error("the run has ended")]
    RunEnded,
    #[error("children of the agent are open")]
    OpenChildren,
    #[error("a model call of the agent is under way")]
    ModelCall,
    #[error("a call of the agent has a question and no result")]
    Question,
    #[error("the agent's wait is already in the journal")]
    AlreadyQueued,
    #[error("the call already has a question")]
    AlreadyAsked,
    #[error("the work of the agent is merged")]
    AlreadyMerged,
}

impl Run {
    /// The agent of a command, which must be open.
    pub(super) fn commanded(&self, id: &AgentId) -> Result<&OpenAgent, CommandRefused> {
        match self.get(id) {
            Some(Node::Open(agent)) => Ok(agent),
            Some(Node::Closed(_)) => Err(CommandRefused::State(AgentState::Closed)),
            None => Err(CommandRefused::UnknownAgent),
        }
    }

    /// Like [`commanded`](Self::commanded), for a command that does not apply to the root.
    pub(super) fn commanded_child(&self, id: &AgentId) -> Result<&OpenAgent, CommandRefused> {
        let agent = self.commanded(id)?;
        if id.is_root() { Err(CommandRefused::Root) } else { Ok(agent) }
    }
}

impl OpenAgent {
    /// Checks that the agent has no open child, call or question.
    pub(super) fn check_at_rest(&self) -> Result<(), CommandRefused> {
        if !self.open_children.is_empty() {
            return Err(CommandRefused::OpenChildren);
        }
        if self.calling.is_some() {
            return Err(CommandRefused::ModelCall);
        }
        if !self.questions.is_empty() {
            return Err(CommandRefused::Question);
        }
        Ok(())
    }
}
