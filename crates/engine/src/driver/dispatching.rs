//! Dispatches the calls of replies, and acts on the outcomes of desks: requests to the engine, answers of users and
//! hooks, replies of models, facts about files.

use posse_domain::code::Code;
use posse_domain::event::AnsweredBy;
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, call_of_command};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::{Answer, Decision, Operation};

use super::Driver;
use super::desks::calls::{Dispatch, HookOutcome, HookedMoment};
use super::desks::files::FilesOutcome;
use super::desks::models::{ModelDone, ReplyOutcome, WaitEnd};
use crate::ports::{HookAnswer, ToolFailure, WorkspaceError};

impl Driver {
    /// Dispatches the calls of the reply that may start now, in their order.
    pub(super) fn dispatch_calls(&mut self, id: &AgentId) {
        while let Some(dispatch) = self.calls.dispatch_next(&mut self.core, &mut self.files, id) {
            self.follow_dispatch(id, dispatch);
            if self.core.stop.is_some() {
                return;
            }
        }
    }

    /// Decides on the engine request of a dispatched call, if it has one. The turn may be over after that.
    fn follow_dispatch(&mut self, id: &AgentId, dispatch: Dispatch) {
        if let Dispatch::Request(request) = dispatch {
            self.request(id, *request);
        }
        self.core.mark_if_turn_over(id);
        self.submit_if_full();
    }

    /// Takes a user's answer. An answer to a question that is not open changes nothing.
    pub(super) fn take_answer(&mut self, id: &AgentId, call_id: &str, approval: &Hash, answer: Answer) {
        let always = answer == Answer::Always;
        match self.core.run.answer(id, call_id, approval, answer, AnsweredBy::Person) {
            Ok((id, body)) => self.core.emit(id, body),
            Err(problem) => {
                tracing::warn!(agent_id = %id, call_id, %problem, "an answer was ignored");
                return;
            }
        }
        self.core.watch_deadlines_below(id);
        self.dispatch_answered(id, call_id);
        if always {
            self.dispatch_covered();
        }
    }

    /// Dispatches an answered call again. After a resume no call waits here: it is dispatched with the other calls of
    /// its reply.
    fn dispatch_answered(&mut self, id: &AgentId, call_id: &str) {
        let call_id = call_of_command(call_id).unwrap_or(call_id);
        if id.is_root() && self.core.run.step_called(call_id).is_some() {
            self.core.mark_plan();
            return self.core.mark_ready(id);
        }
        let dispatch = self.calls.dispatch_answered(&mut self.core, &mut self.files, id, call_id);
        let Some(dispatch) = dispatch else { return };
        self.follow_dispatch(id, dispatch);
        // Calls that waited for this call may start now.
        self.core.mark_ready(id);
    }

    /// Dispatches the calls whose questions were answered by an "always" to another question.
    fn dispatch_covered(&mut self) {
        let run = &self.core.run;
        let covered = run.open_questions().filter(|(id, _, question)| {
            let operation = Operation::parse(&question.operation);
            let verdict = run.open(id).map(|agent| agent.authority.decide(&run.terms.approvals, &operation));
            verdict.is_some_and(|verdict| verdict.decision == Decision::Allow)
        });
        let covered: Vec<(AgentId, String)> =
            covered.map(|(id, call_id, _)| (id.clone(), call_id.to_owned())).collect();
        for (id, call_id) in covered {
            self.dispatch_answered(&id, &call_id);
        }
    }

    /// Acts on the answer of hooks.
    pub(super) fn hooked(&mut self, id: &AgentId, about: &HookedMoment, answer: HookAnswer) {
        match self.calls.hooked(&mut self.core, &mut self.files, id, about, answer) {
            HookOutcome::Stale => {}
            HookOutcome::Ready => self.core.mark_ready(id),
            HookOutcome::Dispatched(dispatch) => {
                self.follow_dispatch(id, dispatch);
                self.core.mark_ready(id);
            }
            HookOutcome::StartRefused(failure) => self.end_attempt(id, failure),
            HookOutcome::WorkAllowed => self.integrate_child(id),
            HookOutcome::WorkRefused(reason) => {
                self.reject(id, Code::ChecksFailed, format!("a hook rejected its work: {reason}"));
            }
        }
    }

    /// Acts on the end of a model call.
    pub(super) fn model_done(&mut self, done: &ModelDone) {
        let id = &done.agent;
        match self.models.replied(&mut self.core, done) {
            ReplyOutcome::Stale => {}
            ReplyOutcome::ReplayDiffers(reason) => self.end_replay(reason),
            ReplyOutcome::Charged { unrunnable } => {
                for (call_id, tool, problem) in unrunnable {
                    self.answer(id, &call_id, &tool, Err(ToolFailure::invalid(problem)));
                }
                self.models.retry_budget_queue(&mut self.core);
                self.core.mark_ready(id);
            }
        }
    }

    /// Acts on the end of a wait for a provider.
    pub(super) fn waited(&mut self, id: &AgentId, end: WaitEnd) {
        if let Some(failure) = self.models.wait_ended(&mut self.core, id, end) {
            self.end_attempt(id, failure);
        }
    }

    /// Fails the whole run because a request differs from the recorded one, whichever agent made the request.
    pub(super) fn end_replay(&mut self, reason: String) {
        let failure = Failure { kind: FailKind::Execution, code: Code::ReplayDiffers, reason, report: None };
        self.end_attempt(&self.core.run.id.root(), failure);
    }

    /// Acts on the result of a snapshot of an agent's files.
    pub(super) fn snapshot_taken(&mut self, id: &AgentId, taken: Result<ObjectId, WorkspaceError>) {
        for outcome in self.files.snapshot_taken(&mut self.core, id, taken) {
            self.follow_files(outcome);
        }
        self.core.mark_merge_queue(id);
        self.core.mark_ready(id);
    }

    /// Acts on the outcome of a fact about files.
    pub(super) fn follow_files(&mut self, outcome: FilesOutcome) {
        match outcome {
            FilesOutcome::WorkspaceReady(id) => {
                self.calls.retry_parked(&mut self.core, &mut self.files, &id);
                self.core.mark_merge_queue(&id);
                self.core.mark_ready(&id);
            }
            FilesOutcome::AttemptFailed(id, failure) => self.end_attempt(&id, failure),
            FilesOutcome::SnapshotKnown(id, taken) => self.snapshot_taken(&id, taken),
            FilesOutcome::CannotIntegrate(id, reason) => self.cannot_integrate(&id, &reason),
            FilesOutcome::Accepted { child, conflicts_left } => self.accept(&child, conflicts_left),
            FilesOutcome::Rejected { child, code, reason } => self.reject(&child, code, reason),
        }
    }

    /// Acts on the outcome of a merge, a check or an update of a parent's files. The next one may then start.
    pub(super) fn follow_merge(&mut self, parent: Option<AgentId>, outcome: Option<FilesOutcome>) {
        if self.core.stop.is_some() {
            return;
        }
        if let Some(outcome) = outcome {
            self.follow_files(outcome);
        }
        if let Some(parent) = parent {
            self.core.mark_merge_queue(&parent);
            self.core.mark_ready(&parent);
        }
    }
}
