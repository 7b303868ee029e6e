//! Decides what follows a failed attempt of a child: another attempt, or the child fails.

use super::{AgentState, CommandRefused, Failure, NewEvent, OpenState, Run};
use crate::code::Code;
use crate::event::{SubagentAttempt, SubagentFailed};
use crate::id::AgentId;

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    Again(NewEvent),
    /// The child fails.
    Over(NewEvent),
}

impl Run {
    /// Whether another attempt follows this failure.
    pub fn retries(&self, id: &AgentId, failure: &Failure) -> bool {
        let Some(agent) = self.open(id) else { return false };
        let OpenState::Running { attempt } = agent.state else { return false };
        !id.is_root()
            && failure.kind.is_retried()
            && !is_hopeless(failure.code)
            && attempt <= agent.contract.execution.max_retries
            && !self.is_cancelled(id)
            && self.ledger.has_room_for_report(id)
    }

    /// Ends an attempt of a child. Its children, its model call and its calls with open questions must have ended.
    pub fn fail(&self, id: &AgentId, failure: Failure) -> Result<Attempt, CommandRefused> {
        let agent = self.commanded_child(id)?;
        agent.check_at_rest()?;
        let from = agent.state.name();
        match &agent.state {
            OpenState::Running { attempt } if self.retries(id, &failure) => {
                let again = SubagentAttempt {
                    n: attempt + 1,
                    kind: failure.kind,
                    code: failure.code,
                    reason: failure.reason,
                    in_place: self.base.is_none() && agent.changed,
                };
                Ok(Attempt::Again((id.clone(), again.into())))
            }
            OpenState::Created { .. } | OpenState::Running { .. } => {
                let Failure { kind, code, reason, report } = failure;
                let failed = SubagentFailed { from, to: AgentState::Failed, kind, code, reason, report };
                Ok(Attempt::Over((id.clone(), failed.into())))
            }
            OpenState::WaitingForMerge { .. } | OpenState::Completed { .. } | OpenState::Failed(_) => {
                Err(CommandRefused::State(from))
            }
        }
    }
}

/// Whether another attempt would fail in the same way.
fn is_hopeless(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::ReplayDiffers)
}
