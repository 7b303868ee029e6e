//! Models behind the engine's model port.
//!
//! The engine knows a model only as something that answers a request; which provider stands behind a name is
//! decided here: [`Providers`] knows who speaks what and where, and what the person said about it. `scripted/<file>`
//! needs no key and no network: it answers from rules, so that a run can be repeated, tested and measured.
//! [`ModelRegistry`] finds models by name, and an embedder can put its own beside them.

pub mod replay;
pub mod scripted;

mod endpoint;
mod genai;
mod http;
mod prices;
mod provider;
mod provider_queue;
mod registry;
mod remote;
mod scrub;
mod sse;
mod wire;

pub use endpoint::{Endpoint, Format, Key, Limits, ToolCalls};
pub use http::{Http, Proxy};
pub use prices::{PriceTag, Prices, prices_taken};
pub use provider::{BaseUrl, KeyNeed, Provider, ProviderError, ProviderWords, Providers, ollama_models};
pub use registry::ModelRegistry;
pub use remote::remote;
pub use wire::text_tools::TextModels;
