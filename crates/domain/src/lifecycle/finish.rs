//! Decides what follows a child's completed work: waiting for its merge, integration, close.

use super::{AgentState, CommandRefused, FailKind, NewEvent, OpenAgent, OpenState, Run};
use crate::code::Code;
use crate::event::{Change, IntegrationFailed, IntegrationPassed, SubagentWaitingForMerge};
use crate::id::AgentId;
use crate::object_id::ObjectId;
use crate::text::Text;

/// The result of a child's work.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    pub report: Text,
    /// Whether the child reached its turn limit.
    pub turns_exhausted: bool,
    /// The commit with the child's changes. None if it changed nothing.
    pub change: Option<ObjectId>,
}

impl Run {
    /// Ends a running child's work. It is accepted in the same commit if there is nothing to integrate: no change, no
    /// command criterion, and no position in an ordered plan. So is a change that is already in the parent's files. The
    /// child then closes, unless the contract leaves that to the parent.
    pub fn finish(&self, id: &AgentId, finish: Finish) -> Result<Vec<NewEvent>, CommandRefused> {
        let agent = self.commanded_child(id)?;
        match &agent.state {
            OpenState::Running { .. } => agent.check_at_rest()?,
            OpenState::Created { .. }
            | OpenState::WaitingForMerge { .. }
            | OpenState::Completed { .. }
            | OpenState::Failed(_) => return Err(CommandRefused::State(agent.state.name())),
        }
        let Finish { report, turns_exhausted, change } = finish;
        let waiting = SubagentWaitingForMerge {
            from: AgentState::Running,
            to: AgentState::WaitingForMerge,
            report,
            turns_exhausted,
            change,
        };
        let mut decided = vec![(id.clone(), waiting.into())];
        if self.is_satisfied_by(agent, change) {
            decided.push((id.clone(), passed(self.change_of(agent), Vec::new()).into()));
        }
        Ok(decided)
    }

    /// Whether a child that waits for its merge has nothing to integrate and is accepted as it is.
    pub fn has_nothing_to_merge(&self, id: &AgentId) -> bool {
        self.open(id).is_some_and(|agent| self.is_satisfied_by(agent, agent.files.change))
    }

    fn is_satisfied_by(&self, agent: &OpenAgent, change: Option<ObjectId>) -> bool {
        // In an ordered plan even a step without a change waits for its queue position: its dependents start from the
        // files merged by then, which must be the same every time.
        let terms = &agent.contract.parent;
        let ordered = terms.message_id.is_none() && self.step_rank(terms.step_idx).is_some();
        let nothing = change.is_none() && agent.contract.checks().next().is_none() && !ordered;
        self.base.is_none() || nothing
    }

    fn change_of(&self, agent: &OpenAgent) -> Change {
        match (agent.files.merging.is_some(), self.base.is_none() && agent.changed) {
            (true, _) => Change::Merged,
            (false, true) => Change::InPlace,
            (false, false) => Change::None,
        }
    }

    /// Accepts the work of a child that waits for its merge.
    pub fn accept(&self, id: &AgentId, conflicts_left: Vec<String>) -> Result<NewEvent, CommandRefused> {
        let agent = self.waiting_for_merge(id)?;
        Ok((id.clone(), passed(self.change_of(agent), conflicts_left).into()))
    }

    /// Rejects the work of a child that waits for its merge, unless it is already merged.
    pub fn reject(
        &self,
        id: &AgentId,
        kind: FailKind,
        code: Code,
        reason: String,
    ) -> Result<NewEvent, CommandRefused> {
        if self.waiting_for_merge(id)?.files.merging.is_some() {
            return Err(CommandRefused::AlreadyMerged);
        }
        let (from, to) = (AgentState::WaitingForMerge, AgentState::Failed);
        Ok((id.clone(), IntegrationFailed { from, to, kind, code, reason }.into()))
    }

    fn waiting_for_merge(&self, id: &AgentId) -> Result<&OpenAgent, CommandRefused> {
        let agent = self.commanded(id)?;
        match &agent.state {
            OpenState::WaitingForMerge { .. } => Ok(agent),
            OpenState::Created { .. }
            | OpenState::Running { .. }
            | OpenState::Completed { .. }
            | OpenState::Failed(_) => Err(CommandRefused::State(agent.state.name())),
        }
    }
}

fn passed(change: Change, conflicts_left: Vec<String>) -> IntegrationPassed {
    IntegrationPassed {
        from: AgentState::WaitingForMerge,
        to: AgentState::Completed,
        change,
        kept: conflicts_left,
    }
}
