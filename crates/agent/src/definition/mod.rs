//! Definitions: the built-in ones, a person's own, and what an agent is told because of its definition and
//! its contract. Text comes in and types go out; finding files is the host's work.

mod agent_markdown;
mod agents_json;
mod builtin;
mod common;
mod cross_check;
mod default_rules;
mod definitions;
mod fields;
mod front_matter;
mod listing;
mod names;
mod notes;
mod parse_options;
mod permission;
mod plain_lines;
#[cfg(test)]
mod properties;
mod render;
mod schema;
mod skill_file;
mod specifier;
mod system_prompt;
mod tolerant;
mod tool_list;
mod tool_names;

pub use agent_markdown::read_agent;
pub use agents_json::{
    AGENTS_JSON_MAX_BYTES, DefinitionError, GivenDefinitions, parse_agents, parse_agents_among,
};
pub use builtin::builtin;
pub use cross_check::{CheckedFile, CheckedType, cross_check};
pub use default_rules::{default_rules, with_default_asks};
pub use definitions::{Definitions, UnknownDefinition, builtin_names};
pub use front_matter::DEFINITION_MAX_BYTES;
pub use listing::{LIST_MAX_BYTES, ListEntry, SkillTools, list, skills_section};
pub use parse_options::{
    Mention, ModelCheck, ParseOptions, ParsedFile, Role, Severity, UnusedModel, WARNINGS_MAX, Warning,
};
pub use posse_domain::nearest::nearest;
pub use render::{render, taken_in};
pub use schema::{agent_schema, skill_schema, yaml_skill_schema};
pub use skill_file::{read_skill, read_yaml_skill};
pub use system_prompt::{first_message, handover, report_prompt, retry_note, system_prompt};
pub use tool_names::{about_no_tool, is_no_tool, spelled_elsewhere};
