//! Enforces wall time: an agent whose time is nearly up stops working and writes its report.
//!
//! The last part of an agent's time is reserved for the report. When that part begins, the driver cuts the agent's
//! model call, its reads and its waiting calls, asks commands to end and waits for them. The agent's children have
//! ended by then, because their time ends when its report begins. Integrations are not cut.

use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState};

use super::Driver;
use super::desks::calls::time_is_up;
use super::session::TimeUp;

impl Driver {
    /// Handles a deadline of an agent: it must write its report, or its time is up.
    pub(super) fn deadline_passed(&mut self, id: &AgentId) {
        let Some(agent) = self.core.run.open(id) else { return };
        // A deadline does not cut an integration.
        let started = match agent.state {
            OpenState::Created { .. } => false,
            OpenState::Running { .. } => true,
            OpenState::WaitingForMerge { .. } | OpenState::Completed { .. } | OpenState::Failed(_) => return,
        };
        // The deadline is stopped while a user is asked. It is watched again after the answer.
        if self.core.run.is_stopped(id) {
            return;
        }
        let now_ms = self.core.now_ms();
        let report_at_ms = self.core.run.report_at_ms(id, now_ms);
        let at_ms = self.core.run.deadline_ms(id, now_ms);
        let (Some(report_at_ms), Some(at_ms)) = (report_at_ms, at_ms) else { return };
        let Some(session) = self.core.sessions.get_mut(id).filter(|session| !session.is_ending()) else {
            return;
        };
        let reports = session.machine.is_reporting() || session.machine.has_reported();
        match session.time_up {
            _ if report_at_ms > now_ms => self.core.watch_deadline(id),
            TimeUp::No if started && !reports => {
                session.time_up = TimeUp::Up;
                self.core.watch_deadline(id);
                self.cut_for_report(id);
            }
            TimeUp::No | TimeUp::Up if started && at_ms > now_ms => self.core.watch_for(id, at_ms - now_ms),
            // The agent waits for a command, a question or a child, which are not cut. It may still write its report,
            // in the planned time. A wait for the provider is cut.
            TimeUp::Up if !reports && session.machine.open_calls().next().is_some() => {
                session.time_up = TimeUp::Late;
                self.core.watch_for(id, at_ms - report_at_ms);
            }
            TimeUp::No | TimeUp::Up | TimeUp::Late => {
                let report = session.machine.report_so_far();
                let reason = self.core.run.time_used_up(id, now_ms);
                let (kind, code) = (FailKind::Budget, Code::BudgetExhausted);
                self.end_attempt(id, Failure { kind, code, reason, report: report.map(Into::into) });
            }
        }
    }

    /// Cuts the agent's current operations, so that its report is next.
    fn cut_for_report(&mut self, id: &AgentId) {
        self.models.stop_waiting(&mut self.core, id);
        let cut = self.calls.cut_for_report(&mut self.core, &mut self.files, id);
        self.cut_model_call(id, Code::Timeout, "the call was cut off: the time limit was reached", true);
        for call_id in cut {
            let call = self.core.sessions.get(id).and_then(|session| session.machine.call_of(&call_id));
            let tool = call.map(|call| call.name.clone()).unwrap_or_default();
            self.answer(id, &call_id, &tool, Err(time_is_up()));
        }
        self.status_waits.end(id);
        self.core.mark_ready(id);
    }
}
