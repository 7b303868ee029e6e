//! `delegate_to_agent`: delegates work to a sub-agent that executes a skill.

use posse_domain::event::EffectClass;
use posse_domain::lifecycle::DELEGATE_TO_AGENT;
use posse_domain::skill::title_of;
use posse_engine::ports::{EngineRequest, RequestTool, SpawnRequest, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::skill::{name_in, skill_name};
use crate::spec::{Parts, request};

/// Maximum length of the task and of the context.
const TASK_MAX_BYTES: usize = 256 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The skill that is to do it.
    skill_name: String,
    /// What is to be done, with everything that is needed to do it.
    task: String,
    /// What else the sub-agent should know.
    context: Option<String>,
    /// Most time for one attempt, in milliseconds; after a failed attempt there may be another.
    timeout_ms: Option<u64>,
}

pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: DELEGATE_TO_AGENT,
        class: EffectClass::Delegate,
        text: include_str!("delegate_to_agent.md"),
        specifier: |input| name_in(input, "skill_name"),
    };
    request::<Input>(&parts, Delegate)
}

struct Delegate;

impl RequestTool for Delegate {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(DELEGATE_TO_AGENT);
        let Input { skill_name: skill, task, context, timeout_ms } = parse(DELEGATE_TO_AGENT, input)?;
        let skill = skill_name(check, "skill_name", &skill)?;
        let extra_context = check.optional("context", context, TASK_MAX_BYTES)?;
        let prompt = check.text("task", task, TASK_MAX_BYTES)?;
        Ok(EngineRequest::Spawn(Box::new(SpawnRequest {
            title: title_of(&skill, &prompt),
            prompt,
            skill: Some(skill),
            extra_context,
            // The call returns the sub-agent's answer.
            background: Some(false),
            timeout_ms: check.at_least_one("timeout_ms", timeout_ms)?,
            ..SpawnRequest::default()
        })))
    }
}
