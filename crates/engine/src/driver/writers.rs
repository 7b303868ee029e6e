//! The writers' queue: which of the agents that change files may start now, and which wait for another to close.

use posse_domain::id::AgentId;
use posse_domain::lifecycle::{OpenAgent, OpenState};

use super::Driver;

impl Driver {
    /// Lets a created writer start, or wait for those before it; whether it may start. Any other agent may.
    pub(super) fn admit_writer(&mut self, id: &AgentId) -> bool {
        let created = |agent: &OpenAgent| agent.writer && matches!(agent.state, OpenState::Created { .. });
        if id.is_root() || self.writers.contains(id) || !self.run.open(id).is_some_and(created) {
            return true;
        }
        if self.may_write(id) {
            self.writers.insert(id.clone());
            return true;
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.held = true;
        }
        self.held_writers.push_back(id.clone());
        false
    }

    /// Whether a writer may start now.
    ///
    /// In workspaces of their own siblings write at once, unless they own the same paths; then the one that was asked
    /// for first goes first. Nobody ever waits for a later one, so no two wait for each other. In place only one
    /// writes at a time, beside those above it, which wait.
    fn may_write(&self, id: &AgentId) -> bool {
        if !self.run.is_isolated() {
            return self.writers.iter().all(|writer| writer.contains(id));
        }
        let (Some(parent), Some(own)) = (id.parent(), id.number()) else { return true };
        let siblings = self.run.open(&parent).map(|parent| &parent.open_children);
        siblings.into_iter().flatten().filter(|&&number| number != own).all(|&number| {
            let sibling = parent.child(number);
            let before = number < own || self.writers.contains(&sibling);
            !before || !self.run.overlap(id, &sibling)
        })
    }

    /// A writer has closed: those that waited for it start.
    pub(super) fn writer_closed(&mut self, id: &AgentId) {
        self.writers.remove(id);
        self.held_writers.retain(|held| held != id);
        loop {
            // An agent that is ending does not start any more.
            let starts = |held: &AgentId| {
                self.sessions.get(held).is_some_and(|session| session.ending.is_none())
                    && self.may_write(held)
            };
            let next = self.held_writers.iter().position(starts);
            let Some(next) = next.and_then(|at| self.held_writers.remove(at)) else { return };
            self.writers.insert(next.clone());
            if let Some(session) = self.sessions.get_mut(&next) {
                session.held = false;
            }
            self.mark_ready(&next);
        }
    }
}
