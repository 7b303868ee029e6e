//! Takes a request that may use the API to its operation: its parameters, its body, its idempotency key, its entries in the
//! audit log.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use posse::api::TokenRight;

use super::auditing::AuditedDecision;
use super::callers::Caller;
use super::idempotency::{KeptReply, RequestKey};
use super::limits::{BODY_MAX_BYTES, BODY_TIMEOUT};
use super::operations::{Call, Effect, Operation};
use super::problem::{Problem, ProblemCode};
use super::query::Query;
use super::reply::Reply;
use super::state::ServerState;

/// Executes an operation, and answers with what it returns.
pub(super) async fn respond(
    state: Arc<ServerState>,
    operation: &'static Operation,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let is_read = operation.effect == Effect::Reads;
    match answer(state, operation, request).await {
        Ok(reply) => reply.into_response(is_read, &headers),
        Err(problem) => problem.into_response(),
    }
}

/// Executes an operation.
async fn answer(
    state: Arc<ServerState>,
    operation: &'static Operation,
    request: Request,
) -> Result<Reply, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.remove::<Caller>();
    let caller = caller.ok_or_else(|| Problem::failed("the request has no caller"))?;
    check_right(&caller, operation)?;
    let query = Query::read(parts.uri.query().unwrap_or_default(), operation.query)?;
    let params = RawPathParams::from_request_parts(&mut parts, &()).await;
    let params = params.map_err(|_| {
        Problem::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, "there is nothing at this path")
    })?;
    let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let headers = parts.headers;
    let tenant = state.tenant(&caller.tenant)?;
    let call = Call { state, caller, tenant, path, query, headers, body: Bytes::new(), key: None };
    if operation.effect == Effect::Reads {
        return (operation.handler)(call).await;
    }
    act(operation, call, body, parts.uri.path()).await
}

/// Refuses an operation that the token has no right to.
fn check_right(caller: &Caller, operation: &Operation) -> Result<(), Problem> {
    if caller.may(operation.right) {
        return Ok(());
    }
    let right = operation.right.as_str();
    let detail = format!("the token `{}` does not have the right `{right}`", caller.name);
    let problem = Problem::new(StatusCode::FORBIDDEN, ProblemCode::RightMissing, detail);
    Err(problem.remedy(format!("use a token with the right `{right}`; the operator of the server makes one")))
}

/// Executes an operation that starts or decides something.
async fn act(operation: &'static Operation, call: Call, body: Body, path: &str) -> Result<Reply, Problem> {
    let state = Arc::clone(&call.state);
    let limits = state.token_limits.of(&call.caller.name);
    let sending = limits.body()?;
    let body = read_body(&call.headers, body).await?;
    drop(sending);
    if operation.body.is_some() && !body.is_empty() {
        check_content(&call.headers)?;
    }
    if operation.body.is_none() && !body.is_empty() && &body[..] != b"{}" {
        let detail = "this operation has no body";
        return Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail));
    }
    let key = RequestKey::of(&call.headers, &call.caller.name, path, &body)?;
    let call = Call { body, key: key.clone(), ..call };
    // A client that goes away must not leave an operation half done.
    let acting = tokio::spawn(async move {
        let Some(key) = key else { return decide(operation, call).await };
        let slot = state.keys.slot(&key)?;
        let kept = slot.get_or_try_init(|| async {
            match decide(operation, call).await? {
                Reply::Whole(status, content, body) => Ok(KeptReply { status, content, body }),
                Reply::Stream(_) | Reply::Bundle(..) | Reply::Over => {
                    Err(Problem::failed("a stream has no key"))
                }
            }
        });
        let KeptReply { status, content, body } = kept.await?.clone();
        Ok(Reply::Whole(status, content, body))
    });
    acting.await.map_err(|error| Problem::failed(error.to_string()))?
}

/// Executes an operation between its two entries in the audit log. One that anyone with the right `read` may execute
/// decides nothing.
async fn decide(operation: &'static Operation, call: Call) -> Result<Reply, Problem> {
    if operation.right == TokenRight::Read {
        return (operation.handler)(call).await;
    }
    let state = Arc::clone(&call.state);
    let audited = AuditedDecision::begin(&state, &call.caller, operation, &call.path, &call.body).await?;
    let result = (operation.handler)(call).await;
    let outcome = audited.outcome(&result);
    outcome.add(&state).await;
    result
}

/// Reads the whole body of a request, within its limits.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body has more than the {BODY_MAX_BYTES} bytes accepted");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ProblemCode::TooLarge, detail)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_MAX_BYTES) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, error.to_string()))
        }
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, ProblemCode::TooSlow, detail))
        }
    }
}

/// Refuses a body that a form of a page could send.
fn check_content(headers: &HeaderMap) -> Result<(), Problem> {
    let content = headers.get(header::CONTENT_TYPE).and_then(|content| content.to_str().ok());
    let media = content.map(|content| content.split(';').next().unwrap_or_default().trim());
    if media.is_some_and(|media| media.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let detail = "the body must be JSON, with the content type application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ProblemCode::InvalidRequest, detail)
        .field(header::CONTENT_TYPE.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let never = futures::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        let problem = read_body(&HeaderMap::new(), Body::from_stream(never)).await.expect_err("too slow");
        assert_eq!((problem.status, problem.code), (408, ProblemCode::TooSlow));
    }
}
