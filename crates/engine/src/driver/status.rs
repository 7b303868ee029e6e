//! Answers `task_status` calls with the states of an agent's children, at once or when a state changes.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::id::AgentId;
use posse_domain::lifecycle::Node;
use posse_domain::message::ToolCall;

use super::Driver;
use super::wait::WaitReason;
use crate::ports::{ToolFailure, ToolOutput, ToolResult};

/// Longest wait of one `task_status` call.
const STATUS_WAIT_MAX_MS: u64 = 600_000;
/// Limit of children in one `task_status` answer.
const STATUS_LIST_MAX: usize = 200;

struct StatusWait {
    agent: AgentId,
    call_id: Arc<str>,
    child: Option<AgentId>,
    before: String,
    until: tokio::time::Instant,
}

/// The `task_status` calls that wait for a change.
#[derive(Default)]
pub(super) struct StatusWaits(Vec<StatusWait>);

impl StatusWaits {
    /// When the first waiting call times out.
    pub(super) fn next_end(&self) -> Option<tokio::time::Instant> {
        self.0.iter().map(|wait| wait.until).min()
    }

    /// Lets the waiting calls of an agent time out now.
    pub(super) fn end(&mut self, id: &AgentId) {
        let now = tokio::time::Instant::now();
        for wait in self.0.iter_mut().filter(|wait| wait.agent == *id) {
            wait.until = now;
        }
    }
}

impl Driver {
    /// Answers a status call at once, or makes it wait.
    pub(super) fn status(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        task_id: Option<&str>,
        wait_ms: Option<u64>,
    ) -> Option<ToolResult> {
        let child = match task_id.map(|task_id| self.core.run.own_child(id, task_id)).transpose() {
            Ok(child) => child,
            Err(refusal) => {
                return Some(Err(ToolFailure { code: refusal.code, text: refusal.reason }));
            }
        };
        let text = self.status_text(id, child.as_ref());
        let ended = child.as_ref().is_some_and(|child| self.core.run.closed(child).is_some());
        let Some(wait_ms) = wait_ms.filter(|&ms| ms > 0 && !ended) else {
            return Some(Ok(ToolOutput::text(text)));
        };
        let until = tokio::time::Instant::now() + Duration::from_millis(wait_ms.min(STATUS_WAIT_MAX_MS));
        self.calls.wait_in_engine(id, &call.id);
        let call_id = call.id.as_str().into();
        self.status_waits.0.push(StatusWait { agent: id.clone(), call_id, child, before: text, until });
        None
    }

    /// Answers the status calls whose children have changed or whose time is up.
    pub(super) fn answer_status_waits(&mut self) {
        if self.status_waits.0.is_empty() {
            return;
        }
        let now = tokio::time::Instant::now();
        for wait in std::mem::take(&mut self.status_waits.0) {
            let waits = self.calls.is_in_flight(&wait.agent, &wait.call_id);
            if !waits {
                continue;
            }
            let text = self.status_text(&wait.agent, wait.child.as_ref());
            if text == wait.before && now < wait.until {
                self.status_waits.0.push(wait);
                continue;
            }
            let StatusWait { agent, call_id, .. } = &wait;
            let result = Ok(ToolOutput::text(text));
            self.calls.answer_waiting(&mut self.core, &self.files, agent, call_id, result);
            self.core.mark_ready(&wait.agent);
        }
    }

    /// The states of one child or of all children of an agent. Equal states give equal texts, so that changes are
    /// detected by comparison.
    fn status_text(&self, id: &AgentId, child: Option<&AgentId>) -> String {
        if let Some(child) = child {
            return self.status_line(child);
        }
        let count = self.core.run.open(id).map_or(0, |agent| agent.children);
        if count == 0 {
            return "You have no tasks.".to_owned();
        }
        let shown = (1..=count).take(STATUS_LIST_MAX).map(|number| self.status_line(&id.child(number)));
        let mut text = shown.collect::<Vec<_>>().join("\n");
        if count as usize > STATUS_LIST_MAX {
            let _ = write!(text, "\n[{} more]", count as usize - STATUS_LIST_MAX);
        }
        text
    }

    fn status_line(&self, id: &AgentId) -> String {
        let figures = self.core.run.ledger.own(id).copied().unwrap_or_default();
        let spent = format!(
            "{} turns, {} tool calls, {} tokens",
            figures.turns,
            figures.tool_calls,
            figures.usage.tokens()
        );
        match self.core.run.get(id) {
            None => format!("{}: unknown", id.relative()),
            Some(Node::Closed(closed)) => {
                let end = closed.fail_kind.map_or("completed", |kind| {
                    if kind == posse_domain::lifecycle::FailKind::Cancelled { "cancelled" } else { "failed" }
                });
                format!("{} ({}): {end}, closed; {spent}", id.relative(), closed.prepared.definition.name)
            }
            Some(Node::Open(agent)) => {
                let state = agent.state.name().as_str();
                let session = self.core.sessions.get(id);
                let turn = session.map_or(0, |session| session.machine.turn());
                let last = session.map_or("", |session| session.last_activity.trim_start_matches("agent."));
                let blocked = self.shown_wait(id).map(|on| format!(", waits for {on}")).unwrap_or_default();
                let name = &agent.prepared.definition.name;
                format!("{} ({name}): {state}{blocked}; turn {turn}; last {last}; {spent}", id.relative())
            }
        }
    }

    /// The wait that a status shows. Short waits of every new child are omitted, because they would look like a change.
    fn shown_wait(&self, id: &AgentId) -> Option<WaitReason<'_>> {
        self.wait_of(id).filter(|wait| !matches!(wait, WaitReason::History | WaitReason::Snapshot))
    }
}
