//! What touches the machine.
//!
//! For now that is [`files`]: the files of a workspace, reached in a way that nobody can lead outside it.

pub mod files;
pub mod memory;
