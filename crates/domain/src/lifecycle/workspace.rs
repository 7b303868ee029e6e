//! Where an agent works, and what became of its work: the part of its state that workspaces and integration move.

use super::apply::illegal;
use super::{Illegal, Node, OpenState, Run};
use crate::contract::{CommandCriterion, Contract, Criterion};
use crate::event::{
    Change, Event, IntegrationPassed, SubagentWaitingForMerge, WorkspaceMade, WorkspaceSalvaged,
    WorktreeMerged,
};
use crate::id::AgentId;
use crate::object_id::ObjectId;
use crate::ownership;
use crate::plan::UnownedWriters;

/// The files of an agent that is not closed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Files {
    /// The snapshot it started from; none if the run works in place.
    pub base: Option<ObjectId>,
    /// The newest commit that was merged into its files in this attempt.
    pub merged: Option<ObjectId>,
    /// Whether this attempt has a workspace of its own on disk.
    pub made: bool,
    /// Whether everything in it is kept, or it is itself.
    pub salvaged: bool,
    /// The commit it ended its work with.
    pub change: Option<ObjectId>,
    /// The merge of that commit into its parent's files, from the moment it is decided.
    pub merging: Option<WorktreeMerged>,
}

impl Files {
    /// The commit a workspace of this attempt is made from: what was merged into it before it was needed, or the
    /// snapshot.
    pub fn origin(&self) -> Option<ObjectId> {
        self.merged.or(self.base)
    }
}

impl Contract {
    /// The criteria that the host runs.
    pub fn checks(&self) -> impl Iterator<Item = &CommandCriterion> {
        self.step.success_criteria.iter().filter_map(|criterion| match criterion {
            Criterion::Command(command) => Some(command),
            Criterion::Words(_) => None,
        })
    }
}

impl Run {
    /// Whether agents work in workspaces of their own; otherwise all of them work in the run's directory.
    pub fn is_isolated(&self) -> bool {
        self.base.is_some()
    }

    /// The attempt that a workspace made now is for; none if the agent does not run.
    pub fn attempt_of(&self, id: &AgentId) -> Option<u32> {
        match self.open(id)?.state {
            OpenState::Running { attempt } => Some(attempt),
            _ => None,
        }
    }

    /// Whether a child has to wait for another because they could change the same paths. One that names none owns all that its parent owns, unless the
    /// run lets such writers run beside others.
    pub fn overlap(&self, one: &AgentId, other: &AgentId) -> bool {
        let (Some(a), Some(b)) = (self.open(one), self.open(other)) else { return false };
        // Steps of a plan wait for each other alone. A child that the root asked for may wait for a step which, by the
        // order of the plan, waits for this one.
        let is_step = |agent: &super::OpenAgent| agent.contract.parent.message_id.is_none();
        if is_step(a) && !is_step(b) {
            return false;
        }
        // One that is integrated, or never will be, stands in nobody's way, also if its parent has yet to close it.
        let writes = |agent: &super::OpenAgent| {
            agent.writer && !matches!(agent.state, OpenState::Completed { .. } | OpenState::Failed(_))
        };
        if !writes(a) || !writes(b) {
            return false;
        }
        let above =
            one.parent().and_then(|parent| self.open(&parent)).map(|parent| &parent.contract.step.owns);
        let unowned = |owns: &Vec<String>| owns.is_empty() || above == Some(owns);
        let (a, b) = (&a.contract.step.owns, &b.contract.step.owns);
        if self.terms.unowned_writers == UnownedWriters::Parallel && (unowned(a) || unowned(b)) {
            return false;
        }
        ownership::overlap(a, b)
    }

    pub(super) fn child_started(&mut self, event: &Event, base: Option<ObjectId>) -> Result<(), Illegal> {
        if self.base.is_some() != base.is_some() {
            return Err(illegal(event, "it starts from a snapshot if, and only if, the run did"));
        }
        let agent = self.child(event)?;
        match &mut agent.state {
            state @ OpenState::Created { .. } => *state = OpenState::Running { attempt: 1 },
            _ => return Err(illegal(event, "it has started")),
        }
        agent.files.base = base;
        Ok(())
    }

    pub(super) fn work_ended(
        &mut self,
        event: &Event,
        ended: &SubagentWaitingForMerge,
    ) -> Result<(), Illegal> {
        let agent = self.resting(event)?;
        let files = &agent.files;
        let is_kept = if files.made { files.salvaged } else { files.merged == ended.change };
        if ended.change.is_some() && !is_kept {
            return Err(illegal(
                event,
                "its change is neither in a workspace that was salvaged nor what was merged",
            ));
        }
        match &mut agent.state {
            state @ OpenState::Running { .. } => {
                *state = OpenState::WaitingForMerge { report: ended.report.clone() };
            }
            _ => return Err(illegal(event, "it is not running")),
        }
        agent.files.change = ended.change;
        self.ledger.report_over(&event.agent);
        self.count_turn_limit(event, ended.turns_exhausted)
    }

    pub(super) fn workspace_made(&mut self, event: &Event, made: &WorkspaceMade) -> Result<(), Illegal> {
        let agent = self.live(event)?;
        if !matches!(agent.state, OpenState::Running { attempt } if attempt == made.attempt) {
            return Err(illegal(event, "that attempt is not under way"));
        }
        if agent.files.made || agent.files.origin() != Some(made.base) {
            return Err(illegal(event, "it has one, or starts from another snapshot"));
        }
        agent.files.made = true;
        Ok(())
    }

    pub(super) fn workspace_salvaged(
        &mut self,
        event: &Event,
        salvaged: &WorkspaceSalvaged,
    ) -> Result<(), Illegal> {
        let agent = self.live(event)?;
        if !agent.files.made {
            return Err(illegal(event, "it has no workspace"));
        }
        if salvaged.commit.is_none() && salvaged.problem.is_none() {
            return Err(illegal(event, "neither a commit nor a reason"));
        }
        agent.files.salvaged = true;
        Ok(())
    }

    pub(super) fn worktree_merged(&mut self, event: &Event, merged: &WorktreeMerged) -> Result<(), Illegal> {
        let agent = self.waiting(event)?;
        if agent.files.merging.is_some() {
            return Err(illegal(event, "it is merged already"));
        }
        agent.files.merging = Some(merged.clone());
        Ok(())
    }

    pub(super) fn integration_passed(
        &mut self,
        event: &Event,
        passed: &IntegrationPassed,
    ) -> Result<(), Illegal> {
        let agent = self.waiting(event)?;
        let merging = agent.files.merging.as_ref().map(|merging| merging.commit);
        if (passed.change == Change::Merged) != merging.is_some() {
            return Err(illegal(
                event,
                "a change is merged if, and only if, its merge was journalled before",
            ));
        }
        let OpenState::WaitingForMerge { report } = &agent.state else {
            return Err(illegal(event, "it does not wait for a merge"));
        };
        let report = report.clone();
        agent.state = OpenState::Completed { report: report.clone() };
        if let (Some(commit), Some(parent)) = (merging, event.agent.parent())
            && let Some(Node::Open(parent)) = self.agents.get_mut(&parent)
        {
            parent.files.merged = Some(commit);
        }
        self.keep_report_line(&event.agent, &report);
        Ok(())
    }

    /// The event's agent, which must be a child that waits for its merge.
    pub(super) fn waiting(&mut self, event: &Event) -> Result<&mut super::OpenAgent, Illegal> {
        let agent = self.child(event)?;
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            Ok(agent)
        } else {
            Err(illegal(event, "it does not wait for a merge"))
        }
    }
}
