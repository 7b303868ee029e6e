//! The wire format of Anthropic Messages.

mod reader;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use posse_engine::ports::ModelRequest;
use serde_json::Value;

use super::{ErrorResponse, Problem, ProblemKind, ReplyReader, Target, Wire, WireRequest, short};

const PATH: &str = "/v1/messages";
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
/// A longer pause is not a rate limit, because rate limits are refilled within a minute.
const LONGEST_RATE_PAUSE: Duration = Duration::from_mins(5);

pub(crate) struct Anthropic;

impl Wire for Anthropic {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        WireRequest {
            path: PATH.to_owned(),
            headers: vec![(VERSION.0, VERSION.1.to_owned())],
            body: request::body(target, request),
        }
    }

    fn reader(&self, target: &Target, _: &ModelRequest) -> Box<dyn ReplyReader> {
        Box::new(reader::Reader::new(target))
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        let Some(json) = refused.json() else { return refused.problem() };
        let Some((kind, message)) = error_of(&json) else { return refused.problem() };
        let kind = match type_of(kind, message) {
            Some(ProblemKind::RateLimit { .. }) => limited(refused, message),
            Some(ProblemKind::Unwell { .. }) => ProblemKind::Unwell { after: refused.after() },
            Some(kind) => kind,
            None => return refused.problem(),
        };
        Problem { status: Some(refused.status), ..Problem::free(kind, short(message)) }
    }
}

/// Kind and text of an error in the API's own format.
fn error_of(json: &Value) -> Option<(&str, &str)> {
    let error = json.get("error")?;
    Some((
        error.get("type")?.as_str()?,
        error.get("message").and_then(Value::as_str).unwrap_or("no reason given"),
    ))
}

/// The problem kind of an error type, before headers are considered.
fn type_of(kind: &str, message: &str) -> Option<ProblemKind> {
    Some(match kind {
        "authentication_error" | "permission_error" => ProblemKind::Key,
        "not_found_error" => ProblemKind::NoModel,
        "request_too_large" => ProblemKind::Overflow,
        "rate_limit_error" => ProblemKind::RateLimit { after: None },
        "overloaded_error" | "api_error" | "timeout_error" => ProblemKind::Unwell { after: None },
        "invalid_request_error" if is_overflow(message) => ProblemKind::Overflow,
        "invalid_request_error" | "billing_error" => ProblemKind::Request,
        _ => return None,
    })
}

fn is_overflow(message: &str) -> bool {
    ["prompt is too long", "exceed context limit", "context window", "too many total text bytes"]
        .iter()
        .any(|spelling| message.contains(spelling))
}

/// A limit per minute, or a limit of the account that lasts for hours. Only the latter has its own headers.
fn limited(refused: &ErrorResponse<'_>, message: &str) -> ProblemKind {
    let after = refused.after();
    let unified = refused.header("anthropic-ratelimit-unified-status") == Some("rejected");
    let said = message.to_lowercase().contains("usage limit");
    if unified || said || after.is_some_and(|after| after > LONGEST_RATE_PAUSE) {
        let reset = refused.header("anthropic-ratelimit-unified-reset").and_then(|at| refused.until(at));
        return ProblemKind::UsageLimit { after: after.max(reset) };
    }
    ProblemKind::RateLimit { after }
}
