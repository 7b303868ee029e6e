//! Answering the parent of a child that has ended: the text of its result, as the answer of the call that asked for the
//! child or as a message.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::DELEGATE_TO_AGENT;

use super::Driver;
use super::results::{Answer, OUTPUT_MAX_BYTES};
use crate::ports::{ToolFailure, ToolOutput, ToolResult};
use crate::skill_report::{delegated, parts};

/// How a child ended, for its parent.
pub(super) struct ChildResult {
    pub(super) call_id: Arc<str>,
    pub(super) background: bool,
    pub(super) definition: String,
    pub(super) skill: Option<String>,
    pub(super) result: Result<Arc<str>, (Code, String)>,
}

impl ChildResult {
    /// Its report, or why it failed.
    pub(super) fn words(&self) -> Result<&str, &str> {
        self.result.as_deref().map_err(|(_, reason)| reason.as_str())
    }
}

impl Driver {
    /// A child has ended: its parent hears of it, exactly once.
    pub(super) fn answer_parent(&mut self, child: &AgentId, mut ended: ChildResult) {
        let Some(parent) = child.parent() else { return };
        if let Some(files) = self.merging.take_note(child) {
            ended.result = ended.result.map(|report| {
                format!("{report}\n\nFiles of yours were in the way of its work and were kept as they are: {files}").into()
            });
        }
        if self.run.is_step(child) {
            return self.step_ended(child, &ended.result);
        }
        if self.run.is_run_skill(child) {
            return self.run_skill_ended(child, &ended);
        }
        if ended.background {
            let text = message_of(child, &ended);
            if self.sessions.contains_key(&parent)
                && let Some(received) = self.in_turn(&parent, Sender::Child(child.clone()), text.into())
            {
                self.emit(parent, received);
            }
            return;
        }
        if let Some(session) = self.sessions.get_mut(&parent) {
            session.calls.remove(&ended.call_id);
            let call = session.machine.call_of(&ended.call_id);
            let tool = call.map(|call| call.name.clone()).unwrap_or_default();
            let answer = Answer {
                call_id: &ended.call_id,
                tool: &tool,
                result: answer_of(&tool, child, &ended),
                child: Some(child.clone()),
                seen: Vec::new(),
                elapsed_ms: 0,
            };
            self.finished(&parent, answer);
        }
    }
}

/// What the caller of a foreground child is answered; `tool` is what it called.
fn answer_of(tool: &str, child: &AgentId, ended: &ChildResult) -> ToolResult {
    let id = child.relative();
    match (tool, &ended.skill, &ended.result) {
        (DELEGATE_TO_AGENT, Some(skill), Ok(report)) => {
            Ok(ToolOutput::text(delegated(skill, report, child, OUTPUT_MAX_BYTES)))
        }
        (DELEGATE_TO_AGENT, Some(skill), Err((code, reason))) => {
            let text = format!("the sub-agent for `{skill}` (task_id: {id}) failed: {reason}");
            Err(ToolFailure { code: *code, text })
        }
        (_, Some(_), Ok(_)) => Ok(ToolOutput::text(parts(ended.words(), id).join("\n\n"))),
        (_, Some(_), Err((code, _))) => {
            Err(ToolFailure { code: *code, text: parts(ended.words(), id).join("\n\n") })
        }
        (_, None, Ok(report)) => {
            let text = format!("## Subagent Result ({})\n\n{report}\n\n(task_id: {id})", ended.definition);
            Ok(ToolOutput::text(text))
        }
        (_, None, Err((code, reason))) => {
            let text = format!("sub-agent {} (task_id: {id}) failed: {reason}", ended.definition);
            Err(ToolFailure { code: *code, text })
        }
    }
}

/// What the parent of a background child is told.
fn message_of(child: &AgentId, ended: &ChildResult) -> String {
    let (id, definition) = (child.relative(), &ended.definition);
    match (&ended.skill, &ended.result) {
        (Some(skill), _) => {
            format!("Task {id} (skill {skill}) has ended.\n\n{}", parts(ended.words(), id).join("\n\n"))
        }
        (None, Ok(report)) => format!("Task {id} ({definition}) has completed.\n\n{report}"),
        (None, Err((code, reason))) => format!("Task {id} ({definition}) has failed: {code}: {reason}"),
    }
}
