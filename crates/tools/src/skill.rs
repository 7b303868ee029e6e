//! `skill`: loads a skill, or forks a sub-agent that executes it.

use posse_domain::event::EffectClass;
use posse_domain::lifecycle::SKILL_TOOL;
use posse_domain::skill::SKILL_NAME_MAX;
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const ARGUMENTS_MAX_BYTES: usize = 64 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The skill.
    name: String,
    /// What it is to be applied to.
    arguments: Option<String>,
}

/// Creates the tool. It reads no files: a run knows its skills from the start.
pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: SKILL_TOOL,
        class: EffectClass::Read,
        text: include_str!("skill.md"),
        specifier: |input| name_in(input, "name"),
    };
    request::<Input>(&parts, Skill)
}

/// The specifier for permission rules: the normalised name of the skill.
pub(crate) fn name_in(input: &Value, field: &str) -> Option<String> {
    Some(spelled(input.get(field)?.as_str()?))
}

/// Checks the name of a skill that a model wrote.
pub(crate) fn skill_name(check: Check, field: &str, name: &str) -> Result<String, ToolFailure> {
    check.text(field, spelled(name), SKILL_NAME_MAX)
}

/// Normalises a name: case does not matter, and users write skills as commands.
fn spelled(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix('/').unwrap_or(name).to_ascii_lowercase()
}

struct Skill;

impl RequestTool for Skill {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(SKILL_TOOL);
        let Input { name, arguments } = parse(SKILL_TOOL, input)?;
        let arguments = check.optional("arguments", arguments, ARGUMENTS_MAX_BYTES)?;
        Ok(EngineRequest::Skill {
            name: skill_name(check, "name", &name)?,
            arguments: arguments.unwrap_or_default(),
        })
    }
}
