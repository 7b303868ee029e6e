//! Lets what is marked in the ready set go on: an agent does what its machine says is next.

use std::sync::Arc;

use posse_agent::machine::Next;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Finish, RunEnd};

use super::ready::Candidate;
use super::session::{ModelCallStage, StartPoint};
use super::{Driver, ending};
use crate::scheduler::{SlotRequest, SlotUse};

impl Driver {
    /// Lets everything that is marked go on, and what that marks, until nothing is left.
    pub(super) fn drain_ready(&mut self) {
        while let Some(candidate) = self.ready.take() {
            match candidate {
                Candidate::Agent(id) => self.advance(&id),
                Candidate::MergeQueue(id) => self.advance_merge_queue(&id),
                Candidate::Plan => self.advance_plan(),
            }
            if self.poisoned.is_some() {
                return;
            }
            self.submit_if_full();
        }
    }

    /// Does whatever the agent's machine says is next.
    fn advance(&mut self, id: &AgentId) {
        loop {
            let Some(session) = self.sessions.get(id) else { return };
            if session.ending.is_some() {
                self.conclude(id);
                return;
            }
            if matches!(session.start_point, StartPoint::History | StartPoint::Awaited)
                || self.run.is_cancelled(id)
            {
                return;
            }
            if !self.writers.admit(id, &self.run) || !self.ensure_base(id) {
                return;
            }
            let Some(session) = self.sessions.get(id) else { return };
            let hooked = !session.hooks.is_empty();
            match session.machine.next(self.has_working_children(id) || self.plan_goes_on(id)) {
                // No result is read, and no first turn taken, before the hooks have answered.
                Next::CallModel { .. } | Next::Done { .. } if hooked || self.hold_for_recording(id) => return,
                Next::CallModel { .. } if self.start_agent_hooks(id) => return,
                Next::CallModel { .. } => return self.want_model(id),
                Next::CallTools => return self.dispatch_calls(id),
                Next::Wait | Next::Idle => return,
                Next::Tell(note, text) => self.emit_note(id, note, text),
                Next::Done { report, turns_exhausted } => return self.done(id, &report, turns_exhausted),
                Next::Fail(broken) => return self.end_attempt(id, ending::failure_of(broken)),
            }
        }
    }

    pub(super) fn has_working_children(&self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return false };
        let left_open = self.unclosed.iter().filter(|child| child.parent().as_ref() == Some(id)).count();
        agent.open_children.len() > left_open
    }

    pub(super) fn want_model(&mut self, id: &AgentId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if !matches!(session.model_call, ModelCallStage::Idle | ModelCallStage::Budget) {
            return;
        }
        session.model_call = ModelCallStage::Slot;
        let want = SlotRequest { agent: id.clone(), kind: session.kind.clone(), what: SlotUse::Model };
        self.scheduler.request(want);
    }

    /// The agent's work is done: children it left open are closed, then it finishes.
    fn done(&mut self, id: &AgentId, report: &Arc<str>, turns_exhausted: bool) {
        self.close_finished_children(id);
        if id.is_root() {
            self.abandon_steps();
        }
        if self.run.attempt_of(id).is_none() || !self.ensure_salvaged(id) {
            return;
        }
        if id.is_root() {
            let end = RunEnd::Done { report: self.with_plan(report).into(), turns_exhausted };
            return self.end_run(end);
        }
        let change = self.change_of(id);
        let finish = Finish { report: report.clone().into(), turns_exhausted, change };
        let Some(mut decided) = self.run.finish(id, finish) else { return };
        // Hooks hear of its end before it is integrated.
        decided.truncate(if self.wants_stop_hook(id) { 1 } else { decided.len() });
        let accepted = decided.len() > 1;
        for (id, body) in decided {
            self.emit(id, body);
        }
        if accepted { self.child_ended(id) } else { self.begin_integration(id) }
    }
}
