//! Parses definitions and skills that users wrote for Posse, Claude Code or opencode, and has the built-in ones. It
//! converts text to types: `posse_files` finds the files, `posse_setup` decides which of them apply.

mod agent_markdown;
mod agents_json;
mod builtin;
mod common;
mod cross_check;
mod default_rules;
mod definitions;
mod fields;
mod front_matter;
mod names;
mod notes;
mod parse_options;
mod permission;
mod plain_lines;
#[cfg(test)]
mod properties;
mod schema;
mod skill_file;
mod specifier;
mod tolerant;
mod tool_list;
mod tool_names;
pub mod yaml;

pub use agent_markdown::read_agent;
pub use agents_json::{
    AGENTS_JSON_MAX_BYTES, DefinitionError, GivenDefinitions, parse_agents, parse_agents_among,
};
pub use builtin::builtin;
pub use cross_check::{CheckedFile, CheckedType, cross_check};
pub use default_rules::{default_rules, with_default_asks};
pub use definitions::{Definitions, UnknownDefinition, builtin_names};
pub use front_matter::DEFINITION_MAX_BYTES;
pub use parse_options::{
    Mention, ModelCheck, ParseOptions, ParsedFile, Role, Severity, UnusedModel, WARNINGS_MAX, Warning,
};
pub use posse_domain::nearest::nearest;
pub use schema::{agent_schema, skill_schema, yaml_skill_schema};
pub use skill_file::{read_skill, read_yaml_skill};
pub use tool_names::{about_no_tool, is_no_tool, spelled_elsewhere};
