//! The turn machine of one agent, without IO: it says what to do next and is told what came of it.

pub mod answer;
pub mod call_retry;
pub mod conversation;
pub mod definition;
pub mod machine;
pub mod notes;
pub mod plan;
pub mod schema;
pub mod tool_spec;
mod yaml;
