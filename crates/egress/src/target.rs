//! A parsed and normalised URL.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;
use url::{Host, Url};

/// Maximum length of a URL.
const URL_MAX_BYTES: usize = 8 * 1024;
/// Maximum length of a host name and of one label: the limits of DNS.
const HOST_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;

/// The target of a request. One parser reads the URL once: rules, the check of addresses, the connection and the
/// request all use this value, so that they cannot interpret it differently.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: String,
    ip: Option<IpAddr>,
    port: u16,
}

/// Why a text is not a valid target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlProblem {
    #[error("has more than {URL_MAX_BYTES} bytes")]
    TooLong,
    /// A control character, a backslash or a misplaced space.
    #[error("contains a control character or a backslash")]
    OddCharacter,
    /// Not absolute, or not HTTP.
    #[error("must begin with `http://` or `https://`")]
    Scheme,
    /// `http://user:password@host/`.
    #[error(
        "must not contain a user name or password (nothing may stand before an `@` in front of the host)"
    )]
    UserInfo,
    /// An invalid host, or one that programs parse differently.
    #[error("has no valid host: letters, digits, `-`, `_` and `.` are allowed, or an IP address")]
    Host,
    /// Port 0.
    #[error("has no valid port")]
    Port,
    #[error("is not a URL: {0}")]
    Unreadable(String),
}

impl Target {
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        let text = text.trim();
        if text.len() > URL_MAX_BYTES {
            return Err(UrlProblem::TooLong);
        }
        // The parser would drop tabs and line ends, and read a backslash as a slash. Other parsers do not.
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(UrlProblem::OddCharacter);
        }
        let authority = authority(text)?;
        // Even if it is empty: some parsers take the text before the `@` for the host.
        if authority.contains('@') {
            return Err(UrlProblem::UserInfo);
        }
        // Some parsers decode an escaped character in a host, others do not.
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

    /// This target with a path appended and a query, for the APIs of search providers.
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

    /// The host as rules match it: lower case, ASCII, without a closing dot. An address has its canonical spelling,
    /// IPv6 in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, if it is an address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The port, explicit or by default.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

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

    /// The path and query for the request line.
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

/// The part between the scheme and the path. Forms that a parser must repair (`http:host`, `http:///host`) are refused,
/// because repairs differ.
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
