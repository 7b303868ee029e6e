//! The one way of tools to the network.
//!
//! 1. A [`Target`] is a URL that was read once and brought into one spelling; everything after looks at that.
//! 2. Its name is resolved once. Every address is judged; one that is not public refuses the whole fetch, unless a
//!    person opened this very host ([`Openings`]).
//! 3. The connection is made to one of the judged addresses. There is no second lookup, no proxy and no pool that
//!    could bring another.
//! 4. A redirect is a new target and goes through all of it again. Only the same host is followed by itself: rules
//!    were asked about the host, so another one is handed back to whoever asked.
//! 5. Time, headers, and the body after decompression have limits, enforced while they arrive.
//!
//! Built on hyper's single connection rather than on a client with pools and policies: what such a client must be
//! kept from doing, this one cannot do.
//!
//! Why it is like this: `docs/decisions/egress-client.md`.

mod address;
mod body;
mod client;
mod connect;
mod error;
mod openings;
mod resolve;
mod target;
mod tls;

#[cfg(test)]
mod tests;

pub use address::not_public;
pub use client::{Answer, Egress, Limits, Redirects, Reply, Request};
pub use error::EgressError;
pub use openings::Openings;
pub use resolve::{Resolve, SystemResolver};
pub use target::{Target, UrlProblem};
