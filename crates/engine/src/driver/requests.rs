//! Decides on the requests of calls to the engine: children, their states, messages, lists. No task is needed, so the
//! decision is in the commit of the reply that contains the call.

use posse_domain::event::{Sender, TodoChanged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Cancel, Refusal};
use posse_domain::text::Text;

use super::Driver;
use super::desks::calls::CallRequest;
use crate::ports::{EngineRequest, ToolFailure, ToolOutput, ToolResult};

impl Driver {
    pub(super) fn request(&mut self, id: &AgentId, asked: CallRequest) {
        let CallRequest { call, request, verdicts } = asked;
        let result = match request {
            EngineRequest::Spawn(spawn) => return self.spawn(id, &call, &spawn, &verdicts),
            EngineRequest::Skill { name, arguments } => {
                return self.use_skill(id, &call, &name, &arguments);
            }
            EngineRequest::Status { task_id, wait_ms } => {
                match self.status(id, &call, task_id.as_deref(), wait_ms) {
                    Some(result) => result,
                    None => return,
                }
            }
            EngineRequest::Send { task_id, message } => self.send_to_child(id, &task_id, message),
            EngineRequest::Cancel { task_id, reason } => self.cancel_child(id, &task_id, reason),
            EngineRequest::Close { task_id } => self.close_child(id, &task_id),
            EngineRequest::Todo(items) => {
                let text = format!("The list has {} entries.", items.len());
                self.core.emit(id.clone(), TodoChanged { items });
                Ok(ToolOutput::text(text))
            }
        };
        self.answer(id, &call.id, &call.name, result);
    }

    fn send_to_child(&mut self, id: &AgentId, task_id: &str, message: String) -> ToolResult {
        let child = self.core.run.own_child(id, task_id).map_err(refused)?;
        if !self.core.takes_messages(&child) {
            let text = format!(
                "task {} has ended; start a new task with its task_id to continue it",
                child.relative()
            );
            return Err(ToolFailure::failed(text));
        }
        let text = format!("Task {} gets the message before its next turn.", child.relative());
        self.receive(&child, Sender::Agent(id.clone()), message.into());
        Ok(ToolOutput::text(text))
    }

    /// Delivers a message to the agent. A replay may hold it back.
    pub(super) fn receive(&mut self, id: &AgentId, from: Sender, text: Text) {
        let Some(received) = self.core.in_turn(id, from, text) else { return };
        self.core.emit(id.clone(), received);
        self.core.mark_ready(id);
    }

    fn cancel_child(&mut self, id: &AgentId, task_id: &str, reason: String) -> ToolResult {
        let child = self.core.run.own_child(id, task_id).map_err(refused)?;
        let cancel = Cancel { by: id.to_string(), reason, kill: false };
        if !self.cancel(&child, cancel) {
            let text = format!("Task {} had ended already.", child.relative());
            return Ok(ToolOutput::text(text));
        }
        Ok(ToolOutput::text(format!("Task {} and all below it are cancelled.", child.relative())))
    }

    fn close_child(&mut self, id: &AgentId, task_id: &str) -> ToolResult {
        let child = self.core.run.own_child(id, task_id).map_err(refused)?;
        if self.core.run.closed(&child).is_some() {
            return Ok(ToolOutput::text(format!("Task {} is closed.", child.relative())));
        }
        if !self.close(&child) {
            let text = format!("task {} is still working; cancel it first", child.relative());
            return Err(ToolFailure::failed(text));
        }
        let text = format!("Task {} is closed now.", child.relative());
        Ok(ToolOutput::text(text))
    }
}

fn refused(refusal: Refusal) -> ToolFailure {
    ToolFailure { code: refusal.code, text: refusal.reason }
}
