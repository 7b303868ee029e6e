//! API types of what subscribers read while a run is executed: the task view of an agent, and deltas.

use posse_domain::code::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of an agent as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// The agent works or waits.
    Running,
    /// Its work was accepted.
    Completed,
    /// Its work was not accepted.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl From<crate::TaskState> for TaskState {
    fn from(state: crate::TaskState) -> Self {
        match state {
            crate::TaskState::Running => Self::Running,
            crate::TaskState::Completed => Self::Completed,
            crate::TaskState::Failed => Self::Failed,
            crate::TaskState::Cancelled => Self::Cancelled,
        }
    }
}

/// One event of an agent in the form of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum TaskEvent {
    /// The state of the task changed, or it made progress.
    Status {
        /// The state from now on.
        state: TaskState,
        /// What happened, in one line.
        message: String,
    },
    /// The agent's model wrote a text, or a skill's sub-agent has a result.
    Message {
        /// The texts.
        parts: Vec<String>,
    },
    /// The task failed, or a request for a child was refused.
    Error {
        /// The code, for programs.
        error_code: Code,
        /// The reason in words.
        error_message: String,
    },
    /// The task has ended. No event follows.
    Done {
        /// The state at its end.
        final_state: TaskState,
    },
    /// An event of a sub-agent, if the run or the skill includes those.
    SubAgent {
        /// The sub-agent's id.
        agent_id: String,
        /// Its event, which is never itself a `sub_agent`.
        event: Box<TaskEvent>,
    },
}

impl From<&crate::TaskEvent> for TaskEvent {
    fn from(event: &crate::TaskEvent) -> Self {
        match event {
            crate::TaskEvent::Status { state, message } => {
                Self::Status { state: (*state).into(), message: message.clone() }
            }
            crate::TaskEvent::Message { parts } => Self::Message { parts: parts.clone() },
            crate::TaskEvent::Error { error_code, error_message } => {
                Self::Error { error_code: *error_code, error_message: error_message.clone() }
            }
            crate::TaskEvent::Done { final_state } => Self::Done { final_state: (*final_state).into() },
            crate::TaskEvent::SubAgent { agent_id, event } => {
                Self::SubAgent { agent_id: agent_id.to_string(), event: Box::new((&**event).into()) }
            }
        }
    }
}

/// One event of the task view of an agent, as subscribers read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTaskEvent {
    /// The event.
    #[serde(flatten)]
    pub event: TaskEvent,
}

impl AgentTaskEvent {
    /// Converts an event of the task view.
    pub fn new(event: &crate::TaskEvent) -> Self {
        Self { event: event.into() }
    }
}

/// What a delta is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaPart {
    /// Text of the model's reply.
    Text,
    /// The name of a tool that the model is calling.
    Tool,
    /// An error of a call that may be repeated.
    Error,
    /// Anything else, such as the model's thinking.
    Other,
}

/// One ephemeral progress item. Nothing may rely on it: slow readers lose some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// The agent whose model writes.
    pub agent_id: String,
    /// Its parent; null for the root.
    pub parent_id: Option<String>,
    /// What the content is a part of.
    pub part: DeltaPart,
    /// The content.
    pub content: String,
}

impl From<&crate::Delta> for Delta {
    fn from(delta: &crate::Delta) -> Self {
        Self {
            agent_id: delta.agent_id.to_string(),
            parent_id: delta.parent_id.as_ref().map(ToString::to_string),
            part: match delta.part {
                crate::DeltaPart::Text => DeltaPart::Text,
                crate::DeltaPart::Tool => DeltaPart::Tool,
                crate::DeltaPart::Error => DeltaPart::Error,
                crate::DeltaPart::Other => DeltaPart::Other,
            },
            content: delta.content.clone(),
        }
    }
}
