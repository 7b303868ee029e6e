//! The traits that an embedder implements, and the guarantees that the engine relies on.

#![warn(missing_docs)]

mod hooks;
mod model;
mod records;
mod run_files;
mod store;
mod system;
mod tool;
mod workspace;

pub use hooks::*;
pub use model::*;
pub use records::*;
pub use run_files::*;
pub use store::*;
pub use system::*;
pub use tool::*;
pub use workspace::*;
