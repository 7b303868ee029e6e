//! The event stream as API users of tasks see it: status, message, error, done.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{EventBody, FinalStatus, RunStarted, SubagentCreated};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::FailKind;
use posse_domain::text::Text;
use serde::Serialize;

use crate::skill_report::parts;

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
    /// An event of an agent below the task's own, where the run or a skill says that these are told too.
    SubAgent {
        /// Whose it is.
        agent_id: AgentId,
        /// The event; never another one of this kind.
        event: Box<TaskEvent>,
    },
}

/// Whose sub-agents are told of.
#[derive(Debug, Default)]
struct IncludedAgents {
    /// Everybody's.
    all: bool,
    /// Those of these skills.
    skills: BTreeSet<String>,
}

/// The sub-agent of a skill, as far as its parent's task has heard of it.
#[derive(Debug, Clone, Default)]
struct SkillFork {
    report: Option<Text>,
    failed: Option<String>,
}

/// Shows one agent's events as a task's.
#[derive(Debug, Clone)]
pub struct TaskView {
    agent: AgentId,
    failed: Option<(Code, String, bool)>,
    /// What was refused last.
    refused: Option<(Code, String)>,
    included: Arc<IncludedAgents>,
    /// The open children that carry out a skill.
    forked: HashMap<AgentId, SkillFork>,
    /// The open children whose events are told.
    below: HashMap<AgentId, TaskView>,
}

impl TaskView {
    /// The view of one agent; a run's root shows the run.
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

    /// What an event of the run means for this task. It needs all of them, from the first on.
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

    /// The event as one of the agents below, if those are told of.
    fn include(&mut self, agent: &AgentId, body: &EventBody) -> Vec<TaskEvent> {
        let mut child = agent.clone();
        while let Some(parent) = child.parent().filter(|parent| *parent != self.agent) {
            child = parent;
        }
        let Some(view) = self.below.get_mut(&child) else { return Vec::new() };
        let told = view.push(agent, body);
        if *agent == child && matches!(body, EventBody::SubagentClosed(_)) {
            self.below.remove(&child);
        }
        let name = |event| match event {
            TaskEvent::SubAgent { .. } => event,
            own => TaskEvent::SubAgent { agent_id: child.clone(), event: Box::new(own) },
        };
        told.into_iter().map(name).collect()
    }

    /// What becomes of a skill's sub-agent is a message of two parts.
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
            EventBody::ModelReplied(e) => e
                .reply
                .as_ref()
                .map(|reply| reply.text.to_shared().to_string())
                .filter(|text| !text.is_empty())
                .map(|text| vec![TaskEvent::Message { parts: vec![text] }])
                .unwrap_or_default(),
            EventBody::RunCompleted(_) => vec![TaskEvent::Done { final_state: TaskState::Completed }],
            // What was refused and is all there was to do was said already.
            EventBody::RunFailed(e) if self.refused.as_ref().is_some_and(|said| said.1 == e.reason) => {
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
                (FinalStatus::Failed, None) => failed(Code::SubagentError, e.close_reason.clone()),
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
