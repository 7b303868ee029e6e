//! What touches the machine.
//!
//! [`files`] are the files of a workspace, reached in a way that nobody can lead outside it. [`sandbox`] is the box
//! that programs run in, [`process`] keeps what they print within bounds. [`discovery`] finds the files of definitions
//! and skills.

pub mod discovery;
pub mod egress;
pub mod files;
pub mod memory;
pub mod process;
pub mod sandbox;
pub mod trees;
pub mod workspace;
