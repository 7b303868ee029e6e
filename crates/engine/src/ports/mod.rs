//! The only traits an embedder implements, with what each must guarantee.

mod hooks;
mod model;
mod store;
mod system;
mod tool;
mod workspace;

pub use hooks::*;
pub use model::*;
pub use store::*;
pub use system::*;
pub use tool::*;
pub use workspace::*;
