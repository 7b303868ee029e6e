//! The workspace of an agent and the state of its work, which workspace and integration events change.

use super::apply::illegal;
use super::{IllegalEvent, Node, OpenState, Run};
use crate::contract::{CommandCriterion, Contract, Criterion};
use crate::event::{
    Change, Event, IntegrationPassed, SubagentWaitingForMerge, WorkspaceMade, WorkspaceSalvaged,
    WorktreeMerged,
};
use crate::id::AgentId;
use crate::object_id::ObjectId;
use crate::ownership;
use crate::plan::UnownedWriters;

/// The files of an open agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Files {
    /// The snapshot that the agent started from. None if the run has no workspaces.
    pub base: Option<ObjectId>,
    /// The newest commit that was merged into the agent's files in this attempt.
    pub merged: Option<ObjectId>,
    /// Whether this attempt has its own workspace on disk.
    pub made: bool,
    /// Whether a commit keeps all files of the workspace, or the workspace itself is kept.
    pub salvaged: bool,
    /// The commit with the agent's finished work.
    pub change: Option<ObjectId>,
    /// The merge of `change` into the parent's files. Set as soon as the merge is decided.
    pub merging: Option<WorktreeMerged>,
}

impl Files {
    /// The commit that this attempt's workspace is created from: earlier merges into it, or the snapshot.
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
    /// Whether each agent has its own workspace. Otherwise all work in the run's directory.
    pub fn is_isolated(&self) -> bool {
        self.base.is_some()
    }

    /// The attempt that a new workspace would be for. None if the agent is not running.
    pub fn attempt_of(&self, id: &AgentId) -> Option<u32> {
        match self.open(id)?.state {
            OpenState::Running { attempt } => Some(attempt),
            _ => None,
        }
    }

    /// Whether a child has to wait for another because both could change the same paths. A child without `owns` owns
    /// all that its parent owns, unless the run lets such writers run in parallel.
    pub fn overlap(&self, one: &AgentId, other: &AgentId) -> bool {
        let (Some(a), Some(b)) = (self.open(one), self.open(other)) else { return false };
        // Plan steps wait only for each other. A child that the root requested may wait for a step that waits for this
        // one in plan order.
        let is_step = |agent: &super::OpenAgent| agent.contract.parent.message_id.is_none();
        if is_step(a) && !is_step(b) {
            return false;
        }
        // A completed or failed child blocks no other, even if its parent has not closed it yet.
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

    pub(super) fn child_started(
        &mut self,
        event: &Event,
        base: Option<ObjectId>,
    ) -> Result<(), IllegalEvent> {
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
    ) -> Result<(), IllegalEvent> {
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

    pub(super) fn workspace_made(&mut self, event: &Event, made: &WorkspaceMade) -> Result<(), IllegalEvent> {
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
    ) -> Result<(), IllegalEvent> {
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

    pub(super) fn worktree_merged(
        &mut self,
        event: &Event,
        merged: &WorktreeMerged,
    ) -> Result<(), IllegalEvent> {
        let agent = self.waiting(event)?;
        if agent.files.merging.is_some() {
            return Err(illegal(event, "it is merged already"));
        }
        agent.files.merging = Some(merged.clone());
        self.count_files(event, Some(merged.paths))
    }

    pub(super) fn integration_passed(
        &mut self,
        event: &Event,
        passed: &IntegrationPassed,
    ) -> Result<(), IllegalEvent> {
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
        // A merge has counted its files already.
        self.count_files(event, (passed.change != Change::Merged).then_some(0))
    }

    /// The event's agent, which must be a child that waits for its merge.
    pub(super) fn waiting(&mut self, event: &Event) -> Result<&mut super::OpenAgent, IllegalEvent> {
        let agent = self.child(event)?;
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            Ok(agent)
        } else {
            Err(illegal(event, "it does not wait for a merge"))
        }
    }
}
