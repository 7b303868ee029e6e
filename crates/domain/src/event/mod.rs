//! Durable records. Everything an agent or a run is can be folded from these, and from nothing else.

mod calls;
mod catalogue_text;
mod chain;
mod children;
mod codec;
mod detail;
mod files;
mod kinds;
mod order;
mod run_started;
mod summary;
mod tools;

pub use calls::*;
pub use catalogue_text::CatalogueText;
pub use chain::{EncodedEvent, Link, StoredEvent, chain};
pub use children::*;
pub use codec::{CodecError, EVENT_VERSION};
pub use detail::*;
pub use files::*;
pub use kinds::EventBody;
pub use order::{OrderBreach, OrderChecker};
pub use run_started::RunStarted;
pub use tools::*;

use crate::id::AgentId;

/// One thing that happened, not yet numbered. The journal numbers it when it is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The agent it happened to; for `run.*` the root.
    pub agent: AgentId,
    /// When, in milliseconds since 1970 by the owner's clock.
    pub at_ms: i64,
    /// What.
    pub body: EventBody,
}
