//! The HTTP client: sends a request, checks each hop, and follows redirects of the same host.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};

use super::address::not_public;
use super::connect::{self, RawResponse};
use super::error::EgressError;
use super::openings::Openings;
use super::resolve::{Resolve, SystemResolver};
use super::target::Target;
use super::tls::Tls;

/// Maximum number of redirects that are followed.
pub(super) const REDIRECTS_MAX: usize = 5;
/// Maximum length of a redirect's URL in an error.
const LOCATION_MAX_CHARS: usize = 200;
const USER_AGENT: &str = concat!("posse/", env!("CARGO_PKG_VERSION"));
/// The supported content encodings.
const ENCODINGS: &str = "gzip, br, deflate";

/// Lower ports belong to other protocols, except those of the web.
const FREE_PORTS: u16 = 1024;
/// Higher ports that are refused too: those that browsers refuse, and databases that obey any client.
const OTHER_PROTOCOLS: [u16; 23] = [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668,
    6669, 6679, 6697, 9100, 10080, 11211,
];

/// Limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The whole request, redirects included.
    pub total: Duration,
    /// Connecting to one address.
    pub connect: Duration,
    /// The body, before and after decompression.
    pub body_max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            body_max_bytes: 5 * 1024 * 1024,
        }
    }
}

/// How redirects are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Followed on the same host after a check. A redirect to another host is returned to the caller.
    SameHost,
    /// Every redirect is returned to the caller. For requests that contain a key.
    HandBack,
}

#[derive(Clone)]
pub struct Request {
    pub target: Target,
    /// The JSON body of a POST request. None for GET.
    pub post: Option<String>,
    /// Further headers. Never shown, because they may contain a key.
    pub headers: Vec<(&'static str, String)>,
    /// The `Accept` header.
    pub accept: &'static str,
    pub limits: Limits,
    pub redirects: Redirects,
}

impl Request {
    /// A GET request with default limits.
    pub fn get(target: Target) -> Self {
        Self {
            target,
            post: None,
            headers: Vec::new(),
            accept: "*/*",
            limits: Limits::default(),
            redirects: Redirects::SameHost,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("target", &self.target).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The server that responded, after redirects.
    pub target: Target,
    pub status: u16,
    /// The content type as the server wrote it.
    pub content_type: Option<String>,
    /// The decoded body.
    pub body: Vec<u8>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Answer(Answer),
    /// A redirect that was not followed, because it leads to another host.
    Elsewhere {
        from: Target,
        /// The redirect's target.
        to: Target,
    },
}

/// The client. Cheap to clone. It keeps no connection and no state of a request.
#[derive(Clone)]
pub struct Egress {
    resolver: Arc<dyn Resolve>,
    tls: Arc<Tls>,
}

impl Default for Egress {
    fn default() -> Self {
        Self::resolving(SystemResolver)
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Egress")
    }
}

impl Egress {
    /// A client with a custom resolver.
    pub fn resolving(resolver: impl Resolve) -> Self {
        Self { resolver: Arc::new(resolver), tls: Arc::default() }
    }

    #[cfg(test)]
    pub(super) fn trusting(resolver: impl Resolve, roots: tokio_rustls::rustls::RootCertStore) -> Self {
        Self { resolver: Arc::new(resolver), tls: Arc::new(Tls::trusting(roots)) }
    }

    /// Sends a request. Dropping the future closes the connection.
    pub async fn send(&self, request: Request, openings: &Openings) -> Result<Reply, EgressError> {
        let limit = request.limits.total;
        let done = tokio::time::timeout(limit, self.follow(&request, openings)).await;
        done.unwrap_or(Err(EgressError::Timeout { limit }))
    }

    async fn follow(&self, request: &Request, openings: &Openings) -> Result<Reply, EgressError> {
        let mut target = request.target.clone();
        for _ in 0..=REDIRECTS_MAX {
            let raw = self.hop(request, &target, openings).await?;
            let Some(location) = location(&raw) else { return Ok(Reply::Answer(answer(target, raw))) };
            let next = next(&target, &location)?;
            if request.redirects == Redirects::HandBack || next.host() != target.host() {
                return Ok(Reply::Elsewhere { from: target, to: next });
            }
            if target.is_https() && !next.is_https() {
                return Err(EgressError::Downgrade { to: next.to_string() });
            }
            target = next;
        }
        Err(EgressError::Redirects { to: target.to_string() })
    }

    async fn hop(
        &self,
        request: &Request,
        target: &Target,
        openings: &Openings,
    ) -> Result<RawResponse, EgressError> {
        let prepared = prepare(request, target)?;
        let addresses = self.judged(target, openings).await?;
        let stream = connect::open(target, &addresses, request.limits.connect).await?;
        connect::ask(target, stream, &self.tls, prepared, request.limits.body_max_bytes).await
    }

    /// The addresses of a target, if all of them may be reached.
    async fn judged(&self, target: &Target, openings: &Openings) -> Result<Vec<SocketAddr>, EgressError> {
        let host = || target.host().to_owned();
        let port = target.port();
        let is_open = openings.open(target);
        if !is_open && !is_port_of_the_web(port) {
            return Err(EgressError::Port { host: host(), port });
        }
        let addresses = if let Some(ip) = target.ip() {
            vec![ip]
        } else {
            let found = self.resolver.resolve(target.host()).await;
            found.map_err(|error| EgressError::Name { host: host(), why: error.to_string() })?
        };
        if addresses.is_empty() {
            return Err(EgressError::Name { host: host(), why: "it has no address".to_owned() });
        }
        // One non-public address is enough to refuse: a name that resolves to both kinds cannot be trusted.
        let refused = addresses.iter().find_map(|address| Some((*address, not_public(*address)?)));
        if let Some((address, what)) = refused.filter(|_| !is_open) {
            return Err(EgressError::Refused { host: host(), address, what });
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

fn is_port_of_the_web(port: u16) -> bool {
    matches!(port, 80 | 443) || (port >= FREE_PORTS && !OTHER_PROTOCOLS.contains(&port))
}

fn prepare(request: &Request, target: &Target) -> Result<hyper::Request<Full<Bytes>>, EgressError> {
    let method = if request.post.is_some() { Method::POST } else { Method::GET };
    let mut builder = hyper::Request::builder()
        .method(method)
        .uri(target.path_and_query())
        .header(header::HOST, target.host_header())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, request.accept)
        .header(header::ACCEPT_ENCODING, ENCODINGS)
        .header(header::CONNECTION, "close");
    if request.post.is_some() {
        builder = builder.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in &request.headers {
        // The error has only the name, because the value may be a key.
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| EgressError::Unsendable { why: format!("the header `{name}` is not plain text") })?;
        value.set_sensitive(true);
        builder = builder.header(*name, value);
    }
    let body = request.post.clone().unwrap_or_default();
    builder.body(Full::from(body)).map_err(|error| EgressError::Unsendable { why: error.to_string() })
}

fn location(raw: &RawResponse) -> Option<String> {
    let redirects = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    let location = raw.head.headers.get(header::LOCATION).filter(|_| redirects.contains(&raw.head.status))?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn next(from: &Target, location: &str) -> Result<Target, EgressError> {
    from.join(location).map_err(|problem| EgressError::BadRedirect {
        to: location.chars().filter(|c| !c.is_control()).take(LOCATION_MAX_CHARS).collect(),
        problem,
    })
}

fn answer(target: Target, raw: RawResponse) -> Answer {
    Answer {
        target,
        status: raw.head.status.as_u16(),
        content_type: content_type(&raw.head.headers),
        body: raw.body,
    }
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(header::CONTENT_TYPE)?.to_str().ok()?.to_owned())
}
