//! The only client through which tools reach the network.
//!
//! 1. A [`Target`] is a URL that is parsed once and normalised. All later steps use that value.
//! 2. Its name is resolved once. Every address is checked. One that is not public refuses the whole fetch, unless a
//!    user opened this very host ([`Openings`]).
//! 3. The connection is made to one of the checked addresses. There is no second lookup, no proxy and no pool that
//!    could use another.
//! 4. A redirect is a new target and goes through all steps again. Only a redirect to the same host is followed: rules
//!    were checked for the host, so another one is returned to the caller.
//! 5. Time, headers, and the body after decompression have limits, enforced while they arrive.
//!
//! It is built on hyper's single connection rather than on a client with pools and policies: what such a client must be
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
