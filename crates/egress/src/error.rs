//! The errors of a fetch.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::client::REDIRECTS_MAX;
use super::connect::HEADERS_MAX_BYTES;
use super::target::UrlProblem;

/// Why a fetch failed, in words that the caller can act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EgressError {
    /// An address that is not public, and that the user has not opened.
    #[error("{} {what}, and only public addresses are fetched", names(.host, *.address))]
    Refused {
        /// The requested host.
        host: String,
        address: IpAddr,
        what: &'static str,
    },
    /// A port of another protocol than HTTP.
    #[error("web pages are not fetched from port {port} (host `{host}`)")]
    Port { host: String, port: u16 },
    /// A name that does not resolve.
    #[error("the name `{host}` cannot be resolved: {why}")]
    Name {
        /// The requested name.
        host: String,
        why: String,
    },
    /// No server responds.
    #[error("cannot connect to `{host}` (port {port}): {why}")]
    Connect { host: String, port: u16, why: String },
    /// The server's certificate is not valid for its name, or it does not use TLS.
    #[error("no secure connection to `{host}`: {why}")]
    Tls { host: String, why: String },
    /// This machine has no trusted certificates.
    #[error("this machine has no root certificates, so nothing can be fetched by https ({why})")]
    NoRoots { why: String },
    /// The response is not HTTP.
    #[error("`{host}` did not answer in HTTP: {why}")]
    Protocol { host: String, why: String },
    /// The URL or a header cannot be sent.
    #[error("the request cannot be sent: {why}")]
    Unsendable { why: String },
    #[error("the headers that `{host}` sent have more than {HEADERS_MAX_BYTES} bytes")]
    Headers { host: String },
    #[error("the answer has more than the {max_bytes} bytes accepted")]
    TooLarge { max_bytes: usize },
    /// A body that cannot be decoded.
    #[error("the answer is compressed in a way that cannot be unpacked ({encoding})")]
    Encoding {
        /// The encoding in the server's header.
        encoding: String,
    },
    #[error("there was no complete answer within {} seconds", limit.as_secs_f64())]
    Timeout { limit: Duration },
    #[error("more than {REDIRECTS_MAX} redirects; the last one leads to {to}")]
    Redirects {
        /// The target of the last redirect.
        to: String,
    },
    /// A redirect to a URL that is not fetched.
    #[error("the redirect to `{to}` is not followed: the address {problem}")]
    BadRedirect {
        to: String,
        /// Why the target is not valid.
        problem: UrlProblem,
    },
    /// A redirect from https to http.
    #[error("the redirect to `{to}` is not followed: it leads from https back to http")]
    Downgrade {
        /// The redirect's target.
        to: String,
    },
}

fn names(host: &str, address: IpAddr) -> String {
    let literal = host.trim_start_matches('[').trim_end_matches(']') == address.to_string();
    if literal { format!("`{host}` is") } else { format!("`{host}` leads to {address}, which is") }
}
