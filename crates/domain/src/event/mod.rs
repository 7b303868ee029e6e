//! The durable records from which the state of every run and agent is folded. No other source is used.

#![warn(missing_docs)]

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
pub use kinds::{EventBody, EventKind};
pub use order::{OrderBreach, OrderChecker};
pub use run_started::RunStarted;
pub use tools::*;

use crate::id::AgentId;

/// An event without its number. The journal numbers it when it is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The agent that the event belongs to. For `run.*`, the root.
    pub agent: AgentId,
    /// The time in milliseconds since 1970, by the lease holder's clock.
    pub at_ms: i64,
    /// The kind and data of the event.
    pub body: EventBody,
}
