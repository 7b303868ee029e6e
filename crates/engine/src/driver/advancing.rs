//! Advances everything that is marked in the ready set. An agent takes the next step of its turn machine, a merge queue
//! starts its next merge, and the plan starts its next steps.

use std::sync::Arc;

use posse_agent::machine::Next;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Finish, RunEnd};

use super::desks::calls::wants_stop_hook;
use super::desks::models::{ModelDesk, SlotOutcome};
use super::ready::Candidate;
use super::session::AgentWait;
use super::{Driver, ending};
use crate::scheduler::{SlotRequest, SlotUse};

impl Driver {
    /// Advances everything that is marked, including marks that are added meanwhile, until the set is empty.
    pub(super) fn drain_ready(&mut self) {
        while let Some(candidate) = self.core.ready.take() {
            match candidate {
                Candidate::Agent(id) => self.advance(&id),
                Candidate::MergeQueue(id) => self.advance_merge_queue(&id),
                Candidate::Plan => self.advance_plan(),
            }
            if self.core.stop.is_some() {
                return;
            }
            self.submit_if_full();
        }
    }

    /// Executes the next step that the agent's turn machine decides on.
    fn advance(&mut self, id: &AgentId) {
        loop {
            let Some(session) = self.core.sessions.get(id) else { return };
            if session.is_ending() {
                self.conclude(id);
                return;
            }
            if matches!(session.wait, AgentWait::History | AgentWait::Snapshot)
                || self.core.run.is_cancelled(id)
            {
                return;
            }
            if !self.writers.admit(id, &self.core.run) || !self.files.ensure_base(&mut self.core, id) {
                return;
            }
            let Some(session) = self.core.sessions.get(id) else { return };
            let hooked = self.calls.waits_for_hooks(id);
            match session.machine.next(self.core.has_working_children(id) || self.plan_continues(id)) {
                // The model call and the end of the agent wait until its hooks have answered.
                Next::CallModel { .. } | Next::Done { .. } if hooked || self.core.hold_for_recording(id) => {
                    return;
                }
                Next::CallModel { .. } if self.calls.start_agent_hooks(&mut self.core, &self.files, id) => {
                    return;
                }
                Next::CallModel { .. } => return ModelDesk::request_call(&mut self.core, id),
                Next::CallTools => return self.dispatch_calls(id),
                Next::Wait | Next::Idle => return,
                Next::Tell(note, text) => self.core.emit_note(id, note, text),
                Next::Done { report, turns_exhausted } => return self.done(id, &report, turns_exhausted),
                Next::Fail(broken) => return self.end_attempt(id, ending::failure_of(broken)),
            }
        }
    }

    /// Starts the effects that an agent's merge queue decides on, then the calls that waited for the files.
    fn advance_merge_queue(&mut self, id: &AgentId) {
        while let Some(outcome) = self.files.advance_queue(&mut self.core, id) {
            self.follow_files(outcome);
            if self.core.stop.is_some() {
                return;
            }
        }
        self.calls.advance_parked(&mut self.core, &mut self.files, id);
    }

    /// Uses a granted slot for its model call or tool call.
    pub(super) fn grant(&mut self, request: &SlotRequest) {
        let SlotRequest { agent: id, definition, what } = request;
        match what {
            SlotUse::Model => match self.models.take_slot(&mut self.core, &self.preambles, id, definition) {
                SlotOutcome::Call(planned) => {
                    self.start_agent(id);
                    self.models.send(&mut self.core, &mut self.preambles, id, planned);
                }
                SlotOutcome::Failed(failure) => self.end_attempt(id, failure),
                SlotOutcome::Released => {}
            },
            SlotUse::Call(call_id) => {
                self.calls.take_slot(&mut self.core, &self.files, id, call_id, definition);
            }
        }
    }

    /// Finishes an agent whose work is done. Children that are still open are closed first.
    fn done(&mut self, id: &AgentId, report: &Arc<str>, turns_exhausted: bool) {
        self.close_finished_children(id);
        if id.is_root() {
            self.abandon_steps();
        }
        if self.core.run.attempt_of(id).is_none() || !self.files.ensure_salvaged(&mut self.core, id) {
            return;
        }
        if id.is_root() {
            let end = RunEnd::Done { report: self.with_plan(report).into(), turns_exhausted };
            return self.end_run(end);
        }
        let change = self.files.change_of(&self.core, id);
        let finish = Finish { report: report.clone().into(), turns_exhausted, change };
        let mut decided = match self.core.run.finish(id, finish) {
            Ok(decided) => decided,
            Err(refused) => return self.core.stop_for_refusal(id, "finish", refused),
        };
        // Stop hooks are notified before the work is integrated, so only the first event is emitted now.
        decided.truncate(if wants_stop_hook(&self.core, id) { 1 } else { decided.len() });
        let accepted = decided.len() > 1;
        for (id, body) in decided {
            self.core.emit(id, body);
        }
        if accepted { self.child_ended(id) } else { self.begin_integration(id) }
    }
}
