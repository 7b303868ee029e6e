//! Answers the parent of a child that has ended. The result text becomes the answer of the call that requested the
//! child, or a message.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, Run};

use super::Driver;
use super::desks::calls::{Answer, CommittedFiles, OUTPUT_MAX_BYTES};
use crate::ports::{ToolFailure, ToolOutput, ToolResult};
use crate::skill_report::{delegated, parts};

/// How a child ended, for the answer to its parent.
pub(super) struct ChildResult {
    pub(super) call_id: Arc<str>,
    pub(super) background: bool,
    pub(super) definition: String,
    pub(super) skill: Option<String>,
    pub(super) result: Result<Arc<str>, (Code, String)>,
}

impl ChildResult {
    /// The report of the child, or why it failed.
    fn as_text(&self) -> Result<&str, &str> {
        self.result.as_deref().map_err(|(_, reason)| reason.as_str())
    }
}

impl Driver {
    /// Answers a call that no task executed.
    pub(super) fn answer(&mut self, id: &AgentId, call_id: &str, tool: &str, result: ToolResult) {
        self.calls.answer(&mut self.core, &self.files, id, call_id, tool, result);
    }

    /// Answers the parent of a child that has ended, exactly once.
    pub(super) fn answer_parent(&mut self, child: &AgentId, mut ended: ChildResult) {
        let Some(parent) = child.parent() else { return };
        if let Some(files) = self.files.take_note(child) {
            ended.result = ended.result.map(|report| {
                format!("{report}\n\nFiles of yours were in the way of its work and were kept as they are: {files}").into()
            });
        }
        if self.core.run.is_step(child) {
            // The root is only notified of failed steps.
            if let Err((code, reason)) = &ended.result {
                let text = failed_step_message(&self.core.run, child, *code, reason);
                self.send_message(&parent, child, text);
            }
            return;
        }
        if self.core.run.is_run_skill(child) {
            // The run only executes this child, so its result is the root's report. It contains the full agent id, with
            // which users find the trace.
            let text = parts(ended.as_text(), child).join("\n\n");
            return self.send_message(&parent, child, text);
        }
        if ended.background {
            return self.send_message(&parent, child, background_message(child, &ended));
        }
        let Some(session) = self.core.sessions.get(&parent) else { return };
        let call = session.machine.call_of(&ended.call_id);
        let tool = call.map(|call| call.name.clone()).unwrap_or_default();
        let result = answer_of(&tool, child, &ended);
        self.calls.end_wait(&parent, &ended.call_id);
        let (call_id, child) = (&*ended.call_id, Some(child.clone()));
        let files = CommittedFiles::default();
        let answer = Answer { call_id, tool: &tool, result, child, seen: Vec::new(), files, elapsed_ms: 0 };
        self.calls.finish(&mut self.core, &self.files, &parent, answer);
    }

    /// Journals a message from a child to its parent, unless the parent has ended or a replay holds the message back.
    fn send_message(&mut self, parent: &AgentId, child: &AgentId, text: String) {
        if self.core.sessions.contains_key(parent)
            && let Some(received) = self.core.in_turn(parent, Sender::Child(child.clone()), text.into())
        {
            self.core.emit(parent.clone(), received);
        }
    }
}

/// The message about a failed step of the plan.
fn failed_step_message(run: &Run, child: &AgentId, code: Code, reason: &str) -> String {
    let title = run.planned.as_ref().and_then(|planned| {
        let at = planned.children.iter().position(|step| step.as_ref() == Some(child))?;
        planned.plan.steps.get(at).map(|step| step.title.clone())
    });
    format!(
        "The step `{}` of the plan (task {id}) has failed: {code}: {reason}\n\nYou may repair it: start a task \
         with `repairs: \"{id}\"`, which begins with everything that is integrated so far. Steps that depend on \
         this one wait for that. Or answer without a tool call to leave it failed.",
        title.unwrap_or_default(),
        id = child.relative(),
    )
}

/// The answer of the call that requested a foreground child. `tool` is the name of the called tool.
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
        (_, Some(_), Ok(_)) => Ok(ToolOutput::text(parts(ended.as_text(), id).join("\n\n"))),
        (_, Some(_), Err((code, _))) => {
            Err(ToolFailure { code: *code, text: parts(ended.as_text(), id).join("\n\n") })
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

/// The message about the end of a background child.
fn background_message(child: &AgentId, ended: &ChildResult) -> String {
    let (id, definition) = (child.relative(), &ended.definition);
    match (&ended.skill, &ended.result) {
        (Some(skill), _) => {
            format!("Task {id} (skill {skill}) has ended.\n\n{}", parts(ended.as_text(), id).join("\n\n"))
        }
        (None, Ok(report)) => format!("Task {id} ({definition}) has completed.\n\n{report}"),
        (None, Err((code, reason))) => format!("Task {id} ({definition}) has failed: {code}: {reason}"),
    }
}
