//! Wall time: an agent whose time is nearly up stops working and writes its report.
//!
//! The last part of its time is kept for that. What it does at that moment is cut: its model call, what only looks, what
//! waits. A command is told to end and waited for. Its children have ended by then, because their time ends where its
//! report begins; only integrations are not cut.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState};

use super::Driver;
use super::session::{CallInFlight, CallStage, TimeUp};
use crate::ports::{ToolFailure, Urgency};

impl Driver {
    /// An agent has to write its report, or its time is up.
    pub(super) fn deadline_passed(&mut self, id: &AgentId) {
        let Some(agent) = self.run.open(id) else { return };
        // A deadline does not cut an integration.
        let started = match agent.state {
            OpenState::Created { .. } => false,
            OpenState::Running { .. } => true,
            OpenState::WaitingForMerge { .. } | OpenState::Completed { .. } | OpenState::Failed(_) => return,
        };
        // It stands still while somebody is asked; it is watched again once they answered.
        if self.run.is_stopped(id) {
            return;
        }
        let now_ms = self.rt.parts.system.now_ms();
        let (report_at_ms, at_ms) = (self.run.report_at_ms(id, now_ms), self.run.deadline_ms(id, now_ms));
        let (Some(report_at_ms), Some(at_ms)) = (report_at_ms, at_ms) else { return };
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.ending.is_none()) else {
            return;
        };
        let reports = session.machine.is_reporting() || session.machine.has_reported();
        match session.winding {
            _ if report_at_ms > now_ms => self.watch_deadline(id),
            TimeUp::No if started && !reports => {
                session.winding = TimeUp::Up;
                self.watch_deadline(id);
                self.wind_up(id);
            }
            TimeUp::No | TimeUp::Up if started && at_ms > now_ms => self.watch_for(id, at_ms - now_ms),
            // It waits for a command, a question or a child, which are not cut: its report has as much time as it would
            // have had. A provider that lets it wait is none of these.
            TimeUp::Up if !reports && session.machine.open_calls().next().is_some() => {
                session.winding = TimeUp::Late;
                self.watch_for(id, at_ms - report_at_ms);
            }
            TimeUp::No | TimeUp::Up | TimeUp::Late => {
                let report = session.machine.report_so_far();
                let reason = self.run.time_used_up(id, now_ms);
                let (kind, code) = (FailKind::Budget, Code::BudgetExhausted);
                self.end_attempt(id, Failure { kind, code, reason, report: report.map(Into::into) });
            }
        }
    }

    /// Has the agent looked at when its time comes: for its report, and after that for its end.
    pub(super) fn watch_deadline(&mut self, id: &AgentId) {
        let now_ms = self.rt.parts.system.now_ms();
        let at_ms = match self.sessions.get(id).map(|session| session.winding) {
            Some(TimeUp::Up | TimeUp::Late) => self.run.deadline_ms(id, now_ms),
            Some(TimeUp::No) | None => self.run.report_at_ms(id, now_ms),
        };
        if let Some(at_ms) = at_ms {
            self.watch_for(id, at_ms - now_ms);
        }
    }

    fn watch_for(&mut self, id: &AgentId, left_ms: i64) {
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        self.deadlines.insert((tokio::time::Instant::now() + left, id.clone()));
    }

    /// Cuts what the agent does, so that its report is next.
    fn wind_up(&mut self, id: &AgentId) {
        self.stop_waiting(id);
        let Some(session) = self.sessions.get_mut(id) else { return };
        let asking = session.machine.is_asking();
        if asking {
            session.model_call.abort();
        }
        for call in session.calls.values() {
            call.hurry(Urgency::Gently);
        }
        let cut: Vec<Arc<str>> =
            session.calls.iter().filter(|(_, call)| is_cut(call)).map(|(id, _)| id.clone()).collect();
        self.drop_calls(id, &cut, asking);
        if asking {
            self.forfeit_model_call(
                id,
                Code::Timeout,
                "the call was cut: the time for work is used up",
                true,
            );
            self.budget_freed();
        }
        for call_id in cut {
            let tool = self.sessions.get(id).and_then(|session| session.machine.call_of(&call_id));
            let tool = tool.map(|call| call.name.clone()).unwrap_or_default();
            self.answer(id, &call_id, &tool, Err(too_late()));
        }
        self.end_status_waits(id);
        self.mark_ready(id);
    }

    /// Whether the agent starts nothing any more because its time is up.
    pub(super) fn winds_up(&self, id: &AgentId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.winding != TimeUp::No)
    }
}

/// Why a call is not carried out when time is up.
pub(super) fn too_late() -> ToolFailure {
    ToolFailure { code: Code::Timeout, text: "not carried out: the time for work is used up".to_owned() }
}

/// Whether a call is dropped: one that only looks, or has not begun. One that waits for a child gets that child's result.
fn is_cut(call: &CallInFlight) -> bool {
    match (&call.stage, call.class) {
        (CallStage::Hooking | CallStage::Asking | CallStage::Waiting, _) => false,
        (CallStage::Queued | CallStage::Parked, _) => true,
        (CallStage::Running(_) | CallStage::Committing, class) => {
            matches!(class, EffectClass::Read | EffectClass::Net)
        }
    }
}
