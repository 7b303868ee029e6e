//! Integrates a child: notifies its stop hooks, lets the file desk merge its work in queue order, and accepts or
//! rejects it.

use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{CommandRefused, FailKind, Failure};

use super::Driver;

impl Driver {
    /// Begins the integration of a child whose work has ended. Its stop hooks are notified first, if it has any.
    pub(super) fn begin_integration(&mut self, child: &AgentId) {
        if self.core.waits_for_merge(child)
            && !self.calls.start_stop_hooks(&mut self.core, &self.files, child)
        {
            self.integrate_child(child);
        }
    }

    /// Integrates a child whose hooks have answered: at once if it changed nothing and has no checks, or else in queue
    /// order.
    pub(super) fn integrate_child(&mut self, child: &AgentId) {
        if self.core.run.has_nothing_to_merge(child) {
            self.accept(child, Vec::new());
        } else {
            self.files.wait_for_merge(&mut self.core, child);
        }
    }

    /// Accepts a child whose changes are in its parent's files. Files in `conflicts_left` conflicted with them and were
    /// not changed.
    pub(super) fn accept(&mut self, child: &AgentId, conflicts_left: Vec<String>) {
        let in_the_way = conflicts_left.clone();
        match self.core.run.accept(child, conflicts_left) {
            Ok((id, body)) => self.core.emit(id, body),
            Err(refused) => return self.core.stop_for_refusal(child, "accept", refused),
        }
        self.files.keep_note(child, &in_the_way);
        self.child_ended(child);
    }

    pub(super) fn reject(&mut self, child: &AgentId, code: Code, reason: String) {
        self.reject_as(child, FailKind::Integration, code, reason);
    }

    /// Rejects a child's work, unless it is merged. Running hooks of the child end first.
    pub(super) fn reject_as(&mut self, child: &AgentId, kind: FailKind, code: Code, reason: String) {
        if self.calls.waits_for_hooks(child)
            && let Some(session) = self.core.sessions.get_mut(child)
        {
            self.calls.hurry_hooks(child);
            // The child is rejected again when its hooks have ended.
            return session.end(Failure { kind, code, reason, report: None });
        }
        match self.core.run.reject(child, kind, code, reason) {
            Ok((id, body)) => {
                self.core.emit(id, body);
                self.child_ended(child);
            }
            // The child was cancelled while its merge is written to its parent's files. It is accepted after that.
            Err(CommandRefused::AlreadyMerged) => {}
            Err(refused) => self.core.stop_for_refusal(child, "reject", refused),
        }
    }

    /// Rejects the children that wait to be merged into files that cannot be changed any more.
    pub(super) fn cannot_integrate(&mut self, id: &AgentId, reason: &str) {
        let children = self.core.run.open(id).into_iter().flat_map(|agent| &agent.open_children);
        let waiting =
            children.map(|&number| id.child(number)).filter(|child| self.core.waits_for_merge(child));
        for child in waiting.collect::<Vec<AgentId>>() {
            self.reject(&child, Code::IntegrationConflict, reason.to_owned());
        }
    }
}
