//! The HTTP API: what the command can do, for programs on the same machine.
//!
//! `operations` is the one table of routes. The router, the check of a request's parameters and the OpenAPI document
//! follow from it. A request passes `access` first, then the table; what it returns is an object of `posse::api` or a
//! problem document. The journal is streamed from where a client stopped reading, so that no event is lost or repeated.
//!
//! Why it is like this: `docs/decisions/http-api.md`.

mod access;
mod assets;
mod auditing;
mod callers;
#[cfg(test)]
mod client_source;
mod connection;
mod executing;
mod feeds;
mod hosting;
mod idempotency;
mod limits;
mod openapi;
mod operations;
mod options;
mod page;
mod problem;
mod query;
mod refusal;
mod reply;
mod requests;
mod server;
mod session;
mod sse;
mod state;
mod tls;
mod token;
mod token_limits;
mod webhooks;

pub use openapi::openapi;
pub use options::{ServeError, ServeOptions};
pub use problem::Problem;
pub use server::{ResumedRuns, Server};
pub use tls::{TlsError, TlsFiles};
pub use token::TokenError;
