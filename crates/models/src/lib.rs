//! Models behind the engine's model port.
//!
//! The engine sees a model only as a port. This crate decides which provider serves a name: [`Providers`] has each
//! provider's format, base URL and key, and the user's settings. `scripted/<file>` needs no key and no network: it
//! answers from rules, so that a run can be repeated, tested and measured. [`ModelRegistry`] finds models by name, and
//! an embedder can add its own models.

pub mod replay;
pub mod scripted;

mod endpoint;
mod http;
mod prices;
mod provider;
mod provider_queue;
mod registry;
mod remote;
mod scrub;
mod sse;
mod thinking;
mod wire;

pub use endpoint::{Endpoint, Format, Key, Limits, ToolCalls};
pub use http::{Http, Proxy};
pub use prices::{PriceTag, PricedModel, Prices, prices_taken};
pub use provider::{BaseUrl, KeyNeed, Provider, ProviderError, ProviderWords, Providers, ollama_models};
pub use provider_queue::ProviderQueues;
pub use registry::ModelRegistry;
pub use remote::remote;
pub use thinking::thinking;
pub use wire::text_tools::TextModels;
