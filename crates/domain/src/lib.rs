//! The concepts of Posse (run, agent, contract, grant, budget, event) as pure types and functions, for every other
//! crate.
//!
//! Nothing here waits, reads a clock, draws a random number or touches a file: every fact from outside is an argument.
//! So the live engine, recovery after a crash, `posse verify` and the tests share one `apply`.

pub mod budget;
pub mod canonical;
pub mod code;
pub mod contract;
pub mod definition;
pub mod event;
pub mod file_name;
pub mod hash;
pub mod id;
pub mod json_values;
pub mod lifecycle;
pub mod message;
mod model_name;
pub mod nearest;
pub mod object_id;
pub mod ownership;
pub mod pack;
pub mod permission;
pub mod plan;
pub mod printable;
pub mod request;
#[cfg(test)]
mod schema_check;
pub mod scrub;
pub mod skill;
pub mod text;

pub use canonical::canonical_json;
pub use model_name::shown_model;
