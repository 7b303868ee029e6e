//! Skills: taken in by whoever asks, carried out by a sub-agent, or all that a run does.

use posse_agent::definition::taken_in;
use posse_domain::code::Code;
use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    BASH, DELEGATE_TO_AGENT, FailKind, Failure, Refusal, SKILL_TOOL, SpawnRequest,
};
use posse_domain::message::ToolCall;
use posse_domain::skill::{SKILL_FILES, Skill, title_of};
use serde_json::Value;

use super::Driver;
use super::answering::ChildResult;
use super::commands::HookVerdicts;
use super::delegate::refused;
use crate::ports::{EngineRequest, Handler, ToolOutput};
use crate::skill_report::parts;

/// What a forked skill is told to do where nothing is said.
const NO_ARGUMENTS: &str = "Carry out the skill.";

/// The tools that show files of skills.
const READ: &str = "read";
const LIST: &str = "list";

/// The tool that starts sub-agents, and nothing else.
pub(super) const TASK: &str = "task";

impl Driver {
    /// `skill`: the text of an inline one at once, or the sub-agent of a forked one.
    pub(super) fn use_skill(&mut self, id: &AgentId, call: &ToolCall, name: &str, arguments: &str) {
        match self.loadable(id, name) {
            Err(refusal) => self.answer(id, &call.id, &call.name, Err(refused(refusal))),
            Ok(skill) if skill.fork => {
                let request = forked(skill, arguments);
                self.spawn(id, call, &request, &HookVerdicts::default());
            }
            Ok(skill) => {
                let has = |tool| self.run.open(id).is_some_and(|agent| agent.authority.grant().covers(tool));
                let (reads, runs) = (has(READ), has(BASH));
                // From the run's state: no file is read, and it is the same after a crash whatever became of the file.
                let text = taken_in(skill, arguments, reads, runs);
                self.answer(id, &call.id, &call.name, Ok(ToolOutput::text(text)));
            }
        }
    }

    /// The skill of the child that a call would continue.
    pub(super) fn continued_skill(&self, id: &AgentId, call: &ToolCall) -> Option<String> {
        let task_id = call.input.get("task_id").filter(|_| call.name == TASK)?.as_str()?;
        self.run.skill_continued(id, task_id).map(str::to_owned)
    }

    /// Whether a call starts a sub-agent, if it is let.
    pub(super) fn starts_child(&self, id: &AgentId, call: &ToolCall) -> bool {
        match call.name.as_str() {
            TASK | DELEGATE_TO_AGENT => true,
            SKILL_TOOL => match self.tool(SKILL_TOOL).map(|tool| &tool.handler) {
                Some(Handler::Request(handler)) => match handler.request(call.input.clone()) {
                    Ok(EngineRequest::Skill { name, .. }) => {
                        self.loadable(id, &name).is_ok_and(|skill| skill.fork)
                    }
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }

    fn loadable(&self, id: &AgentId, name: &str) -> Result<&Skill, Refusal> {
        let agent = self
            .run
            .open(id)
            .ok_or_else(|| Refusal { code: Code::UnknownTask, reason: "the agent is not open".to_owned() })?;
        let skill = self.run.find_skill(agent, name)?;
        // Whether a forked one may be is decided with its child.
        if skill.fork || self.run.skill_rights(agent).may_load(skill) {
            return Ok(skill);
        }
        let reason = format!("`{}` may not use the skill `{}`", agent.kind.definition.name, skill.name);
        Err(Refusal { code: Code::PermissionDenied, reason })
    }

    /// Starts the child that is all a run does, if it is one of those and has not yet.
    pub(super) fn begin_run_skill(&mut self) {
        let root = self.run.id.root();
        let due = self.run.open(&root).is_some_and(|agent| agent.children == 0);
        let ending = self.sessions.get(&root).is_none_or(|session| session.ending.is_some());
        if self.run.terms.skill.is_none() || !due || ending || self.poisoned.is_some() {
            return;
        }
        let class_of = |name: &str| self.rt.tools.get(name).map(|tool| tool.class);
        // A person asked for the skill, so no right of the root is needed.
        let decided = self.run.spawn_run_skill(&class_of);
        match decided.and_then(|decided| self.check_room(&decided).map(|()| decided)) {
            Ok((child, body)) => {
                self.emit(child.clone(), body);
                if self.open_child(&child) {
                    self.begin_child(&child);
                }
            }
            Err(refusal) => {
                let (root, body) = self.run.refuse_run_skill(&refusal);
                self.emit(root.clone(), body);
                let kind = match refusal.code {
                    Code::BudgetExhausted => FailKind::Budget,
                    Code::MaxDepthExceeded | Code::SpawnNotAllowed | Code::PermissionDenied => {
                        FailKind::Policy
                    }
                    _ => FailKind::Execution,
                };
                let Refusal { code, reason } = refusal;
                self.end_attempt(&root, Failure { kind, code, reason, report: None });
            }
        }
    }

    /// The child that was all a run did has ended: what became of it is the root's report.
    pub(super) fn run_skill_ended(&mut self, child: &AgentId, ended: &ChildResult) {
        let root = self.run.id.root();
        // People look a trace up by its whole id.
        let text = parts(ended.words(), child).join("\n\n");
        if self.sessions.contains_key(&root)
            && let Some(received) = self.in_turn(&root, Sender::Child(child.clone()), text.into())
        {
            self.emit(root, received);
        }
    }
}

/// The skill that a call is about whose own operation does not say so. The files of the skill that the agent has `in_hand`
/// are its to read.
pub(super) fn skill_of(
    tool: &str,
    specifier: Option<&str>,
    input: &Value,
    in_hand: Option<&str>,
) -> Option<String> {
    match tool {
        DELEGATE_TO_AGENT => specifier.map(str::to_owned),
        READ | LIST => {
            let file = input.get("path")?.as_str()?.strip_prefix(SKILL_FILES)?;
            let name = file.split('/').next().unwrap_or(file).to_ascii_lowercase();
            Some(name).filter(|name| in_hand != Some(name))
        }
        _ => None,
    }
}

/// The request for the sub-agent of a forked skill.
fn forked(skill: &Skill, arguments: &str) -> SpawnRequest {
    let arguments = arguments.trim();
    SpawnRequest {
        skill: Some(skill.name.clone()),
        prompt: if arguments.is_empty() { NO_ARGUMENTS } else { arguments }.to_owned(),
        title: title_of(&skill.name, arguments),
        background: Some(skill.background),
        ..SpawnRequest::default()
    }
}
