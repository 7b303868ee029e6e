//! A child's work has ended well: waiting for merge, integration, close.

use super::{AgentState, FailKind, NewEvent, OpenAgent, OpenState, Run};
use crate::code::Code;
use crate::event::{Change, IntegrationFailed, IntegrationPassed, SubagentWaitingForMerge};
use crate::id::AgentId;
use crate::object_id::ObjectId;
use crate::text::Text;

/// How a child's work ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The report.
    pub report: Text,
    /// Whether it ran out of turns.
    pub turns_exhausted: bool,
    /// The commit with what it made of its files; none if that is nothing.
    pub change: Option<ObjectId>,
}

impl Run {
    /// Ends a running child's work. Without a change, without criteria that the host runs and without a place in a plan
    /// there is nothing to integrate, so it is accepted in the same commit; so is a change that stands already where the parent works.
    /// Closing follows unless the contract leaves it to the parent. Nothing while the child has open children of its
    /// own, or asks its model.
    pub fn finish(&self, id: &AgentId, finish: Finish) -> Option<Vec<NewEvent>> {
        let agent = self.open(id)?;
        let working =
            !agent.open_children.is_empty() || agent.calling.is_some() || !agent.requests.is_empty();
        if id.is_root() || !matches!(agent.state, OpenState::Running { .. }) || working {
            return None;
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
        Some(decided)
    }

    /// Whether a child that waits for its merge has nothing to integrate, and so is accepted as it is.
    pub fn has_nothing_to_merge(&self, id: &AgentId) -> bool {
        self.open(id).is_some_and(|agent| self.is_satisfied_by(agent, agent.files.change))
    }

    fn is_satisfied_by(&self, agent: &OpenAgent, change: Option<ObjectId>) -> bool {
        // In an ordered plan also a step without a change waits for its place: what depends on it starts from what is
        // merged by then, and that is to be the same every time.
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

    /// Accepts the work of a child that waits for its merge. Nothing for any other.
    pub fn accept(&self, id: &AgentId, kept: Vec<String>) -> Option<NewEvent> {
        let agent = self.open(id)?;
        if !matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            return None;
        }
        Some((id.clone(), passed(self.change_of(agent), kept).into()))
    }

    /// Refuses the work of a child that waits for its merge, unless it is merged already.
    pub fn reject(&self, id: &AgentId, kind: FailKind, code: Code, reason: String) -> Option<NewEvent> {
        let agent = self.open(id)?;
        if !matches!(agent.state, OpenState::WaitingForMerge { .. }) || agent.files.merging.is_some() {
            return None;
        }
        let (from, to) = (AgentState::WaitingForMerge, AgentState::Failed);
        Some((id.clone(), IntegrationFailed { from, to, kind, code, reason }.into()))
    }
}

fn passed(change: Change, kept: Vec<String>) -> IntegrationPassed {
    IntegrationPassed { from: AgentState::WaitingForMerge, to: AgentState::Completed, change, kept }
}
