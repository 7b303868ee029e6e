//! The event stream as API users of tasks see it: status, message, error, done.

use posse_domain::code::Code;
use posse_domain::event::{EventBody, FinalStatus};
use posse_domain::id::AgentId;
use serde::Serialize;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Under way.
    Running,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// One event of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum TaskEvent {
    /// Its state, or something about it, changed.
    Status {
        /// The state.
        state: TaskState,
        /// What happened.
        message: String,
    },
    /// Something was said.
    Message {
        /// The parts of the message.
        parts: Vec<String>,
    },
    /// Something failed or was refused.
    Error {
        /// Why, as a word.
        error_code: Code,
        /// Why, for people.
        error_message: String,
    },
    /// Nothing follows.
    Done {
        /// How it ended.
        final_state: TaskState,
    },
}

/// Shows one agent's events as a task's.
#[derive(Debug, Clone)]
pub struct TaskView {
    agent: AgentId,
    failed: Option<(Code, String, bool)>,
}

impl TaskView {
    /// The view of one agent; a run's root shows the run.
    pub fn new(agent: AgentId) -> Self {
        Self { agent, failed: None }
    }

    /// What an event of the run means for this task.
    pub fn push(&mut self, agent: &AgentId, body: &EventBody) -> Vec<TaskEvent> {
        if *agent != self.agent {
            return Vec::new();
        }
        match body {
            EventBody::RunStarted(_) | EventBody::SubagentStarted(_) => vec![running(body.summary())],
            EventBody::SubagentAttempt(_)
            | EventBody::SubagentQueued(_)
            | EventBody::RunResumed(_)
            | EventBody::InputRequested(_)
            | EventBody::InputAnswered(_) => {
                vec![running(body.summary())]
            }
            EventBody::SubagentRefused(e) => {
                vec![TaskEvent::Error { error_code: e.code, error_message: e.reason.clone() }]
            }
            EventBody::ModelReplied(e) => e
                .reply
                .as_ref()
                .map(|reply| reply.text.to_shared().to_string())
                .filter(|text| !text.is_empty())
                .map(|text| vec![TaskEvent::Message { parts: vec![text] }])
                .unwrap_or_default(),
            EventBody::RunCompleted(_) => vec![TaskEvent::Done { final_state: TaskState::Completed }],
            EventBody::RunFailed(e) => failed(e.code, e.reason.clone()),
            EventBody::RunCancelled(_) => vec![TaskEvent::Done { final_state: TaskState::Cancelled }],
            EventBody::SubagentFailed(e) => {
                let cancelled = e.kind == posse_domain::lifecycle::FailKind::Cancelled;
                self.failed = Some((e.code, e.reason.clone(), cancelled));
                Vec::new()
            }
            EventBody::IntegrationFailed(e) => {
                let cancelled = e.kind == posse_domain::lifecycle::FailKind::Cancelled;
                self.failed = Some((e.code, e.reason.clone(), cancelled));
                Vec::new()
            }
            EventBody::SubagentClosed(e) => match (e.final_status, self.failed.take()) {
                (FinalStatus::Completed, _) => vec![TaskEvent::Done { final_state: TaskState::Completed }],
                (FinalStatus::Failed, Some((_, _, true))) => {
                    vec![TaskEvent::Done { final_state: TaskState::Cancelled }]
                }
                (FinalStatus::Failed, Some((code, reason, false))) => failed(code, reason),
                (FinalStatus::Failed, None) => failed(Code::SubagentError, e.close_reason.clone()),
            },
            _ => Vec::new(),
        }
    }
}

fn running(message: String) -> TaskEvent {
    TaskEvent::Status { state: TaskState::Running, message }
}

fn failed(error_code: Code, error_message: String) -> Vec<TaskEvent> {
    vec![TaskEvent::Error { error_code, error_message }, TaskEvent::Done { final_state: TaskState::Failed }]
}
