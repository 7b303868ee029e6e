//! The JSON Schemas of the file formats, for editors and other programs. They describe the recommended format. The
//! parsers accept more and document that themselves.

use std::collections::BTreeMap;

use posse_domain::definition::DEFINITION_NAME_MAX;
use posse_domain::permission::{Decision, Rule};
use posse_domain::skill::{DESCRIPTION_MAX_CHARS, SKILL_NAME_MAX};
use schemars::JsonSchema;

pub fn agent_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(AgentFrontMatter))
}

/// The JSON Schema of the front matter of a `SKILL.md`.
pub fn skill_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(SkillFrontMatter))
}

pub fn yaml_skill_schema() -> serde_json::Value {
    sorted(schemars::schema_for!(YamlSkill))
}

fn sorted(schema: schemars::Schema) -> serde_json::Value {
    let mut schema = schema.to_value();
    schema.sort_all_objects();
    schema
}

/// Names: a list, or text separated by commas or spaces.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Names {
    /// `Read, Grep`.
    Text(String),
    /// `[Read, Grep]`.
    List(Vec<String>),
}

/// Tools, by the names of Posse or of other programs: `Read`, `Bash(git:*)`, `Task(name)`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Tools {
    /// `Read, Bash(git:*)`.
    Text(String),
    /// `[Read, "Bash(git:*)"]`.
    List(Vec<String>),
    /// `{write: false, bash: true}`: tools that are not named stay as they are.
    Map(BTreeMap<String, bool>),
}

/// A decision for a tool, or for each of its uses. The last match wins.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Permission {
    /// For all of its uses.
    Whole(Decision),
    /// By specifier: `{"*": "ask", "git log*": "allow"}`.
    Uses(BTreeMap<String, Decision>),
}

/// Decisions for tools.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Permissions {
    /// For every tool.
    Whole(Decision),
    /// By tool. `task` decides which definitions may be spawned.
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
    /// As a child. Here the same as `all`.
    Subagent,
    /// As a child or as a root.
    All,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Context {
    /// A new sub-agent executes the skill.
    Fork,
    /// The agent loads the skill into its conversation, as without this key.
    Inline,
}

/// The front matter of an agent's Markdown file. The prompt follows it. Every field is optional.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct AgentFrontMatter {
    /// The name. Default: the file's name.
    #[schemars(length(max = DEFINITION_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: Option<String>,
    /// When to use it, for a parent's model.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: Option<String>,
    /// The prompt, if none follows the front matter.
    prompt: Option<String>,
    /// The tools that its agents may use. Default: all except those for spawning.
    tools: Option<Tools>,
    /// Tools, or uses of them, that are removed.
    #[schemars(rename = "disallowedTools")]
    disallowed_tools: Option<Names>,
    /// The model as provider/model. `inherit` means the parent's, as without this key.
    model: Option<String>,
    /// `plan` keeps only read-only tools. Other modes have no effect.
    #[schemars(rename = "permissionMode")]
    permission_mode: Option<String>,
    /// Maximum number of turns of an attempt at the first level.
    #[schemars(rename = "maxTurns", range(min = 1))]
    max_turns: Option<u32>,
    /// The same as `maxTurns`.
    #[schemars(range(min = 1))]
    steps: Option<u32>,
    /// The same as `maxTurns`.
    #[schemars(rename = "maxSteps", range(min = 1))]
    max_steps: Option<u32>,
    /// The skills that its agents may use. Default: all.
    skills: Option<Names>,
    /// The definitions that its agents may spawn. Default: none. `*` is any, `review-*` matches names.
    spawns: Option<Names>,
    /// Whether its agents work in the background unless the caller says otherwise.
    background: Option<bool>,
    /// Whether it is for roots or for children.
    mode: Option<Mode>,
    /// Sampling temperature.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// Nucleus sampling.
    #[schemars(range(min = 0))]
    top_p: Option<f64>,
    /// The permissions of its agents, in opencode's format.
    permission: Option<Permissions>,
    /// Whether the file is ignored.
    disable: Option<bool>,
    /// The same as `disable`.
    disabled: Option<bool>,
    /// The permissions of its agents as rules. The last match wins.
    rules: Option<Vec<Rule>>,
    /// How many of its agents may run at once in a run.
    #[schemars(range(min = 1))]
    parallel: Option<u32>,
    /// Whether its agents may share their conversation with children.
    may_share_history: Option<bool>,
}

/// The front matter of a `SKILL.md`. The instructions follow it.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
struct SkillFrontMatter {
    /// The name, equal to the folder's.
    #[schemars(length(max = SKILL_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: String,
    /// When to use it, for models.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: String,
    /// More on when to use it. Models read it after the description.
    #[schemars(rename = "when_to_use")]
    when_to_use: Option<String>,
    /// The tools of its sub-agent.
    allowed_tools: Option<Tools>,
    /// Whether a new sub-agent executes it.
    context: Option<Context>,
    /// The definition of its sub-agent. Default: `general`.
    agent: Option<String>,
    /// The model of its sub-agent, as provider/model.
    model: Option<String>,
    /// Maximum number of turns of its sub-agent at the first level.
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// Maximum depth of the tree. Below the root it can only lower the limit.
    max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    #[schemars(range(min = 1))]
    max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    timeout_per_iteration: Option<Duration>,
    /// Whether subscribers of the parent's events receive the sub-agent's events too.
    #[schemars(rename = "include_sub_agent_events")]
    include_sub_agent_events: Option<bool>,
    /// Whether it is hidden from models.
    disable_model_invocation: Option<bool>,
    /// Whether users may call it by `/name`.
    user_invocable: Option<bool>,
    /// A hint for users: the arguments after its name.
    argument_hint: Option<String>,
    /// Whether its sub-agent works in the background.
    background: Option<bool>,
    /// Sampling temperature of its sub-agent.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// The skills that its sub-agent may delegate to. Default: all that the grant allows.
    #[schemars(rename = "sub_agents")]
    sub_agents: Option<Names>,
}

/// A skill in one YAML file. A new sub-agent always executes it.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct YamlSkill {
    /// The name. Default: the file's name.
    #[schemars(length(max = SKILL_NAME_MAX), regex(pattern = r"^[a-z0-9_-]+$"))]
    name: Option<String>,
    /// When to use it, for models.
    #[schemars(length(max = DESCRIPTION_MAX_CHARS))]
    description: String,
    /// The instructions for its sub-agent.
    system_prompt: String,
    /// The model of its sub-agent, as provider/model.
    model: Option<String>,
    /// Sampling temperature.
    #[schemars(range(min = 0))]
    temperature: Option<f64>,
    /// The tools of its sub-agent.
    tools: Option<Tools>,
    /// The skills that its sub-agent may delegate to. Default: all that the grant allows.
    sub_agents: Option<Names>,
    /// Maximum number of turns of its sub-agent at the first level.
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// Maximum depth of the tree. Below the root it can only lower the limit.
    max_depth: Option<u32>,
    /// How often in a row the same call may fail.
    #[schemars(range(min = 1))]
    max_retries_per_tool: Option<u32>,
    /// Limit of one turn.
    timeout_per_iteration: Option<Duration>,
    /// Whether subscribers of the parent's events receive the sub-agent's events too.
    include_sub_agent_events: Option<bool>,
    /// The definition of its sub-agent. Default: `general`.
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
            let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
            compiler.add_resource("http://localhost/schema", schema).expect("an address");
            let index = compiler.compile("http://localhost/schema", &mut schemas).expect("schema");
            assert_eq!(schemas.validate(&good, index).map_err(|error| error.to_string()), Ok(()), "{good}");
            assert!(schemas.validate(&serde_json::json!({"description": 5}), index).is_err());
        }
    }
}
