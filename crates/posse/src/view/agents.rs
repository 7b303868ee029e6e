//! The tree of a run's agents, for display.

use std::collections::HashMap;

use posse_domain::event::{Change, EventBody, EventKind};
use posse_domain::id::AgentId;
use posse_engine::Delta;

use super::{AgentView, OpenModelCalls, Stage, ViewEvent, ViewPart};
use crate::Figures;

/// How many agents are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Created and not started.
    pub queued: u64,
    /// Working, or waiting for merge.
    pub running: u64,
    /// Ended with an accepted result.
    pub completed: u64,
    /// Ended without an accepted result.
    pub failed: u64,
    /// Ended by a cancellation.
    pub cancelled: u64,
}

impl StageCounts {
    /// The number of agents in any state.
    pub fn all(&self) -> u64 {
        self.queued + self.running + self.completed + self.failed + self.cancelled
    }

    fn of(&mut self, stage: Stage) -> &mut u64 {
        match stage {
            Stage::Queued => &mut self.queued,
            Stage::Running | Stage::WaitingForMerge => &mut self.running,
            Stage::Completed => &mut self.completed,
            Stage::Failed => &mut self.failed,
            Stage::Cancelled => &mut self.cancelled,
        }
    }
}

/// A run's agents. The run's limit on agents bounds their number.
#[derive(Debug, Default)]
pub struct Agents {
    /// In the order of their creation, the root first.
    list: Vec<AgentView>,
    /// The position of each agent in the list.
    index: HashMap<AgentId, usize>,
    counts: StageCounts,
    /// The figures of agents before the reserves of calls that were cut off were added.
    before_cut_off: HashMap<AgentId, (Figures, Figures)>,
}

impl Agents {
    /// The root, once the run has started.
    pub fn root(&self) -> Option<&AgentView> {
        self.list.first()
    }

    /// The agent with this id.
    pub fn get(&self, id: &AgentId) -> Option<&AgentView> {
        self.index.get(id).map(|at| &self.list[*at])
    }

    /// All agents in the order of their creation: parents before children.
    pub fn iter(&self) -> impl Iterator<Item = &AgentView> {
        self.list.iter()
    }

    /// The children of an agent, oldest first.
    pub fn children<'a>(&'a self, agent: &'a AgentView) -> impl Iterator<Item = &'a AgentView> {
        agent.children.iter().filter_map(|id| self.get(id))
    }

    /// How many agents are in each state.
    pub fn counts(&self) -> StageCounts {
        self.counts
    }

    fn get_mut(&mut self, id: &AgentId) -> Option<&mut AgentView> {
        self.index.get(id).map(|at| &mut self.list[*at])
    }

    pub(super) fn apply_delta(&mut self, delta: &Delta) {
        if let Some(agent) = self.get_mut(&delta.agent_id) {
            agent.apply_delta(delta);
        }
    }

    /// Takes the activity of an agent from an event that the figures and states of the tree already include.
    pub(super) fn recall_activity(&mut self, event: &ViewEvent<'_>) {
        if let Some(agent) = self.get_mut(event.agent) {
            agent.apply_activity(event);
        }
    }

    /// Counts the open model calls of an interrupted run as cut off, as the process that resumes or cancels it will.
    pub(super) fn count_as_cut_off(&mut self, calls: &OpenModelCalls) {
        for (id, usage) in calls.as_cut_off() {
            let mut at = Some(id.clone());
            while let Some(above) = at {
                if let Some(agent) = self.index.get(&above).map(|at| &self.list[*at]) {
                    self.before_cut_off.entry(above.clone()).or_insert((agent.own, agent.subtree));
                }
                at = above.parent();
            }
            self.count(id, Figures::from(usage));
        }
    }

    /// Takes back what [`count_as_cut_off`](Self::count_as_cut_off) added.
    pub(super) fn forget_cut_off(&mut self) {
        for (id, (own, subtree)) in std::mem::take(&mut self.before_cut_off) {
            if let Some(agent) = self.get_mut(&id) {
                (agent.own, agent.subtree) = (own, subtree);
            }
        }
    }

    /// Adds an agent whose parent is already in the tree.
    pub(super) fn add(&mut self, agent: AgentView) {
        *self.counts.of(agent.stage()) += 1;
        if let Some(parent) = agent.id.parent().and_then(|parent| self.get_mut(&parent)) {
            parent.children.push(agent.id.clone());
            parent.open_children += u64::from(!agent.stage().is_over());
        }
        self.index.insert(agent.id.clone(), self.list.len());
        self.list.push(agent);
    }

    /// Adds figures of an agent to its own and to those of every subtree it is in.
    fn count(&mut self, id: &AgentId, figures: Figures) {
        if let Some(agent) = self.get_mut(id) {
            agent.own += figures;
        }
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if let Some(agent) = self.get_mut(&id) {
                agent.subtree += figures;
            }
            at = id.parent();
        }
    }

    /// Moves an agent from the count of its state `before` to that of its current one.
    fn count_stage(&mut self, id: &AgentId, before: Stage) {
        let Some(after) = self.get(id).map(AgentView::stage).filter(|after| *after != before) else {
            return;
        };
        *self.counts.of(before) -= 1;
        *self.counts.of(after) += 1;
        if after.is_over()
            && !before.is_over()
            && let Some(parent) = id.parent().and_then(|parent| self.get_mut(&parent))
        {
            parent.open_children -= 1;
        }
    }
}

impl ViewPart for Agents {
    fn needs(&self, _: EventKind) -> bool {
        true
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::RunStarted(e) => self.add(AgentView::root(event.agent, e, event.at_ms)),
            EventBody::SubagentCreated(e) => self.add(AgentView::child(event.agent, e, event.at_ms)),
            _ => {}
        }
        let Some(agent) = self.get_mut(event.agent) else { return };
        let before = agent.stage();
        agent.apply(event);
        let figures = figures_of(event, agent.created_at_ms);
        if figures != Figures::default() {
            self.count(event.agent, figures);
        }
        self.count_stage(event.agent, before);
    }
}

/// What an event adds to the figures of its agent, as in the engine's ledger.
fn figures_of(event: &ViewEvent<'_>, created_at_ms: i64) -> Figures {
    // A clock that jumped back gives zero.
    let wall_ms = u64::try_from(event.at_ms - created_at_ms).unwrap_or(0);
    let none = Figures::default();
    match event.body {
        EventBody::ModelReplied(e) => Figures { turns: u64::from(e.is_turn()), ..Figures::from(e.charged()) },
        body @ (EventBody::ToolFinished(_) | EventBody::ToolInterrupted(_)) => Figures::of_call(body),
        EventBody::WorktreeMerged(e) => Figures { files_changed: Some(e.paths), ..none },
        EventBody::IntegrationPassed(e) if e.change != Change::Merged => {
            Figures { files_changed: Some(0), ..none }
        }
        EventBody::SubagentWaitingForMerge(e) => {
            Figures { turn_limited: u64::from(e.turns_exhausted), ..none }
        }
        EventBody::RunCompleted(e) => {
            let files_changed = Some(e.result.as_ref().map_or(0, |result| result.files));
            Figures { wall_ms, turn_limited: u64::from(e.turns_exhausted), files_changed, ..none }
        }
        EventBody::RunFailed(e) => {
            Figures { wall_ms, files_changed: e.result.as_ref().map(|result| result.files), ..none }
        }
        EventBody::RunCancelled(e) => {
            Figures { wall_ms, files_changed: e.result.as_ref().map(|result| result.files), ..none }
        }
        EventBody::SubagentClosed(_) => Figures { wall_ms, ..none },
        _ => none,
    }
}
