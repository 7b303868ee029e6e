//! The prompts of an agent, made from its definition, its contract and its skills.

mod listing;
mod skill_text;
mod system_prompt;

pub use listing::{LIST_MAX_BYTES, ListEntry, SkillTools, list, skills_section};
pub use skill_text::{loaded_skill, render};
pub use system_prompt::{first_message, handover, report_prompt, retry_note, system_prompt};
