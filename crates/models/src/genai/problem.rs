//! What the errors of `genai` mean.

use std::time::SystemTime;

use genai::Error;
use genai::webc::Error as WebError;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::wire::{ErrorResponse, Problem, ProblemKind, short};

/// The problem that an error is.
pub(super) fn of(error: &Error) -> Problem {
    if let Some(refused) = refusal(error) {
        return refused;
    }
    match error {
        Error::WebStream { error, .. } => of_stream(error.as_ref()),
        Error::WebModelCall { webc_error: WebError::Reqwest(error), .. } => of_http(error),
        Error::ChatResponse { body, .. } => in_stream(body),
        Error::RequiresApiKey { .. } | Error::NoAuthResolver { .. } | Error::NoAuthData { .. } => {
            Problem::free(ProblemKind::Key, "it answers nobody without one")
        }
        Error::ChatReqHasNoMessages { .. }
        | Error::LastChatMessageIsNotUser { .. }
        | Error::MessageRoleNotSupported { .. }
        | Error::MessageContentTypeNotSupported { .. }
        | Error::AdapterNotSupported { .. }
        | Error::ClientBuildFail { .. }
        | Error::Resolver { .. } => Problem::free(ProblemKind::Request, short(&error.to_string())),
        // Its text has the whole request.
        Error::ChatResponseGeneration { cause, .. } => Problem::cut(short(cause)),
        _ => Problem::cut(short(&error.to_string())),
    }
}

/// An answer with a status that is no success, wherever the error keeps it.
fn refusal(error: &Error) -> Option<Problem> {
    let (status, headers, body) = match error {
        Error::HttpError { status, headers, body, .. }
        | Error::WebModelCall {
            webc_error: WebError::ResponseFailedStatus { status, headers, body }, ..
        } => (status, headers, body),
        Error::WebStream { error, .. } => return refusal(error.downcast_ref::<Error>()?),
        _ => return None,
    };
    let now = SystemTime::now();
    Some(ErrorResponse { status: status.as_u16(), headers, body: body.as_bytes(), now }.problem())
}

fn of_stream(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Problem {
    match (error.downcast_ref::<reqwest::Error>(), error.downcast_ref::<Error>()) {
        (Some(error), _) => of_http(error),
        (None, Some(error)) => of(error),
        (None, None) => Problem::cut(short(&error.to_string())),
    }
}

fn of_http(error: &reqwest::Error) -> Problem {
    let mut text = "the connection failed".to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    // Without the URL, which may have the key in it.
    if error.is_connect() {
        Problem::free(ProblemKind::Unreachable, short(&text))
    } else {
        Problem::cut(short(&text))
    }
}

/// An error that came as an event of a stream.
fn in_stream(body: &Value) -> Problem {
    let error = body.get("error").unwrap_or(body);
    let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let headers = HeaderMap::new();
    let refused = ErrorResponse {
        status: status.filter(|status| (400..600).contains(status)).unwrap_or(500),
        headers: &headers,
        body: body.to_string().as_bytes(),
        now: SystemTime::UNIX_EPOCH,
    }
    .problem();
    // It began to answer: what that cost, nobody knows.
    Problem { usage: None, status, ..refused }
}
