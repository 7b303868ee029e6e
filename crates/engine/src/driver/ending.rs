//! Ends attempts and runs: failures, cancels, and the end of the run.
//!
//! An ending agent starts nothing more. Its model call and its reads are dropped, its writes are awaited, and its
//! children end before it. The journal records its end only when all its tasks have ended.

use posse_agent::machine::{AttemptFailure, Slot};
use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    AgentState, Attempt, Cancel, CommandRefused, FailKind, Failure, OpenState, Refusal, RunEnd,
};

use super::Driver;
use super::desks::calls::CallDesk;
use super::desks::files::Publication;
use super::desks::models::ModelDesk;
use super::session::{AgentWait, TimeUp};
use crate::ports::{ToolFailure, Urgency};

pub(super) fn failure_of(broken: AttemptFailure) -> Failure {
    let AttemptFailure { kind, code, reason, report } = broken;
    Failure { kind, code, reason, report: report.map(Into::into) }
}

impl Driver {
    /// Ends the current attempt of an agent. Its children are cancelled first.
    pub(super) fn end_attempt(&mut self, id: &AgentId, failure: Failure) {
        let Some(session) = self.core.sessions.get_mut(id).filter(|session| !session.is_ending()) else {
            return;
        };
        session.end(failure);
        self.cut_short(id, Urgency::Gently);
        let children = self.core.run.open(id).into_iter().flat_map(|agent| &agent.open_children);
        for child in children.map(|&number| id.child(number)).collect::<Vec<AgentId>>() {
            let reason = "its parent ended".to_owned();
            match self.cancel(&child, Cancel { by: "host".to_owned(), reason, kill: false }) {
                // A child that has ended stays open if its contract leaves the close to its parent. A child that was
                // cancelled before ends anyway.
                Ok(())
                | Err(
                    CommandRefused::State(AgentState::Completed | AgentState::Failed)
                    | CommandRefused::Cancelled,
                ) => {}
                Err(refused) => self.core.stop_for_refusal(&child, "cancel", refused),
            }
        }
        self.conclude(id);
    }

    /// Journals the cancel and begins to end the agent and its subtree. A cancel can come at any time, so the caller
    /// decides what a refusal means.
    pub(super) fn cancel(&mut self, id: &AgentId, cancel: Cancel) -> Result<(), CommandRefused> {
        let (reason, kill) = (cancel.reason.clone(), cancel.kill);
        let (target, body) = self.core.run.cancel(id, cancel)?;
        self.core.emit(target, body);
        let subtree = self.core.run.subtree(id);
        for agent in &subtree {
            // A cancel replaces any other reason for which the agent is ending: no further attempt follows.
            self.begin_cancel(agent, &reason, if kill { Urgency::AtOnce } else { Urgency::Gently });
        }
        for agent in &subtree {
            self.conclude(agent);
        }
        Ok(())
    }

    pub(super) fn begin_cancel(&mut self, id: &AgentId, reason: &str, urgency: Urgency) {
        let Some(session) = self.core.sessions.get_mut(id) else { return };
        let (kind, code) = (FailKind::Cancelled, Code::Cancelled);
        session.end(Failure { kind, code, reason: reason.to_owned(), report: None });
        self.cut_short(id, urgency);
    }

    /// Drops the model call and those tool calls of an ending agent that need not be awaited. Its requests for slots
    /// and budgets are recognised as stale when they are granted.
    fn cut_short(&mut self, id: &AgentId, urgency: Urgency) {
        self.models.stop_waiting(&mut self.core, id);
        self.calls.cut_short(&mut self.core, &mut self.files, id, urgency);
        self.cut_model_call(id, Code::Cancelled, "the call was dropped because the attempt ended", false);
    }

    /// Drops the journalled model call, if there is one. Its slot is freed, and it is charged with its reserve.
    pub(super) fn cut_model_call(&mut self, id: &AgentId, code: Code, message: &str, again: bool) {
        let Some(session) = self.core.sessions.get_mut(id) else { return };
        if !session.machine.is_asking() {
            return;
        }
        session.drop_model_call();
        self.core.release_slot(id);
        ModelDesk::forfeit(&mut self.core, id, code, message, again);
        self.models.retry_budget_queue(&mut self.core);
    }

    /// Finishes an ending agent when it has no task and no open child any more.
    pub(super) fn conclude(&mut self, id: &AgentId) {
        let Some(session) = self.core.sessions.get(id) else { return };
        let Some(failure) = session.failure().cloned() else { return };
        let Some(agent) = self.core.run.open(id) else { return };
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            if !self.calls.waits_for_hooks(id) {
                // The agent has ended its work and only its integration is under way. The integration is given up,
                // unless the merge is journalled.
                self.reject_as(id, failure.kind, failure.code, failure.reason);
            }
            return;
        }
        if !session.is_quiet() || !self.calls.is_quiet(id) || !self.files.is_quiet(id) {
            return;
        }
        self.close_finished_children(id);
        if self.core.run.open(id).is_none_or(|agent| !agent.open_children.is_empty()) {
            return;
        }
        self.answer_open_calls(id, &failure);
        if id.is_root() {
            let reason = "the run ended before it could start".to_owned();
            self.calls.withdraw_steps(&mut self.core, &Refusal { code: Code::Cancelled, reason });
        }
        if !self.files.ensure_salvaged(&mut self.core, id) {
            return;
        }
        if id.is_root() {
            return self.end_run(RunEnd::Failed(failure));
        }
        match self.core.run.fail(id, failure) {
            Ok(Attempt::Again((id, body))) => {
                self.core.emit(id.clone(), body);
                if let Some(session) = self.core.sessions.get_mut(&id) {
                    (session.wait, session.time_up) = (AgentWait::Idle, TimeUp::No);
                }
                self.calls.open_attempt(&id);
                self.files.open_attempt(&self.core, &id);
                self.core.mark_ready(&id);
            }
            Ok(Attempt::Over((id, body))) => {
                self.core.emit(id.clone(), body);
                self.child_ended(&id);
            }
            Err(refused) => self.core.stop_for_refusal(id, "fail", refused),
        }
    }

    /// Answers the open calls of an ending agent. Every call has exactly one result, also a call that never ran.
    fn answer_open_calls(&mut self, id: &AgentId, failure: &Failure) {
        let Some(session) = self.core.sessions.get(id) else { return };
        let (calls, slots) = session.machine.calls();
        let open: Vec<(String, String, bool)> = calls
            .iter()
            .zip(slots)
            .filter_map(|(call, slot)| match slot {
                Slot::Open { intended, .. } => Some((call.id.clone(), call.name.clone(), *intended)),
                Slot::Done { .. } => None,
            })
            .collect();
        let code = if failure.kind == FailKind::Cancelled { Code::Cancelled } else { failure.code };
        for (call_id, tool, intended) in open {
            let changes = self.core.tool(&tool).is_some_and(|tool| tool.class.changes_workspace());
            if intended && changes {
                let text = "the attempt ended before its result was known";
                // The salvage of the workspace has its files.
                CallDesk::interrupt(&mut self.core, id, &call_id, &tool, text, None);
                continue;
            }
            let text = "not executed: the attempt has ended".to_owned();
            self.answer(id, &call_id, &tool, Err(ToolFailure { code, text }));
        }
    }

    /// Ends the run when its changes are published.
    pub(super) fn end_run(&mut self, end: RunEnd) {
        let Publication::Done(result) = self.files.ensure_published(&mut self.core) else { return };
        let result = result.clone();
        let now_ms = self.core.now_ms();
        match self.core.run.end(end, result, now_ms) {
            Ok((id, body)) => self.core.emit(id, body),
            // The root is advanced again if an effect ends while the last commit is written.
            Err(CommandRefused::RunEnded) => {}
            Err(refused) => self.core.stop_for_refusal(&self.core.run.id.root(), "end", refused),
        }
    }
}
