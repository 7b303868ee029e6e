//! The turn machine of one agent, without IO: it says what to do next and is told what came of it.

pub mod conversation;
pub mod tool_spec;
