//! Definitions: the built-in ones, a person's own, and what an agent is told because of its definition and
//! its contract. Text comes in and types go out; finding files is the host's work.

mod agents_json;
mod builtin;
mod catalogue;
mod default_rules;
mod system_prompt;

pub use agents_json::{AGENTS_JSON_MAX_BYTES, DefinitionError, parse_agents};
pub use builtin::builtin;
pub use catalogue::{Definitions, UnknownDefinition};
pub use posse_domain::nearest::nearest;
pub use system_prompt::{first_message, retry_note, system_prompt};
