//! Determines for the call desk which calls are about a skill, and which start a sub-agent.

use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, Refusal, SKILL_TOOL, TASK_TOOL};
use posse_domain::message::ToolCall;
use posse_domain::skill::{SKILL_FILES, Skill};
use serde_json::Value;

use crate::driver::core::Core;
use crate::ports::{EngineRequest, Handler};

/// Tools that can read the files of skills.
pub(crate) const READ: &str = "read";
const LIST: &str = "list";

/// The skill of the child that a call would continue.
pub(super) fn continued_skill(core: &Core, id: &AgentId, call: &ToolCall) -> Option<String> {
    let task_id = call.input.get("task_id").filter(|_| call.name == TASK_TOOL)?.as_str()?;
    core.run.skill_continued(id, task_id).map(str::to_owned)
}

/// Whether a call starts a sub-agent if it is allowed.
pub(super) fn starts_child(core: &Core, id: &AgentId, call: &ToolCall) -> bool {
    match call.name.as_str() {
        TASK_TOOL | DELEGATE_TO_AGENT => true,
        SKILL_TOOL => match core.tool(SKILL_TOOL).map(|tool| &tool.handler) {
            Some(Handler::Request(handler)) => match handler.request(call.input.clone()) {
                Ok(EngineRequest::Skill { name, .. }) => {
                    loadable_skill(core, id, &name).is_ok_and(|skill| skill.fork)
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// The skill of this name, if the agent may load or fork it.
pub(crate) fn loadable_skill<'a>(core: &'a Core, id: &AgentId, name: &str) -> Result<&'a Skill, Refusal> {
    let agent = core
        .run
        .open(id)
        .ok_or_else(|| Refusal { code: Code::UnknownTask, reason: "the agent is not open".to_owned() })?;
    let skill = core.run.find_skill(agent, name)?;
    // Whether a skill may be forked is decided when its child is created.
    if skill.fork || core.run.skill_rights(agent).may_load(skill) {
        return Ok(skill);
    }
    let reason = format!("`{}` may not use the skill `{}`", agent.prepared.definition.name, skill.name);
    Err(Refusal { code: Code::PermissionDenied, reason })
}

/// The skill of a call whose operation does not name one. The agent may read the files of the skill `in_hand`.
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
