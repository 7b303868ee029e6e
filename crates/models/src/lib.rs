//! Models behind the engine's model port.
//!
//! The engine knows a model only as something that answers a request; which provider stands behind a name is
//! decided here. For now that is `scripted/<file>`, which needs no key and no network: it answers from rules,
//! so that a run can be repeated, tested and measured. [`Catalog`] finds models by name, and an embedder can
//! put its own beside them.

pub mod scripted;

mod catalog;
mod endpoint;
mod http;
mod line;
mod remote;
mod sse;
mod wire;

pub use catalog::Catalog;
pub use endpoint::{Endpoint, Format, Key, Limits, ToolCalls};
pub use http::{Http, Proxy};
pub use remote::remote;
