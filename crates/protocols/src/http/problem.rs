//! Errors as problem documents (RFC 9457).

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stable codes of errors, for programs. The codes of failed agents and calls are in the objects about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProblemCode {
    /// The token is missing, wrong, revoked or expired.
    TokenRefused,
    /// The request names a host that is not this machine.
    HostRefused,
    /// A page of another origin sent the request.
    OriginRefused,
    /// The token does not have the right to this operation.
    RightMissing,
    /// The token may not use this directory.
    DirRefused,
    /// The token sends more requests, or has more streams, than it may.
    TooMany,
    /// There is nothing at this path.
    NotFound,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The body is not in the form of the request.
    InvalidRequest,
    /// A parameter or a header is unknown or ill-typed.
    InvalidParameter,
    /// A cursor or an event number does not exist.
    InvalidCursor,
    /// What the request asks for is not possible with the present settings, definitions or models.
    Refused,
    /// A key of a model provider is missing or malformed.
    ModelKeyMissing,
    /// There is no such run.
    UnknownRun,
    /// The run was removed.
    RemovedRun,
    /// The run has no such agent.
    UnknownAgent,
    /// The run has ended, so it accepts no commands.
    RunEnded,
    /// The agent has ended, so it reads no messages.
    AgentEnded,
    /// The run or the agent has not ended.
    NotEnded,
    /// The run or the agent failed or was cancelled, so that its changes may be incomplete.
    NotCompleted,
    /// There is nothing of this kind yet, such as a report.
    NotThere,
    /// Another process executes the run.
    ExecutedElsewhere,
    /// This process does not execute the run.
    NotExecutedHere,
    /// No call waits for this answer, or no longer.
    NotAsked,
    /// The user's files were changed since, so nothing was written.
    Conflict,
    /// The idempotency key was used for another request.
    KeyConflict,
    /// The server executes as many runs, or has as many streams, as it may.
    Busy,
    /// The server drains and accepts no requests.
    Draining,
    /// The operation failed.
    Failed,
}

/// An error as a client reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The status of the response.
    pub status: u16,
    /// The meaning of the status.
    pub title: String,
    /// What is wrong with this request.
    pub detail: String,
    /// The stable code.
    pub code: ProblemCode,
    /// The field, parameter or header that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What the client can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Problem {
    /// A problem with this status.
    pub(super) fn new(status: StatusCode, code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.into(),
            code,
            field: None,
            remedy: None,
        }
    }

    /// A parameter that is unknown or ill-typed.
    pub(super) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidParameter, detail).field(name)
    }

    /// Something that is not there, in a run that is.
    pub(super) fn conflict(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// A failure of this server or of what it uses.
    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Failed, detail)
    }

    /// Names the part of the request that is wrong.
    pub(super) fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Adds what the client can do.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// The status of the response.
    pub(super) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
