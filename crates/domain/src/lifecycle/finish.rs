//! A child's work has ended well: waiting for merge, integration, close.

use super::{Decided, OpenState, Run, StateName};
use crate::event::{Change, IntegrationPassed, SubagentWaitingForMerge};
use crate::id::AgentId;
use crate::text::Text;

/// How a child's work ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The report.
    pub report: Text,
    /// Whether it ran out of turns.
    pub turns_exhausted: bool,
}

impl Run {
    /// Ends a running child's work. The work is accepted in the same commit: without a change there is nothing to
    /// check, and a change stands already where the parent works. Closing follows unless the contract leaves it
    /// to the parent. Nothing while the child has open children of its own, or asks its model.
    pub fn finish(&self, id: &AgentId, finish: Finish) -> Option<Vec<Decided>> {
        let agent = self.open(id)?;
        let working =
            !agent.open_children.is_empty() || agent.calling.is_some() || !agent.requests.is_empty();
        if id.is_root() || !matches!(agent.state, OpenState::Running { .. }) || working {
            return None;
        }
        let waiting = SubagentWaitingForMerge {
            from: StateName::Running,
            to: StateName::WaitingForMerge,
            report: finish.report,
            turns_exhausted: finish.turns_exhausted,
        };
        let passed = IntegrationPassed {
            from: StateName::WaitingForMerge,
            to: StateName::Completed,
            change: if agent.changed { Change::InPlace } else { Change::None },
        };
        Some(vec![(id.clone(), waiting.into()), (id.clone(), passed.into())])
    }
}
