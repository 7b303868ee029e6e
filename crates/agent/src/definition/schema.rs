//! The formats as JSON Schemas, for editors and other programs. They tell what to write; what is read besides is told
//! by the readers.

use std::collections::BTreeMap;

use posse_domain::definition::DEFINITION_NAME_MAX;
use posse_domain::permission::{Decision, Rule};
use posse_domain::skill::{DESCRIPTION_MAX_CHARS, SKILL_NAME_MAX};
use schemars::JsonSchema;

/// The JSON Schema of the front matter of agent Markdown.
pub fn agent_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(AgentFrontMatter))
}

/// The JSON Schema of the front matter of a `SKILL.md`.
pub fn skill_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(SkillFrontMatter))
}

/// The JSON Schema of a YAML skill.
pub fn yaml_skill_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(YamlSkill))
}

fn sorted(schema: schemars::Schema) -> serde_json::Value {
    let mut schema = schema.to_value();
    schema.sort_all_objects();
    schema
}

/// Names: a list, or text with commas or spaces between them.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Names {
    /// `Read, Grep`.
    Text(String),
    /// `[Read, Grep]`.
    List(Vec<String>),
}

/// Tools, in our spelling or in that of other programs: `Read`, `Bash(git:*)`, `Task(name)`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Tools {
    /// `Read, Bash(git:*)`.
    Text(String),
    /// `[Read, "Bash(git:*)"]`.
    List(Vec<String>),
    /// `{write: false, bash: true}`: what is not named stays as it is.
    Map(BTreeMap<String, bool>),
}

/// A decision for a tool, or for each of its uses; the last that matches counts.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Permission {
    /// For all of its uses.
    Whole(Decision),
    /// By what it is used on: `{"*": "ask", "git log*": "allow"}`.
    Uses(BTreeMap<String, Decision>),
}

/// Decisions for tools.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Permissions {
    /// For every tool.
    Whole(Decision),
    /// By tool; `task` says which definitions may be spawned.
    Tools(BTreeMap<String, Permission>),
}

/// Seconds, or a number with its unit.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Duration {
    /// `90`.
    Seconds(f64),
    /// `30s`, `5m`, `500ms`.
    Text(#[schemars(regex(pattern = r"^[0-9.]+ *(ms|s|m|h)?$"))] String),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Mode {
    /// Only as a root.
    Primary,
    /// As a child; here the same as `all`.
    Subagent,
    /// As a child or as a root.
    All,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Context {
    /// The skill makes a sub-agent.
    Fork,
    /// The skill enters the conversation, as without this key.
    Inline,
}

/// The front matter of an agent's Markdown file; the prompt follows it. Everything may be left out.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct AgentFrontMatter {
    /// Its name; the file's name if left out.
    #[schemars(length(max = DEFINITION_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: Option<String>,
    /// When to use it, as a parent's model reads it.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: Option<String>,
    /// The prompt, if none follows the front matter.
    prompt: Option<String>,
    /// The tools it may use; all but those for spawning if left out.
    tools: Option<Tools>,
    /// Tools, or uses of them, that it may not.
    #[schemars(rename = "disallowedTools")]
    disallowed_tools: Option<Names>,
    /// Its model as provider/model; `inherit` is the parent's, as without this key.
    model: Option<String>,
    /// `plan` leaves only tools that change nothing; other modes change nothing.
    #[schemars(rename = "permissionMode")]
    permission_mode: Option<String>,
    /// Turns of an attempt at most, at the first level.
    #[schemars(rename = "maxTurns", range(min = 1))]
    max_turns: Option<u32>,
    /// The same as `maxTurns`.
    #[schemars(range(min = 1))]
    steps: Option<u32>,
    /// The same as `maxTurns`.
    #[schemars(rename = "maxSteps", range(min = 1))]
    max_steps: Option<u32>,
    /// The skills it may use; all if left out.
    skills: Option<Names>,
    /// The definitions it may spawn; none if left out. `*` is any, `review-*` any whose name fits.
    spawns: Option<Names>,
    /// Whether its agents work in the background unless the caller says otherwise.
    background: Option<bool>,
    /// Who may use it.
    mode: Option<Mode>,
    /// Sampling temperature.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// Nucleus sampling.
    #[schemars(range(min = 0))]
    top_p: Option<f64>,
    /// What it may do with its tools, as opencode writes it.
    permission: Option<Permissions>,
    /// Whether the file is to be passed over.
    disable: Option<bool>,
    /// The same as `disable`.
    disabled: Option<bool>,
    /// What it may do with its tools, as patterns; the last that matches counts.
    rules: Option<Vec<Rule>>,
    /// How many of its agents may run at once in a run.
    #[schemars(range(min = 1))]
    parallel: Option<u32>,
    /// Whether its agents may give their conversation to children.
    may_share_history: Option<bool>,
}

/// The front matter of a `SKILL.md`; the instructions follow it.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
struct SkillFrontMatter {
    /// Its name, the same as its folder's.
    #[schemars(length(max = SKILL_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: String,
    /// When to use it, as models read it.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: String,
    /// More on when to use it; models read it behind the description.
    #[schemars(rename = "when_to_use")]
    when_to_use: Option<String>,
    /// The tools of its sub-agent.
    allowed_tools: Option<Tools>,
    /// Whether it makes a sub-agent.
    context: Option<Context>,
    /// The definition of its sub-agent; `general` if left out.
    agent: Option<String>,
    /// The model of its sub-agent, as provider/model.
    model: Option<String>,
    /// Turns of its sub-agent at most, at the first level.
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// Deepest depth of the tree; below the root it only lowers.
    max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    #[schemars(range(min = 1))]
    max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    timeout_per_iteration: Option<Duration>,
    /// Whether who follows the parent hears the sub-agent's events too.
    #[schemars(rename = "include_sub_agent_events")]
    include_sub_agent_events: Option<bool>,
    /// Whether models are not told of it.
    disable_model_invocation: Option<bool>,
    /// Whether people may ask for it by `/name`.
    user_invocable: Option<bool>,
    /// What to write after its name, for people.
    argument_hint: Option<String>,
    /// Whether its sub-agent works in the background.
    background: Option<bool>,
    /// Sampling temperature of its sub-agent.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// The skills that its sub-agent may delegate to; all that the grant allows if left out.
    #[schemars(rename = "sub_agents")]
    sub_agents: Option<Names>,
}

/// A skill in one YAML file. It always makes a sub-agent.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct YamlSkill {
    /// Its name; the file's name if left out.
    #[schemars(length(max = SKILL_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: Option<String>,
    /// When to use it, as models read it.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: String,
    /// What its sub-agent is told.
    system_prompt: String,
    /// The model of its sub-agent, as provider/model.
    model: Option<String>,
    /// Sampling temperature.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// The tools of its sub-agent.
    tools: Option<Tools>,
    /// The skills that its sub-agent may delegate to; all that the grant allows if left out.
    sub_agents: Option<Names>,
    /// Turns of its sub-agent at most, at the first level.
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// Deepest depth of the tree; below the root it only lowers.
    max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    #[schemars(range(min = 1))]
    max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    timeout_per_iteration: Option<Duration>,
    /// Whether who follows the parent hears the sub-agent's events too.
    include_sub_agent_events: Option<bool>,
    /// The definition of its sub-agent; `general` if left out.
    agent: Option<String>,
    /// Whether its sub-agent works in the background.
    background: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::super::agent_markdown::AGENT;
    use super::super::skill_file::{SKILL, YAML_SKILL};
    use super::*;

    #[test]
    fn the_schemas_have_the_keys_that_are_read() {
        for (schema, format) in
            [(agent_schema(), &AGENT), (skill_schema(), &SKILL), (yaml_skill_schema(), &YAML_SKILL)]
        {
            let properties = schema["properties"].as_object().expect("properties");
            let mut keys: Vec<&str> = format.keys.to_vec();
            keys.sort_unstable();
            assert_eq!(properties.keys().map(String::as_str).collect::<Vec<_>>(), keys);
        }
    }

    #[test]
    fn the_schemas_accept_what_they_tell_people_to_write() {
        let agent = serde_json::json!({
            "name": "x", "description": "d", "tools": {"write": false}, "mode": "subagent", "spawns": ["explore"],
            "permission": {"edit": "deny", "bash": {"*": "ask"}}, "color": "red",
        });
        let skill = serde_json::json!({
            "name": "x", "description": "d", "allowed-tools": "Read", "context": "fork", "timeout-per-iteration": "30s",
        });
        let yaml = serde_json::json!({"description": "d", "system_prompt": "x", "sub_agents": []});
        for (schema, good) in [(agent_schema(), agent), (skill_schema(), skill), (yaml_skill_schema(), yaml)]
        {
            let validator = jsonschema::validator_for(&schema).expect("schema");
            assert!(
                validator.is_valid(&good),
                "{good}: {:?}",
                validator.validate(&good).map_err(|e| e.to_string())
            );
            assert!(!validator.is_valid(&serde_json::json!({"description": 5})));
        }
    }
}
