//! The forms of responses. A response for a program is an object of `posse::api` with its version, a text, a stream, or a
//! problem document.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posse::api::{Object, VersionedObject};

use super::problem::Problem;

/// The content type of problem documents.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The content type of objects.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// How long a client with too many requests waits, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// The content type of bundles.
const BUNDLE: HeaderValue = HeaderValue::from_static("application/gzip");
/// The content type of texts.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What an operation returns.
pub(super) enum Reply {
    /// A complete response: its status, its content type, its body.
    Whole(StatusCode, HeaderValue, Bytes),
    /// A stream of server-sent events.
    Stream(Body),
    /// A bundle, with the name of its file.
    Bundle(Body, String),
    /// A stream that has nothing more to say, so that a client does not connect again.
    Over,
}

impl Reply {
    /// An object with its version.
    pub(super) fn object(object: &impl Object) -> Result<Self, Problem> {
        Self::with_status(StatusCode::OK, object)
    }

    /// An object with its version and another status than 200.
    pub(super) fn with_status(status: StatusCode, object: &impl Object) -> Result<Self, Problem> {
        Ok(Self::Whole(status, JSON, json(object)?.into()))
    }

    /// A text as it is, such as a diff.
    pub(super) fn text(bytes: Vec<u8>) -> Self {
        Self::Whole(StatusCode::OK, TEXT, bytes.into())
    }

    /// The response. A client that has the same body already, by its tag, gets none.
    pub(super) fn into_response(self, is_read: bool, request: &HeaderMap) -> Response {
        match self {
            Self::Whole(status, content, body) if is_read && status == StatusCode::OK => {
                let tag = format!("\"{}\"", blake3::hash(&body).to_hex());
                let has = request.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
                let is_known = has.is_some_and(|has| has.split(',').any(|known| known.trim() == tag));
                let mut response = if is_known {
                    StatusCode::NOT_MODIFIED.into_response()
                } else {
                    whole(status, content, body)
                };
                if let Ok(tag) = HeaderValue::from_str(&tag) {
                    response.headers_mut().insert(header::ETAG, tag);
                }
                response
            }
            Self::Whole(status, content, body) => whole(status, content, body),
            Self::Stream(body) => {
                let mut response = Response::new(body);
                let content = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, content);
                response
            }
            Self::Bundle(body, name) => {
                let mut response = Response::new(body);
                response.headers_mut().insert(header::CONTENT_TYPE, BUNDLE);
                // The name is the id of a run.
                if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
                    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
                }
                response
            }
            Self::Over => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

fn whole(status: StatusCode, content: HeaderValue, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, content)], body).into_response()
}

/// An object with its version, as JSON.
pub(super) fn json(object: &impl Object) -> Result<String, Problem> {
    serde_json::to_string(&VersionedObject::new(object)).map_err(|error| Problem::failed(error.to_string()))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (self.status_code(), [(header::CONTENT_TYPE, PROBLEM)], body).into_response();
        match self.status_code() {
            StatusCode::UNAUTHORIZED => {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
            }
            _ => {}
        }
        response
    }
}

/// Headers of every response: nothing is kept for others, sniffed, framed, read by another origin or executed.
pub(super) fn harden(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "private, no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        // The page has its own policy, and keeps some of its files.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}
