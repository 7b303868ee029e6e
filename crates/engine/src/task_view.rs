//! Converts the events of a run to the task events of the API: status, message, error, done.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{EventBody, FinalStatus, RunStarted, SubagentCreated};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::FailKind;
use posse_domain::text::Text;
use serde::Serialize;

use crate::skill_report::parts;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Running,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum TaskEvent {
    /// The state of the task changed, or it made progress.
    Status {
        state: TaskState,
        /// A summary of the event that caused the change.
        message: String,
    },
    /// The model of the agent wrote a text, or a skill's sub-agent has a result.
    Message { parts: Vec<String> },
    /// The task failed, or a request for a child was refused.
    Error { error_code: Code, error_message: String },
    /// The task has ended. No event follows.
    Done { final_state: TaskState },
    /// An event of a sub-agent of the task's agent. Only sent if `include_sub_agent_events` is set for the run or the
    /// skill.
    SubAgent {
        agent_id: AgentId,
        /// Never itself a `SubAgent`.
        event: Box<TaskEvent>,
    },
}

/// The sub-agents whose events a task includes.
#[derive(Debug, Default)]
struct IncludedAgents {
    all: bool,
    /// The sub-agents of these skills.
    skills: BTreeSet<String>,
}

/// The result of a skill's sub-agent, as far as events have reported it.
#[derive(Debug, Clone, Default)]
struct SkillFork {
    report: Option<Text>,
    failed: Option<String>,
}

/// Presents one agent as a task.
#[derive(Debug, Clone)]
pub struct TaskView {
    agent: AgentId,
    failed: Option<(Code, String, bool)>,
    /// The last refusal of a child, with its reason.
    refused: Option<(Code, String)>,
    included: Arc<IncludedAgents>,
    /// The open children that execute a skill.
    forked: HashMap<AgentId, SkillFork>,
    /// The open children whose events this task includes.
    below: HashMap<AgentId, TaskView>,
}

impl TaskView {
    /// A view of this agent. The view of the root shows the whole run.
    pub fn new(agent: AgentId) -> Self {
        Self {
            agent,
            failed: None,
            refused: None,
            included: Arc::default(),
            forked: HashMap::new(),
            below: HashMap::new(),
        }
    }

    /// Takes an event of the run and returns the task events that follow from it. The view must receive every event of
    /// the run, from the first on.
    pub fn push(&mut self, agent: &AgentId, body: &EventBody) -> Vec<TaskEvent> {
        if let EventBody::RunStarted(started) = body {
            self.included = Arc::new(included(started));
        }
        if *agent == self.agent {
            return self.own(body);
        }
        let mut events = Vec::new();
        if let EventBody::SubagentCreated(created) = body
            && created.parent_id == self.agent
        {
            events.extend(self.child_created(agent, created));
        }
        if self.forked.is_empty() && self.below.is_empty() {
            return events;
        }
        events.extend(self.include(agent, body));
        events.extend(self.forked_event(agent, body));
        events
    }

    fn child_created(&mut self, child: &AgentId, created: &SubagentCreated) -> Option<TaskEvent> {
        let skill = created.skill.as_ref();
        if self.included.all || skill.is_some_and(|skill| self.included.skills.contains(skill)) {
            let view = Self { included: self.included.clone(), ..Self::new(child.clone()) };
            self.below.insert(child.clone(), view);
        }
        let skill = skill?;
        self.forked.insert(child.clone(), SkillFork::default());
        Some(running(format!("Spawning sub-agent for skill: {skill}")))
    }

    /// The task events of a sub-agent, if this task includes them.
    fn include(&mut self, agent: &AgentId, body: &EventBody) -> Vec<TaskEvent> {
        let mut child = agent.clone();
        while let Some(parent) = child.parent().filter(|parent| *parent != self.agent) {
            child = parent;
        }
        let Some(view) = self.below.get_mut(&child) else { return Vec::new() };
        let pushed = view.push(agent, body);
        if *agent == child && matches!(body, EventBody::SubagentClosed(_)) {
            self.below.remove(&child);
        }
        let name = |event| match event {
            TaskEvent::SubAgent { .. } => event,
            own => TaskEvent::SubAgent { agent_id: child.clone(), event: Box::new(own) },
        };
        pushed.into_iter().map(name).collect()
    }

    /// Reports the end of a skill's sub-agent as a message of two parts.
    fn forked_event(&mut self, agent: &AgentId, body: &EventBody) -> Option<TaskEvent> {
        let forked = self.forked.get_mut(agent)?;
        match body {
            EventBody::SubagentWaitingForMerge(e) => forked.report = Some(e.report.clone()),
            EventBody::SubagentFailed(e) => forked.failed = Some(e.reason.clone()),
            EventBody::IntegrationFailed(e) => forked.failed = Some(e.reason.clone()),
            EventBody::SubagentClosed(_) => {
                let SkillFork { report, failed } = self.forked.remove(agent)?;
                let report = report.map(|report| report.to_shared()).unwrap_or_default();
                let result = failed.as_deref().map_or(Ok(&*report), Err);
                return Some(TaskEvent::Message { parts: parts(result, agent).into() });
            }
            _ => {}
        }
        None
    }

    fn own(&mut self, body: &EventBody) -> Vec<TaskEvent> {
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
                self.refused = Some((e.code, e.reason.clone()));
                vec![TaskEvent::Error { error_code: e.code, error_message: e.reason.clone() }]
            }
            EventBody::ModelReplied(e) if e.summary => Vec::new(),
            EventBody::ModelReplied(e) => e
                .reply
                .as_ref()
                .map(|reply| reply.text.to_shared().to_string())
                .filter(|text| !text.is_empty())
                .map(|text| vec![TaskEvent::Message { parts: vec![text] }])
                .unwrap_or_default(),
            EventBody::RunCompleted(_) => vec![TaskEvent::Done { final_state: TaskState::Completed }],
            // The refusal was the only work of the run, and its error event was sent already.
            EventBody::RunFailed(e) if self.refused.as_ref().is_some_and(|refused| refused.1 == e.reason) => {
                vec![TaskEvent::Done { final_state: TaskState::Failed }]
            }
            EventBody::RunFailed(e) => failed(e.code, e.reason.clone()),
            EventBody::RunCancelled(_) => vec![TaskEvent::Done { final_state: TaskState::Cancelled }],
            EventBody::SubagentFailed(e) => {
                let cancelled = e.kind == FailKind::Cancelled;
                self.failed = Some((e.code, e.reason.clone(), cancelled));
                Vec::new()
            }
            EventBody::IntegrationFailed(e) => {
                let cancelled = e.kind == FailKind::Cancelled;
                self.failed = Some((e.code, e.reason.clone(), cancelled));
                Vec::new()
            }
            EventBody::SubagentClosed(e) => match (e.final_status, self.failed.take()) {
                (FinalStatus::Completed, _) => vec![TaskEvent::Done { final_state: TaskState::Completed }],
                (FinalStatus::Failed, Some((_, _, true))) => {
                    vec![TaskEvent::Done { final_state: TaskState::Cancelled }]
                }
                (FinalStatus::Failed, Some((code, reason, false))) => failed(code, reason),
                (FinalStatus::Failed, None) => failed(Code::SubagentError, e.close_reason.to_string()),
            },
            _ => Vec::new(),
        }
    }
}

fn included(started: &RunStarted) -> IncludedAgents {
    let all = started.request.terms.include_sub_agent_events;
    let found = started.request.catalogue.as_ref().filter(|_| !all).and_then(|text| text.read().ok());
    let skills = found.iter().flat_map(|found| &found.skills);
    let skills = skills.filter(|skill| skill.include_sub_agent_events).map(|skill| skill.name.clone());
    IncludedAgents { all, skills: skills.collect() }
}

fn running(message: String) -> TaskEvent {
    TaskEvent::Status { state: TaskState::Running, message }
}

fn failed(error_code: Code, error_message: String) -> Vec<TaskEvent> {
    vec![TaskEvent::Error { error_code, error_message }, TaskEvent::Done { final_state: TaskState::Failed }]
}
