//! Who may send a request: the host that it names, the origin that it comes from, and its token.
//!
//! A page in the user's browser can send requests to this server too. `Host` stops one whose name was rebound to this
//! machine, `Origin` one of another site, and neither has the token.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};

use super::problem::{Problem, ProblemCode};
use super::token::Token;

/// The word before the token in the header `Authorization`.
const SCHEME: &str = "Bearer ";

/// Checks where a request comes from. This holds for every path.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let host = single(headers, header::HOST.as_str()).filter(|host| is_this_machine(host));
    let Some(host) = host else {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            ProblemCode::HostRefused,
            "the request does not name this machine: the host must be localhost or a loopback address",
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
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, header::ORIGIN.as_str()).ok_or_else(refused)?;
        let is_own = origin.strip_prefix("http://").is_some_and(|of| of.eq_ignore_ascii_case(host));
        if !is_own {
            return Err(refused());
        }
    }
    Ok(())
}

/// Checks the token of a request to the API.
pub(super) fn check_token(headers: &HeaderMap, token: &Token) -> Result<(), Problem> {
    let given = single(headers, header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix(SCHEME));
    match given {
        Some(given) if token.is(given.trim()) => Ok(()),
        given => {
            let detail =
                if given.is_some() { "the token is not the server's" } else { "the token is missing" };
            Err(Problem::new(StatusCode::UNAUTHORIZED, ProblemCode::TokenRefused, detail)
                .field("Authorization")
                .remedy("send the token that the server printed as `Authorization: Bearer TOKEN`"))
        }
    }
}

/// The value of a header that is there exactly once and is text.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a host, with or without a port, is this machine. A port may be another one: of a tunnel.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((name, port)) if is_port(port) => name,
            _ => return false,
        },
        None => match host.find(':') {
            Some(at) if is_port(&host[at..]) => &host[..at],
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
        let code =
            |values: &[(&'static str, &str)]| check_origin(&headers(values)).map_err(|problem| problem.code);
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
    fn only_the_token_itself_is_accepted() {
        let token = Token::of_text("secret");
        let is_accepted = |values: &[(&'static str, &str)]| check_token(&headers(values), &token).is_ok();
        assert!(is_accepted(&[("authorization", "Bearer secret")]));
        for value in
            ["Bearer secre", "Bearer secret2", "secret", "bearer secret", "Basic secret", "Bearer ", ""]
        {
            assert!(!is_accepted(&[("authorization", value)]), "{value}");
        }
        assert!(!is_accepted(&[]));
        assert!(!is_accepted(&[("authorization", "Bearer secret"), ("authorization", "Bearer secret")]));
    }
}
