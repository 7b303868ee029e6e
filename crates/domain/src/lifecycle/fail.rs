//! An attempt has ended badly: another one, or failed.

use super::{AgentState, Failure, NewEvent, OpenState, Run};
use crate::code::Code;
use crate::event::{SubagentAttempt, SubagentFailed};
use crate::id::AgentId;

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// Another attempt.
    Again(NewEvent),
    /// No other; the child has failed.
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

    /// Ends an attempt of a child. Nothing for the root, for one that is past failing, while children are open or
    /// while a model call or a call that a person was asked about is under way: those are settled first.
    pub fn fail(&self, id: &AgentId, failure: Failure) -> Option<Attempt> {
        let agent = self.open(id)?;
        let working =
            !agent.open_children.is_empty() || agent.calling.is_some() || !agent.requests.is_empty();
        if id.is_root() || working {
            return None;
        }
        let from = agent.state.name();
        if let (true, OpenState::Running { attempt }) = (self.retries(id, &failure), &agent.state) {
            let again = SubagentAttempt {
                n: attempt + 1,
                kind: failure.kind,
                code: failure.code,
                reason: failure.reason,
                in_place: self.base.is_none() && agent.changed,
            };
            return Some(Attempt::Again((id.clone(), again.into())));
        }
        if !matches!(agent.state, OpenState::Created { .. } | OpenState::Running { .. }) {
            return None;
        }
        let Failure { kind, code, reason, report } = failure;
        let failed = SubagentFailed { from, to: AgentState::Failed, kind, code, reason, report };
        Some(Attempt::Over((id.clone(), failed.into())))
    }
}

/// Whether another attempt would fail in the same way.
fn is_hopeless(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::ReplayDiffers)
}
