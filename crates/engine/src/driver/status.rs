//! `task_status`: how the children of an agent stand, told at once or when it changes.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::id::AgentId;
use posse_domain::lifecycle::Node;
use posse_domain::message::ToolCall;

use super::Driver;
use super::delegate::refused;
use super::wait::AgentWait;
use crate::ports::{ToolOutput, ToolResult};

/// Longest wait of one `task_status` call.
const STATUS_WAIT_MAX_MS: u64 = 600_000;
/// Most children that one `task_status` answer lists.
const STATUS_LIST_MAX: usize = 200;

/// A `task_status` call that waits for a change.
pub(super) struct StatusWait {
    agent: AgentId,
    call_id: Arc<str>,
    child: Option<AgentId>,
    before: String,
    pub(super) until: tokio::time::Instant,
}

impl Driver {
    /// Answers a status call at once, or lets it wait.
    pub(super) fn status(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        task_id: Option<&str>,
        wait_ms: Option<u64>,
    ) -> Option<ToolResult> {
        let child = match task_id.map(|task_id| self.run.own_child(id, task_id)).transpose() {
            Ok(child) => child,
            Err(refusal) => return Some(Err(refused(refusal))),
        };
        let text = self.status_text(id, child.as_ref());
        let ended = child.as_ref().is_some_and(|child| self.run.closed(child).is_some());
        let Some(wait_ms) = wait_ms.filter(|&ms| ms > 0 && !ended) else {
            return Some(Ok(ToolOutput::text(text)));
        };
        let until = tokio::time::Instant::now() + Duration::from_millis(wait_ms.min(STATUS_WAIT_MAX_MS));
        self.wait_in_engine(id, &call.id);
        let call_id = call.id.as_str().into();
        self.status_waits.push(StatusWait { agent: id.clone(), call_id, child, before: text, until });
        None
    }

    /// Answers the status calls whose children have changed, or whose time is up.
    pub(super) fn answer_status_waits(&mut self) {
        if self.status_waits.is_empty() {
            return;
        }
        let now = tokio::time::Instant::now();
        for wait in std::mem::take(&mut self.status_waits) {
            let waits = self.sessions.get(&wait.agent).is_some_and(|s| s.calls.get(&wait.call_id).is_some());
            if !waits {
                continue;
            }
            let text = self.status_text(&wait.agent, wait.child.as_ref());
            if text == wait.before && now < wait.until {
                self.status_waits.push(wait);
                continue;
            }
            if let Some(session) = self.sessions.get_mut(&wait.agent) {
                session.calls.remove(&wait.call_id);
                let tool =
                    session.machine.call_of(&wait.call_id).map(|call| call.name.clone()).unwrap_or_default();
                self.answer(&wait.agent, &wait.call_id, &tool, Ok(ToolOutput::text(text)));
            }
            self.mark_ready(&wait.agent);
        }
    }

    /// The status calls of an agent wait no longer.
    pub(super) fn end_status_waits(&mut self, id: &AgentId) {
        let now = tokio::time::Instant::now();
        for wait in self.status_waits.iter_mut().filter(|wait| wait.agent == *id) {
            wait.until = now;
        }
    }

    /// How one child, or all of an agent's, stand. The same text for the same state, so that a change shows.
    fn status_text(&self, id: &AgentId, child: Option<&AgentId>) -> String {
        if let Some(child) = child {
            return self.status_line(child);
        }
        let count = self.run.open(id).map_or(0, |agent| agent.children);
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
        let figures = self.run.ledger.own(id).copied().unwrap_or_default();
        let spent = format!(
            "{} turns, {} tool calls, {} tokens",
            figures.turns,
            figures.tool_calls,
            figures.usage.tokens()
        );
        match self.run.get(id) {
            None => format!("{}: unknown", id.relative()),
            Some(Node::Closed(closed)) => {
                let end = closed.fail_kind.map_or("completed", |kind| {
                    if kind == posse_domain::lifecycle::FailKind::Cancelled { "cancelled" } else { "failed" }
                });
                format!("{} ({}): {end}, closed; {spent}", id.relative(), closed.kind.definition.name)
            }
            Some(Node::Open(agent)) => {
                let state = agent.state.name().as_str();
                let session = self.sessions.get(id);
                let turn = session.map_or(0, |session| session.machine.turn());
                let last = session.map_or("", |session| session.last_activity.trim_start_matches("agent."));
                let blocked = self.shown_wait(id).map(|on| format!(", waits for {on}")).unwrap_or_default();
                let name = &agent.kind.definition.name;
                format!("{} ({name}): {state}{blocked}; turn {turn}; last {last}; {spent}", id.relative())
            }
        }
    }

    /// What a status says that an agent waits for. What every new child waits for a moment is not worth a word, and would
    /// look like a change.
    fn shown_wait(&self, id: &AgentId) -> Option<AgentWait<'_>> {
        self.wait_of(id).filter(|wait| !matches!(wait, AgentWait::History | AgentWait::Snapshot))
    }
}
