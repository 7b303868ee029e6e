//! Why a fetch did not happen.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::client::REDIRECTS_MAX;
use super::connect::HEADERS_MAX_BYTES;
use super::target::UrlProblem;

/// Why a fetch did not happen, in words that whoever asked can act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EgressError {
    /// An address that is not public, and that nobody opened.
    #[error("{} {what}, and only public addresses are fetched", names(.host, *.address))]
    Refused {
        /// The host as it was asked for.
        host: String,
        /// The address.
        address: IpAddr,
        /// What the address is.
        what: &'static str,
    },
    /// A port where something else than a web server lives.
    #[error("port {port} of `{host}` is not one that web pages are fetched from")]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// A name that leads to no address.
    #[error("the name `{host}` cannot be resolved: {why}")]
    Name {
        /// The name.
        host: String,
        /// Why not.
        why: String,
    },
    /// Nobody answers.
    #[error("cannot connect to `{host}` (port {port}): {why}")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Why not.
        why: String,
    },
    /// The server cannot prove who it is, or does not speak TLS.
    #[error("no secure connection to `{host}`: {why}")]
    Tls {
        /// The host.
        host: String,
        /// Why not.
        why: String,
    },
    /// This machine trusts nobody.
    #[error("this machine has no root certificates, so nothing can be fetched by https ({why})")]
    NoRoots {
        /// What was looked for.
        why: String,
    },
    /// The answer is not HTTP.
    #[error("`{host}` did not answer in HTTP: {why}")]
    Protocol {
        /// The host.
        host: String,
        /// What happened.
        why: String,
    },
    /// The URL or a header cannot be sent.
    #[error("the request cannot be sent: {why}")]
    Unsendable {
        /// Why not.
        why: String,
    },
    /// Too many headers.
    #[error("the headers that `{host}` sent have more than {HEADERS_MAX_BYTES} bytes")]
    Headers {
        /// The host.
        host: String,
    },
    /// Too much body.
    #[error("the answer has more than the {max_bytes} bytes accepted")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// A body that cannot be unpacked.
    #[error("the answer is compressed in a way that cannot be unpacked ({encoding})")]
    Encoding {
        /// What the server called it.
        encoding: String,
    },
    /// Too slow.
    #[error("there was no complete answer within {} seconds", limit.as_secs_f64())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// Too many redirects.
    #[error("more than {REDIRECTS_MAX} redirects; the last one leads to {to}")]
    Redirects {
        /// Where the last one leads.
        to: String,
    },
    /// A redirect to something that is not fetched.
    #[error("the redirect to `{to}` is not followed: the address {problem}")]
    BadRedirect {
        /// What the server wrote.
        to: String,
        /// What is wrong with it.
        problem: UrlProblem,
    },
    /// From https to http.
    #[error("the redirect to `{to}` is not followed: it leads from https back to http")]
    Downgrade {
        /// Where it leads.
        to: String,
    },
}

fn names(host: &str, address: IpAddr) -> String {
    let literal = host.trim_start_matches('[').trim_end_matches(']') == address.to_string();
    if literal { format!("`{host}` is") } else { format!("`{host}` leads to {address}, which is") }
}
