//! How attempts, agents and runs end: failures, cancels, deadlines, closing.
//!
//! An ending agent starts nothing more. Its model call is dropped, its looks are dropped, its writes are waited
//! for; its children end before it. Only when nothing of it is left does the journal say so.

use std::sync::Arc;

use posse_agent::machine::{AttemptFailure, Slot};
use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Attempt, Cancel, FailKind, Failure, OpenState, Refusal, RunEnd};

use super::Driver;
use super::answering::ChildResult;
use super::effects::Effect;
use super::session::{CallStage, Calls, Session, TimeUp};
use crate::ports::{ToolFailure, Urgency};

pub(super) fn failure_of(broken: AttemptFailure) -> Failure {
    let AttemptFailure { kind, code, reason, report } = broken;
    Failure { kind, code, reason, report: report.map(Into::into) }
}

impl Session {
    /// Drops every task of this agent. For a driver that gives its run up; a write in progress ends by itself.
    pub(super) fn abort_all(&self) {
        let hooks = self.hooks.iter().filter_map(|hooked| hooked.task.as_ref());
        for task in self.model_call.task().into_iter().chain(hooks) {
            task.abort();
        }
        for call in self.calls.values() {
            if let CallStage::Running(task) = &call.stage {
                task.abort();
            }
        }
    }
}

impl Driver {
    /// Ends the current attempt of an agent; children of it are cancelled first.
    pub(super) fn end_attempt(&mut self, id: &AgentId, failure: Failure) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.ending.is_some() {
            return;
        }
        session.ending = Some(failure);
        self.cut_short(id, false);
        let children: Vec<AgentId> =
            self.run.open(id).iter().flat_map(|agent| &agent.open_children).map(|&n| id.child(n)).collect();
        for child in children {
            let reason = "the attempt that asked for it has ended".to_owned();
            self.cancel(&child, Cancel { by: "host".to_owned(), reason, kill: false });
        }
        self.conclude(id);
    }

    /// Journals the wish and begins to end the agent and all below it; whether there was anything to end.
    pub(super) fn cancel(&mut self, id: &AgentId, cancel: Cancel) -> bool {
        let (reason, kill) = (cancel.reason.clone(), cancel.kill);
        let Some((target, body)) = self.run.cancel(id, cancel) else { return false };
        self.emit(target, body);
        let subtree = self.run.subtree(id);
        for agent in &subtree {
            let Some(session) = self.sessions.get_mut(agent) else { continue };
            // A cancel overtakes whatever else was ending it: there is no other attempt after it.
            session.ending = Some(Failure {
                kind: FailKind::Cancelled,
                code: Code::Cancelled,
                reason: reason.clone(),
                report: None,
            });
            self.cut_short(agent, kill);
        }
        for agent in &subtree {
            self.conclude(agent);
        }
        true
    }

    /// Drops what only looks or asks, and forgets what waits. A command is told to end, gracefully or, for a kill,
    /// `at_once`, and is waited for: an agent has ended when its last process has. A write is short, and half a write
    /// is worse than a late one.
    pub(super) fn cut_short(&mut self, id: &AgentId, at_once: bool) {
        // What it queued for slots and budgets is found stale when its turn comes.
        self.stop_waiting(id);
        let Some(session) = self.sessions.get_mut(id) else { return };
        let asking = session.machine.is_asking();
        session.model_call.abort();
        let urgency = if at_once { Urgency::AtOnce } else { Urgency::Gently };
        for call in session.calls.values() {
            call.hurry(urgency);
        }
        for hooked in &session.hooks {
            hooked.hurry(urgency);
        }
        let dropped: Vec<Arc<str>> = session
            .calls
            .iter()
            .filter(|(call_id, call)| match &call.stage {
                // Its files are free when its hooks have ended.
                CallStage::Hooking => !session.hooks.iter().any(|hooked| hooked.is_about_call(call_id)),
                CallStage::Running(_) => match call.class {
                    EffectClass::Read | EffectClass::Net => true,
                    EffectClass::Exec | EffectClass::Write | EffectClass::Delegate | EffectClass::Journal => {
                        false
                    }
                },
                CallStage::Queued
                | CallStage::Parked
                | CallStage::Committing
                | CallStage::Waiting
                | CallStage::Asking => true,
            })
            .map(|(id, _)| id.clone())
            .collect();
        session.parked.clear();
        self.drop_calls(id, &dropped, asking);
        if asking {
            self.forfeit_model_call(
                id,
                Code::Cancelled,
                "the call was dropped because the attempt ended",
                false,
            );
            self.budget_freed();
        }
    }

    /// Drops calls with their tasks, and gives back what they held: files, and the slots of those that ran. The slot of a
    /// model call that is dropped too is given back with them.
    pub(super) fn drop_calls(&mut self, id: &AgentId, dropped: &[Arc<str>], model_call: bool) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let kind = session.kind.clone();
        let (mut slots, mut held) = (usize::from(model_call), 0);
        for call_id in dropped {
            let Some(call) = session.calls.remove(call_id) else { continue };
            session.parked.retain(|parked| parked != call_id);
            held += usize::from(call.holds);
            match call.stage {
                CallStage::Running(task) => {
                    task.abort();
                    slots += 1;
                }
                CallStage::Committing => slots += 1,
                CallStage::Queued
                | CallStage::Parked
                | CallStage::Waiting
                | CallStage::Asking
                | CallStage::Hooking => {}
            }
        }
        for _ in 0..held {
            self.change_ended(id, true);
        }
        for _ in 0..slots {
            self.scheduler.release(&kind);
        }
    }

    /// Finishes an ending agent once nothing of it is left: no task, no open child.
    pub(super) fn conclude(&mut self, id: &AgentId) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(failure) = session.ending.clone() else { return };
        let Some(agent) = self.run.open(id) else { return };
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            if !session.hooks.is_empty() {
                return;
            }
            // Its work has ended, only its integration is under way: that is given up, unless it is merged already.
            self.reject_as(id, failure.kind, failure.code, failure.reason);
            return;
        }
        if !session.is_quiet() || !self.merging.is_quiet(id) {
            return;
        }
        self.close_finished_children(id);
        if self.run.open(id).is_none_or(|agent| !agent.open_children.is_empty()) {
            return;
        }
        self.answer_open_calls(id, &failure);
        if id.is_root() {
            let reason = "the run ended before it could start".to_owned();
            self.withdraw_steps(&Refusal { code: Code::Cancelled, reason });
        }
        if !self.ensure_salvaged(id) {
            return;
        }
        if id.is_root() {
            return self.end_run(RunEnd::Failed(failure));
        }
        match self.run.fail(id, failure) {
            Some(Attempt::Again((id, body))) => {
                self.emit(id.clone(), body);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.ending = None;
                    session.winding = TimeUp::No;
                    session.cursor = 0;
                    session.calls = Calls::default();
                    // A fresh workspace from the same snapshot.
                    (session.tip, session.change) = (None, None);
                }
                let place = self.known_workspace(&id);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.place = place;
                }
                self.merging.forget_queue(&id);
                self.mark_ready(&id);
            }
            Some(Attempt::Over((id, body))) => {
                self.emit(id.clone(), body);
                self.child_ended(&id);
            }
            None => {}
        }
    }

    /// Every call has exactly one result, also one that was never run.
    fn answer_open_calls(&mut self, id: &AgentId, failure: &Failure) {
        let Some(session) = self.sessions.get(id) else { return };
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
            let changes = self.tool(&tool).is_some_and(|tool| tool.class.changes_workspace());
            if intended && changes {
                self.interrupt(id, &call_id, &tool, "the attempt ended before its result was known");
                continue;
            }
            let text = "not carried out: the attempt has ended".to_owned();
            self.answer(id, &call_id, &tool, Err(ToolFailure { code, text }));
        }
    }

    /// A child is completed or failed: close it if that is its contract, and tell its parent.
    pub(super) fn child_ended(&mut self, id: &AgentId) {
        let Some(agent) = self.run.open(id) else { return };
        let definition = agent.kind.definition.name.clone();
        let idx = agent.contract.parent.step_idx.to_string();
        let path = agent.contract.outputs.report_path_pattern.replace("<idx>", &idx);
        let result = match &agent.state {
            OpenState::Completed { report } => Ok(report.to_shared()),
            OpenState::Failed(failure) => Err((failure.code, failed_text(failure))),
            _ => return,
        };
        let skill = agent.contract.execution.skill.clone();
        let ended = ChildResult {
            call_id: agent.call_id.clone(),
            background: agent.background,
            definition,
            skill,
            result,
        };
        let close = agent.contract.execution.close_on_completion;
        let writer = agent.writer;
        if close {
            self.close(id);
        } else {
            self.unclosed.insert(id.clone());
        }
        self.sessions.remove(id);
        self.merging.leave(id);
        self.write_report(id, &path, &ended);
        self.answer_parent(id, ended);
        if writer {
            let ending = |id: &AgentId| self.sessions.get(id).is_none_or(|session| session.ending.is_some());
            for writer in self.writers.close(id, &self.run, ending) {
                self.mark_ready(&writer);
            }
        }
        if let Some(parent) = id.parent() {
            if parent.is_root() {
                self.mark_plan();
            }
            self.mark_merge_queue(&parent);
            self.mark_ready(&parent);
        }
    }

    /// A child that never started has a report too: why.
    pub(super) fn report_abandoned(&mut self, id: &AgentId) {
        let Some(agent) = self.run.open(id) else { return };
        let OpenState::Failed(failure) = &agent.state else { return };
        let ended = ChildResult {
            call_id: agent.call_id.clone(),
            background: agent.background,
            definition: agent.kind.definition.name.clone(),
            skill: None,
            result: Err((failure.code, failure.reason.clone())),
        };
        let idx = agent.contract.parent.step_idx.to_string();
        let path = agent.contract.outputs.report_path_pattern.replace("<idx>", &idx);
        self.write_report(id, &path, &ended);
    }

    /// Hands a child's report over to be written where people find it: what it said, and what the host made of that.
    fn write_report(&mut self, id: &AgentId, path: &str, ended: &ChildResult) {
        let Some(parent) = id.parent().filter(|_| self.rt.parts.workspaces.is_some()) else { return };
        let text = match &ended.result {
            Ok(report) => report.clone(),
            Err((Code::Cancelled, reason)) => format!("Cancelled: {reason}").into(),
            Err((code, reason)) => format!("Failed ({code}): {reason}").into(),
        };
        self.after_commit(Effect::Report { parent, path: path.to_owned(), text });
    }

    /// Closes a completed or failed child; whether it could be.
    pub(super) fn close(&mut self, id: &AgentId) -> bool {
        let now_ms = self.rt.parts.system.now_ms();
        let Some((id, body)) = self.run.close(id, now_ms) else { return false };
        self.unclosed.remove(&id);
        self.emit(id, body);
        true
    }

    /// Closes the children that have ended and were left open for their parent to close.
    pub(super) fn close_finished_children(&mut self, id: &AgentId) {
        let left: Vec<AgentId> =
            self.unclosed.iter().filter(|child| child.parent().as_ref() == Some(id)).cloned().collect();
        for child in left {
            self.close(&child);
        }
    }
}

/// Why a child failed, with what it could still report.
fn failed_text(failure: &Failure) -> String {
    match &failure.report {
        Some(report) => format!("{}\n\nIts report:\n\n{}", failure.reason, report.to_shared()),
        None => failure.reason.clone(),
    }
}
