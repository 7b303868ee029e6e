//! The writers' queue: which of the agents that change files may start now, and which wait for another to close.

use posse_domain::id::AgentId;

use super::Driver;

impl Driver {
    /// Starts a writer, or lets it wait for the one that runs.
    pub(super) fn begin_writer(&mut self, id: &AgentId) {
        if self.may_write(id) {
            self.writers.insert(id.clone());
            return self.advance(id);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.held = true;
        }
        self.held_writers.push_back(id.clone());
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
            // One that is ending is concluded by whoever ends it; starting it here would be one call deeper for each.
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
            self.advance(&next);
        }
    }
}
