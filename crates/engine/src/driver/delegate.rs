//! What agents ask of the engine: children, their state, messages, lists. Decided purely, in the commit of the
//! reply that asked.

use std::sync::Arc;

use posse_domain::event::{EffectClass, Sender, TodoChanged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Cancel, OpenState, Refusal};
use posse_domain::message::ToolCall;
use posse_domain::text::Text;

use super::Driver;
use super::commands::HookVerdicts;
use super::session::{CallInFlight, CallStage, SeenDuringCall};
use crate::ports::{EngineRequest, ToolFailure, ToolOutput, ToolResult};

impl Driver {
    pub(super) fn request(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        class: EffectClass,
        request: EngineRequest,
    ) {
        let result = match request {
            EngineRequest::Spawn(spawn) => return self.spawn(id, call, &spawn, &HookVerdicts::default()),
            EngineRequest::Skill { name, arguments } => {
                return self.use_skill(id, call, &name, &arguments);
            }
            EngineRequest::Status { task_id, wait_ms } => {
                match self.status(id, call, task_id.as_deref(), wait_ms) {
                    Some(result) => result,
                    None => return,
                }
            }
            EngineRequest::Send { task_id, message } => self.send_to_child(id, &task_id, message),
            EngineRequest::Cancel { task_id, reason } => self.cancel_child(id, &task_id, reason),
            EngineRequest::Close { task_id } => self.close_child(id, &task_id),
            EngineRequest::Todo(items) => {
                let text = format!("The list has {} entries.", items.len());
                self.emit(id.clone(), TodoChanged { items });
                Ok(ToolOutput::text(text))
            }
        };
        debug_assert!(!matches!(class, EffectClass::Exec), "an exec tool is never a request");
        self.answer(id, &call.id, &call.name, result);
    }

    /// A call that waits inside the engine: it holds no slot and has no task.
    pub(super) fn wait_in_engine(&mut self, id: &AgentId, call_id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let seen = Arc::new(SeenDuringCall::default());
        let flight = CallInFlight::new(EffectClass::Delegate, CallStage::Waiting, seen);
        session.calls.insert(call_id.into(), flight);
    }

    fn send_to_child(&mut self, id: &AgentId, task_id: &str, message: String) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        if !self.takes_messages(&child) {
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

    /// Whether a message can still reach the agent.
    pub(super) fn takes_messages(&self, id: &AgentId) -> bool {
        let state = self.run.open(id).map(|agent| &agent.state);
        matches!(state, Some(OpenState::Created { .. } | OpenState::Running { .. }))
            && !self.run.is_cancelled(id)
    }

    pub(super) fn receive(&mut self, id: &AgentId, from: Sender, text: Text) {
        let Some(received) = self.in_turn(id, from, text) else { return };
        self.emit(id.clone(), received);
        self.mark_ready(id);
    }

    fn cancel_child(&mut self, id: &AgentId, task_id: &str, reason: String) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        let cancel = Cancel { by: id.to_string(), reason, kill: false };
        if !self.cancel(&child, cancel) {
            let text = format!("Task {} had ended already.", child.relative());
            return Ok(ToolOutput::text(text));
        }
        Ok(ToolOutput::text(format!("Task {} and all below it are cancelled.", child.relative())))
    }

    fn close_child(&mut self, id: &AgentId, task_id: &str) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        if self.run.closed(&child).is_some() {
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

pub(super) fn refused(refusal: Refusal) -> ToolFailure {
    ToolFailure { code: refusal.code, text: refusal.reason }
}
