//! Serves the page: its files, and the cookie that a browser gets for the token in the printed URL.
//!
//! The files tell nothing, so they need no token. What the page may do is in its content security policy: it runs its own
//! scripts, and it talks to its own server alone.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use url::form_urlencoded;

use super::page::{Asset, page};
use super::problem::{Problem, ProblemCode};
use super::reply::Reply;
use super::session;
use super::state::ServerState;

/// Where the page begins.
const TOP: &str = "/";
/// The parameter of the printed URL.
const TOKEN: &str = "token";
/// What the page may load and do. A picture of an agent is in the page itself, never on another server.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; \
     connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// How long a browser keeps a file whose name changes with its content.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// The compression of files.
const GZIP: &str = "gzip";
/// The answer to a browser with a token that the server does not have.
const REFUSED: &str = "This link does not open the page: its token is wrong, revoked or has expired.\n\n\
                       The server prints the link with its present token when it starts. Open that link, or ask the \
                       operator of this server for a token.\n";

/// Answers a request for anything that is not the API.
pub(super) fn respond(state: &ServerState, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let detail = format!("this path has no {method}");
        let mut response =
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, ProblemCode::MethodNotAllowed, detail)
                .into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if uri.path() == TOP
        && let Some(token) = given_token(uri)
    {
        return log_in(state, &token);
    }
    match page(uri.path()) {
        Some(asset) => file(asset, headers),
        None => Problem::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, "there is nothing at this path")
            .into_response(),
    }
}

/// A file of the page, compressed for a client that accepts it.
fn file(asset: &'static Asset, request: &HeaderMap) -> Response {
    let is_compressed = accepts_gzip(request);
    let body = if is_compressed { asset.compressed() } else { asset.bytes.into() };
    let whole = Reply::Whole(StatusCode::OK, HeaderValue::from_static(asset.content_type), body);
    let mut response = whole.into_response(true, request);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(GZIP));
    }
    if asset.is_named_by_content() {
        headers.insert(header::CACHE_CONTROL, FOREVER);
    }
    response
}

/// Whether a client decompresses what it gets: it names gzip, and not with the weight 0.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=");
        name.trim().eq_ignore_ascii_case(GZIP) && weight.parse().unwrap_or(1.0_f32) > 0.0
    })
}

/// The token in the printed URL.
fn given_token(uri: &Uri) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == TOKEN)
        .map(|(_, token)| token.into_owned())
}

/// Gives a browser a cookie for a token, and takes the token out of its address.
fn log_in(state: &ServerState, token: &str) -> Response {
    let now_ms = now_ms();
    let Some(caller) = state.tokens.caller_of_token(token, now_ms) else {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        let mut response =
            (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, text)], REFUSED).into_response();
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return response;
    };
    let session = state.tokens.session(&caller, now_ms);
    let cookie = session::cookie(&session, state.reached.is_encrypted);
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static(TOP));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The time in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_compressed_files_only_if_it_accepts_them() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        for value in ["gzip", "deflate, gzip;q=0.5", "br, GZIP"] {
            assert!(accepts(value), "{value}");
        }
        for value in ["", "br", "gzip;q=0", "identity, gzip; q=0.0"] {
            assert!(!accepts(value), "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
