//! An agent without IO, for the engine: the turn machine, the conversation that it builds, and the texts that its model
//! reads.
//!
//! [`machine`] decides what an agent does next and reads the outcome from events. [`compaction`] decides what a summary
//! replaces. [`prompts`] and [`notes`] have all
//! texts that the host writes for a model. [`schema`] and [`answer`] check final answers.

pub mod answer;
pub mod call_retry;
pub mod compaction;
pub mod conversation;
pub mod machine;
pub mod notes;
pub mod prompts;
pub mod schema;
pub mod tool_spec;
