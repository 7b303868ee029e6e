//! A URL in its one spelling.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;
use url::{Host, Url};

/// Longest URL taken.
const URL_MAX_BYTES: usize = 8 * 1024;
/// Longest name of a host, and of one part of it: the limits of the name system.
const HOST_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;

/// Where a request goes. Read by one parser, once: rules, the check of addresses, the connection and the request
/// all look at this value, so no two of them can understand it differently.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: String,
    ip: Option<IpAddr>,
    port: u16,
}

/// Why a text is no target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlProblem {
    /// Beyond the limit.
    #[error("has more than {URL_MAX_BYTES} bytes")]
    TooLong,
    /// A control character, a backslash or a space where none belongs.
    #[error("contains a control character or a backslash")]
    OddCharacter,
    /// Not absolute, or not for the web.
    #[error("must begin with `http://` or `https://`")]
    Scheme,
    /// `http://user:password@host/`.
    #[error(
        "must not contain a user name or password (nothing may stand before an `@` in front of the host)"
    )]
    UserInfo,
    /// A host that names nothing, or is written so that programs disagree on what it names.
    #[error("has no valid host: letters, digits, `-`, `_` and `.` are allowed, or an IP address")]
    Host,
    /// Port 0.
    #[error("has no valid port")]
    Port,
    /// Whatever else is wrong.
    #[error("is not a URL: {0}")]
    Unreadable(String),
}

impl Target {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        let text = text.trim();
        if text.len() > URL_MAX_BYTES {
            return Err(UrlProblem::TooLong);
        }
        // The parser would drop tabs and line ends, and take a backslash for a slash; others do not.
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(UrlProblem::OddCharacter);
        }
        let authority = authority(text)?;
        // Also an empty one: some take what stands before the `@` for the host.
        if authority.contains('@') {
            return Err(UrlProblem::UserInfo);
        }
        // An escaped character in a host is decoded by some and not by others.
        if authority.contains('%') {
            return Err(UrlProblem::Host);
        }
        Self::of(Url::parse(text).map_err(unreadable)?)
    }

    /// The target of a redirect from here.
    pub(super) fn join(&self, location: &str) -> Result<Self, UrlProblem> {
        if location.len() > URL_MAX_BYTES {
            return Err(UrlProblem::TooLong);
        }
        Self::of(self.url.join(location).map_err(unreadable)?)
    }

    /// This target with a path beneath its own, and a query: for the interfaces of search providers.
    pub fn with(&self, path: &str, query: &[(&str, &str)]) -> Self {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Self { url, ..self.clone() }
    }

    fn of(mut url: Url) -> Result<Self, UrlProblem> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlProblem::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlProblem::UserInfo);
        }
        let ip = match url.host().ok_or(UrlProblem::Host)? {
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
            Host::Domain(name) => {
                // The parser made it lower case and ASCII. `localhost.` is `localhost`.
                let name = name.strip_suffix('.').unwrap_or(name).to_owned();
                if !is_name(&name) {
                    return Err(UrlProblem::Host);
                }
                url.set_host(Some(&name)).map_err(|_| UrlProblem::Host)?;
                None
            }
        };
        url.set_fragment(None);
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(UrlProblem::Port)?;
        let host = url.host_str().ok_or(UrlProblem::Host)?.to_owned();
        Ok(Self { url, host, ip, port })
    }

    /// The host as rules see it: lower case, ASCII, without a closing dot; an address in its usual spelling, one of
    /// the sixth version in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, if it is an address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The port, said or implied.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL's text.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The value of the `Host` header.
    pub(super) fn host_header(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The part of the URL that the server is asked for.
    pub(super) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// What stands between the scheme and the path. Forms that a parser must repair (`http:host`, `http:///host`) are
/// not taken: repairs differ.
fn authority(text: &str) -> Result<&str, UrlProblem> {
    let (scheme, rest) = text.split_once("://").ok_or(UrlProblem::Scheme)?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(UrlProblem::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() { Err(UrlProblem::Host) } else { Ok(authority) }
}

fn unreadable(error: url::ParseError) -> UrlProblem {
    use url::ParseError;
    match error {
        ParseError::EmptyHost
        | ParseError::IdnaError
        | ParseError::InvalidIpv4Address
        | ParseError::InvalidIpv6Address
        | ParseError::InvalidDomainCharacter => UrlProblem::Host,
        ParseError::InvalidPort => UrlProblem::Port,
        other => UrlProblem::Unreadable(other.to_string()),
    }
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_MAX_BYTES).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    name.len() <= HOST_MAX_BYTES && name.split('.').all(is_label)
}
