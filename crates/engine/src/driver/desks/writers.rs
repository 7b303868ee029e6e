//! Decides which agents that change files may start now, and which wait for another writer to close.

use std::collections::{BTreeSet, HashSet, VecDeque};

use posse_domain::id::AgentId;
use posse_domain::lifecycle::{OpenAgent, OpenState, Run};

/// The writers that have started and are not closed, without the root, and the writers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct WriterQueue {
    started: BTreeSet<AgentId>,
    order: VecDeque<AgentId>,
    waiting: HashSet<AgentId>,
}

impl WriterQueue {
    /// Whether the agent waits for another writer before it may start.
    pub(crate) fn is_waiting(&self, id: &AgentId) -> bool {
        self.waiting.contains(id)
    }

    /// Decides whether a new writer may start or must wait for earlier writers. An agent that is not a writer may
    /// always start.
    pub(crate) fn admit(&mut self, id: &AgentId, run: &Run) -> bool {
        let created = |agent: &OpenAgent| agent.writer && matches!(agent.state, OpenState::Created { .. });
        if id.is_root() || self.started.contains(id) || !run.open(id).is_some_and(created) {
            return true;
        }
        if self.is_waiting(id) {
            return false;
        }
        if self.may_start(id, run) {
            self.started.insert(id.clone());
            return true;
        }
        self.waiting.insert(id.clone());
        self.order.push_back(id.clone());
        false
    }

    /// Adds a writer that had started before this process resumed the run.
    pub(crate) fn resume(&mut self, id: &AgentId) {
        self.started.insert(id.clone());
    }

    /// Removes a closed writer. Returns the writers that waited for it and start now. An agent that is `ending` does
    /// not start.
    pub(crate) fn close(
        &mut self,
        id: &AgentId,
        run: &Run,
        ending: impl Fn(&AgentId) -> bool,
    ) -> Vec<AgentId> {
        self.started.remove(id);
        if self.waiting.remove(id) {
            self.order.retain(|waiting| waiting != id);
        }
        let mut starting = Vec::new();
        loop {
            let next = self.order.iter().position(|next| !ending(next) && self.may_start(next, run));
            let Some(next) = next.and_then(|at| self.order.remove(at)) else { return starting };
            self.waiting.remove(&next);
            self.started.insert(next.clone());
            starting.push(next);
        }
    }

    /// Whether a writer may start now. Siblings with isolated workspaces write in parallel, unless they own the same
    /// paths. Then the sibling that was requested first starts first. No writer waits for a later one, so no two
    /// writers wait for each other. Without isolated workspaces only one agent writes at a time, and its ancestors wait
    /// for it.
    fn may_start(&self, id: &AgentId, run: &Run) -> bool {
        if !run.is_isolated() {
            return self.started.iter().all(|writer| writer.contains(id));
        }
        let (Some(parent), Some(own)) = (id.parent(), id.number()) else { return true };
        let siblings = run.open(&parent).map(|parent| &parent.open_children);
        siblings.into_iter().flatten().filter(|&&number| number != own).all(|&number| {
            let sibling = parent.child(number);
            let before = number < own || self.started.contains(&sibling);
            !before || !run.overlap(id, &sibling)
        })
    }
}
