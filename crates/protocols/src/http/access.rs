//! Where a request comes from: the host that it names, and the page that a browser sends it for.
//!
//! Any page in the user's browser can send requests to this server. `Host` stops one whose name was rebound to this
//! machine, and `Origin` one of another site. Neither has the token; the cookie of the page is sent by the browser itself,
//! so requests with it must come from the server's own page.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use url::Url;

use super::idempotency;
use super::limits::{HEADERS_MAX, HEADERS_MAX_BYTES, PREFLIGHT_LIFETIME};
use super::problem::{Problem, ProblemCode};
use super::sse::LAST_EVENT_ID;

/// How clients reach the server.
#[derive(Debug, Default)]
pub(super) struct ServerAddress {
    /// The names beside those of the machine itself, without a port.
    pub(super) hosts: Vec<String>,
    /// Whether they reach it through TLS: its own, or that of a proxy in front of it.
    pub(super) is_encrypted: bool,
    /// The origins of other pages that may use the API with a token.
    pub(super) origins: Vec<String>,
}

/// The page that a request comes from, if a browser sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestOrigin {
    /// The server's own page, or a program.
    Own,
    /// A page of another origin that the server was started with. It acts with a token alone.
    Named(HeaderValue),
}

impl ServerAddress {
    /// Whether a host, with or without a port, is the server.
    fn is_own(&self, host: &str) -> bool {
        is_this_machine(host)
            || name_of(host).is_some_and(|name| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name)))
    }

    /// What the origins of its own pages begin with.
    fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https://" } else { "http://" }
    }
}

/// Checks where a request comes from. This holds for every path.
pub(super) fn check_origin(headers: &HeaderMap, reached: &ServerAddress) -> Result<RequestOrigin, Problem> {
    let host = single(headers, header::HOST.as_str()).filter(|host| reached.is_own(host));
    let Some(host) = host else {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            ProblemCode::HostRefused,
            "the request does not name this server: the host must be localhost, a loopback address, or a name that the \
             server was started with",
        )
        .field("Host"));
    };
    let refused = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            ProblemCode::OriginRefused,
            "a page of another origin sent the request",
        )
        .field("Origin")
    };
    let Some(given) = headers.get(header::ORIGIN) else { return Ok(RequestOrigin::Own) };
    let origin = single(headers, header::ORIGIN.as_str()).ok_or_else(refused)?;
    if origin.strip_prefix(reached.scheme()).is_some_and(|of| of.eq_ignore_ascii_case(host)) {
        return Ok(RequestOrigin::Own);
    }
    if reached.origins.iter().any(|named| named == origin) {
        return Ok(RequestOrigin::Named(given.clone()));
    }
    Err(refused())
}

/// Checks the size of what comes before the body of a request.
pub(super) fn check_size(uri_bytes: usize, headers: &HeaderMap) -> Result<(), Problem> {
    let too_large = |status, detail| Err(Problem::new(status, ProblemCode::TooLarge, detail));
    if uri_bytes > HEADERS_MAX_BYTES {
        let detail =
            format!("the path and its parameters have more than the {HEADERS_MAX_BYTES} bytes accepted");
        return too_large(StatusCode::URI_TOO_LONG, detail);
    }
    if headers.len() > HEADERS_MAX {
        let detail = format!("the request has more than the {HEADERS_MAX} headers accepted");
        return too_large(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail);
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if uri_bytes + bytes > HEADERS_MAX_BYTES {
        let detail = format!("the headers have more than the {HEADERS_MAX_BYTES} bytes accepted");
        return too_large(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail);
    }
    Ok(())
}

impl RequestOrigin {
    /// The answer to a browser that asks what pages of another origin may send.
    pub(super) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let asks = *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if *self == Self::Own || !asks {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let sent = format!(
            "authorization, content-type, if-none-match, {}, {}",
            idempotency::HEADER.to_ascii_lowercase(),
            LAST_EVENT_ID.to_ascii_lowercase(),
        );
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST".to_owned()),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, sent),
            (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_LIFETIME.as_secs().to_string()),
        ] {
            response.headers_mut().extend(HeaderValue::from_str(&value).map(|value| (name, value)));
        }
        Some(response)
    }

    /// Lets the page that sent the request read the response.
    pub(super) fn open(&self, response: &mut Response) {
        let Self::Named(origin) = self else { return };
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let read = HeaderValue::from_static("etag, retry-after, www-authenticate");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, read);
    }
}

/// Whether a text is the origin of a page, as a browser sends it.
pub(super) fn is_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text
    })
}

/// Checks that a browser sends a request for the server's own page. A cookie is sent with requests of any page of the same
/// machine, whatever its port.
pub(super) fn check_own_page(headers: &HeaderMap, origin: &RequestOrigin, acts: bool) -> Result<(), Problem> {
    let site = single(headers, "sec-fetch-site");
    // Its value was checked with the host.
    let has_origin = headers.contains_key(header::ORIGIN);
    let is_own = match site {
        _ if *origin != RequestOrigin::Own => false,
        Some("same-origin") => true,
        // The user typed the address or followed a bookmark, or the browser does not say.
        Some("none") | None => !acts || has_origin,
        Some(_) => false,
    };
    if is_own {
        return Ok(());
    }
    let detail = "a browser sent the request for a page that is not the server's own";
    Err(Problem::new(StatusCode::FORBIDDEN, ProblemCode::OriginRefused, detail).field("Origin"))
}

/// The value of a header that is there exactly once and is text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a host, with or without a port, is this machine. A port may be another one: of a tunnel.
pub(super) fn is_this_machine(host: &str) -> bool {
    name_of(host).is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// The name or address in a host, without its port.
fn name_of(host: &str) -> Option<&str> {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split_once(']').filter(|(_, port)| is_port(port)).map(|(name, _)| name);
    }
    match host.find(':') {
        Some(at) => is_port(&host[at..]).then(|| &host[..at]),
        None => Some(host),
    }
}

/// Whether a text is a name or an address that a client can write as a host, without a port.
pub(super) fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.parse::<IpAddr>().is_ok() || (!text.is_empty() && text.bytes().all(is_plain))
}

/// Whether the end of a host is empty or a port.
fn is_port(end: &str) -> bool {
    end.is_empty() || end.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_its_host() {
        for host in ["localhost", "LocalHost:7766", "127.0.0.1:7766", "127.9.9.9", "[::1]:80", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7766",
            "192.168.0.1",
            "0.0.0.0:7766",
            "[::]:1",
            "[::1",
            "[::1]x",
            "::1",
            "localhost:x",
            "localhost:99999",
            "user@localhost",
            "",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_request_needs_one_host_and_no_foreign_origin() {
        let code = |values: &[(&'static str, &str)]| {
            let checked = check_origin(&headers(values), &ServerAddress::default());
            checked.map(|_| ()).map_err(|problem| problem.code)
        };
        let host = ("host", "127.0.0.1:7766");
        assert_eq!(code(&[host]), Ok(()));
        assert_eq!(code(&[host, ("origin", "http://127.0.0.1:7766")]), Ok(()));
        assert_eq!(code(&[]), Err(ProblemCode::HostRefused));
        assert_eq!(code(&[host, host]), Err(ProblemCode::HostRefused));
        for origin in [
            "http://127.0.0.1",
            "http://localhost:7766",
            "https://127.0.0.1:7766",
            "http://evil.example",
            "null",
            "",
        ] {
            assert_eq!(code(&[host, ("origin", origin)]), Err(ProblemCode::OriginRefused), "{origin}");
        }
    }

    #[test]
    fn a_server_that_others_reach_has_its_names_and_only_encrypted_pages() {
        let hosts = vec!["posse.example".to_owned()];
        let reached = ServerAddress { hosts, is_encrypted: true, origins: Vec::new() };
        let code = |values: &[(&'static str, &str)]| {
            check_origin(&headers(values), &reached).map(|_| ()).map_err(|problem| problem.code)
        };
        let host = ("host", "Posse.example:7766");
        assert_eq!(code(&[host]), Ok(()));
        assert_eq!(code(&[("host", "localhost")]), Ok(()));
        assert_eq!(code(&[host, ("origin", "https://posse.example:7766")]), Ok(()));
        for other in ["a.posse.example", "posse.example.evil", "posse.example@evil", "evil"] {
            assert_eq!(code(&[("host", other)]), Err(ProblemCode::HostRefused), "{other}");
        }
        for origin in ["http://posse.example:7766", "https://posse.example", "https://evil"] {
            assert_eq!(code(&[host, ("origin", origin)]), Err(ProblemCode::OriginRefused), "{origin}");
        }
        for text in ["posse.example", "192.0.2.1", "::1"] {
            assert!(is_host(text), "{text}");
        }
        for text in ["", "posse.example:1", "https://x", "a/b", "a b", "*"] {
            assert!(!is_host(text), "{text}");
        }
    }

    #[test]
    fn a_cookie_acts_only_for_the_own_page() {
        let own = ("origin", "http://127.0.0.1:7766");
        let site = |value| ("sec-fetch-site", value);
        for (values, reads, acts) in [
            (&[][..], true, false),
            (&[own], true, true),
            (&[site("same-origin")], true, true),
            (&[own, site("same-origin")], true, true),
            (&[site("none")], true, false),
            (&[own, site("same-site")], false, false),
            (&[site("cross-site")], false, false),
        ] {
            let is_own = |acts| check_own_page(&headers(values), &RequestOrigin::Own, acts).is_ok();
            assert_eq!((is_own(false), is_own(true)), (reads, acts), "{values:?}");
        }
    }

    #[test]
    fn a_page_of_a_named_origin_acts_with_a_token_alone() {
        let named = "https://tool.example".to_owned();
        let reached = ServerAddress { origins: vec![named.clone()], ..ServerAddress::default() };
        let host = ("host", "127.0.0.1:7766");
        let origin = |text| check_origin(&headers(&[host, ("origin", text)]), &reached);
        let found = origin(&named).expect("named");
        assert_ne!(found, RequestOrigin::Own);
        assert!(check_own_page(&headers(&[("origin", &named)]), &found, false).is_err(), "not with a cookie");
        for other in ["https://tool.example:1", "http://tool.example", "https://tool.example.evil", "null"] {
            assert!(origin(other).is_err(), "{other}");
        }
        let asks = headers(&[("access-control-request-method", "POST")]);
        assert!(found.preflight(&Method::OPTIONS, &asks).is_some());
        assert!(found.preflight(&Method::POST, &asks).is_none());
        assert!(RequestOrigin::Own.preflight(&Method::OPTIONS, &asks).is_none());
    }

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for text in ["https://tool.example", "http://localhost:3000", "http://[::1]:3000"] {
            assert!(is_origin(text), "{text}");
        }
        for text in [
            "tool.example",
            "https://tool.example/",
            "https://Tool.example",
            "https://tool.example:443",
            "*",
            "null",
            "file:///x",
            "",
        ] {
            assert!(!is_origin(text), "{text}");
        }
    }

    #[test]
    fn what_comes_before_a_body_is_limited() {
        let status = |uri, headers: &HeaderMap| check_size(uri, headers).map_err(|problem| problem.status);
        let long = |bytes: usize| headers(&[("x-long", &"x".repeat(bytes))]);
        assert_eq!(status(100, &long(100)), Ok(()));
        assert_eq!(status(HEADERS_MAX_BYTES + 1, &long(1)), Err(414));
        assert_eq!(status(1, &long(HEADERS_MAX_BYTES)), Err(431));
        let many: Vec<(&'static str, &str)> = vec![("x-many", "x"); HEADERS_MAX + 1];
        assert_eq!(status(1, &headers(&many)), Err(431));
    }
}
