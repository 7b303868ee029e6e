//! Closes children that have ended: closes the child if its contract says so, and answers its parent, both in one
//! decision. With separate commits, a crash between them would spawn the child again.

use posse_domain::id::AgentId;
use posse_domain::lifecycle::{CommandRefused, Failure, OpenState};

use super::Driver;
use super::answering::ChildResult;

impl Driver {
    /// Handles the end of a child that completed or failed.
    pub(super) fn child_ended(&mut self, id: &AgentId) {
        let Some(agent) = self.core.run.open(id) else { return };
        let result = match &agent.state {
            OpenState::Completed { report } => Ok(report.to_shared()),
            OpenState::Failed(failure) => Err((failure.code, failed_text(failure))),
            _ => return,
        };
        let ended = ChildResult {
            call_id: agent.call_id.clone(),
            background: agent.background,
            definition: agent.prepared.definition.name.clone(),
            skill: agent.contract.execution.skill.clone(),
            result,
        };
        let close = agent.contract.execution.close_on_completion;
        let writer = agent.writer;
        if close {
            self.close_ended(id);
        } else {
            self.core.unclosed.insert(id.clone());
        }
        self.drop_session(id);
        self.answer_parent(id, ended);
        if writer {
            let ending = |id: &AgentId| !self.core.is_active(id);
            for writer in self.writers.close(id, &self.core.run, ending) {
                self.core.mark_ready(&writer);
            }
        }
        if let Some(parent) = id.parent() {
            if parent.is_root() {
                self.core.mark_plan();
            }
            self.core.mark_merge_queue(&parent);
            self.core.mark_ready(&parent);
        }
    }

    /// Removes all state of an ended agent from the desks.
    pub(super) fn drop_session(&mut self, id: &AgentId) {
        self.files.close(&self.core, id);
        self.core.sessions.remove(id);
        self.models.close(id);
        self.preambles.close(id);
        self.calls.close(id);
    }

    /// Closes a child, unless it has not ended.
    pub(super) fn close(&mut self, id: &AgentId) -> Result<(), CommandRefused> {
        let now_ms = self.core.now_ms();
        let (id, body) = self.core.run.close(id, now_ms)?;
        self.core.unclosed.remove(&id);
        self.core.emit(id, body);
        Ok(())
    }

    /// Closes a child that has completed or failed. A child ends after its children, so no refusal is expected.
    pub(super) fn close_ended(&mut self, id: &AgentId) {
        if let Err(refused) = self.close(id) {
            self.core.stop_for_refusal(id, "close", refused);
        }
    }

    /// Closes ended children that their contract left open for the parent to close.
    pub(super) fn close_finished_children(&mut self, id: &AgentId) {
        let left = self.core.unclosed.iter().filter(|child| child.parent().as_ref() == Some(id));
        for child in left.cloned().collect::<Vec<AgentId>>() {
            self.close_ended(&child);
        }
    }
}

/// Why a child failed, with its partial report if it wrote one.
fn failed_text(failure: &Failure) -> String {
    match &failure.report {
        Some(report) => format!("{}\n\nIts report:\n\n{}", failure.reason, report.to_shared()),
        None => failure.reason.clone(),
    }
}
