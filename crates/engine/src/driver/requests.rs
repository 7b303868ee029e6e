//! Decides on the requests of calls to the engine: children, their states, messages, lists. No task is needed, so the
//! decision is in the commit of the reply that contains the call.

use posse_domain::event::{Sender, TodoChanged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{AgentState, Cancel, CommandRefused, Refusal};
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
        let task = child.relative();
        let text = match self.cancel(&child, cancel) {
            Ok(()) => format!("Task {task} and all below it are cancelled."),
            Err(CommandRefused::State(_)) => format!("Task {task} had ended already."),
            Err(CommandRefused::Cancelled) => {
                format!("Task {task} was cancelled already. It ends when its last operation has ended.")
            }
            Err(refused) => return Err(self.impossible(&child, "cancel", refused)),
        };
        Ok(ToolOutput::text(text))
    }

    fn close_child(&mut self, id: &AgentId, task_id: &str) -> ToolResult {
        let child = self.core.run.own_child(id, task_id).map_err(refused)?;
        let task = child.relative();
        let problem = match self.close(&child) {
            Ok(()) => return Ok(ToolOutput::text(format!("Task {task} is closed now."))),
            Err(CommandRefused::State(AgentState::Closed)) => {
                return Ok(ToolOutput::text(format!("Task {task} is closed.")));
            }
            Err(CommandRefused::State(AgentState::WaitingForMerge)) => {
                format!("task {task} waits for its integration; wait for its result, or cancel it first")
            }
            Err(CommandRefused::State(_)) => format!("task {task} is still working; cancel it first"),
            Err(CommandRefused::OpenChildren) => {
                format!("task {task} has tasks of its own that are still open; cancel it first")
            }
            Err(refused) => return Err(self.impossible(&child, "close", refused)),
        };
        Err(ToolFailure::failed(problem))
    }

    /// Stops the run after a refusal that no state of a caller's own child explains. No model reads the result.
    fn impossible(&mut self, child: &AgentId, command: &str, refused: CommandRefused) -> ToolFailure {
        self.core.stop_for_refusal(child, command, refused);
        ToolFailure::failed(refused.to_string())
    }
}

fn refused(refusal: Refusal) -> ToolFailure {
    ToolFailure { code: refusal.code, text: refusal.reason }
}
