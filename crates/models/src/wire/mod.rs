//! The wire formats of model APIs, without any network: they convert requests to bytes, and events to replies.
//!
//! Each format is one file that implements [`Wire`]. The shared parts around it exist once: `http` sends and reads,
//! `provider` knows each provider's format, and `provider_queue` enforces limits.

pub(crate) mod anthropic;
mod buffered;
pub(crate) mod chat;
mod error_response;
mod features;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod responses;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod text;
pub(crate) mod text_tools;
mod tool_lists;

use std::time::Duration;

use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::message::Reply;
use posse_engine::ports::{ModelRequest, StreamPart};

pub(crate) use buffered::{BufferedValues, check_values};
pub(crate) use error_response::{ErrorResponse, IT_ANSWERED, short};
pub(crate) use tool_lists::ToolLists;

pub(crate) const MAX_CALLS: usize = 1024;
/// Limit of argument bytes of all calls of one reply together.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 * 1024 * 1024;

pub(crate) trait Wire: Send + Sync + 'static {
    /// Builds the request of one call. Equal requests give equal bytes, and a conversation that only grew gives bytes
    /// with the same prefix, so that provider caches match.
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest;

    /// A reader for the answer to this request.
    fn reader(&self, target: &Target, request: &ModelRequest) -> Box<dyn ReplyReader>;

    /// The problem of an error answer.
    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem;
}

/// The model of a call.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The full name, `provider/model`.
    pub(crate) full_name: String,
    /// The name at the provider.
    pub(crate) model: String,
    pub(crate) abilities: ModelFeatures,
    /// The tools of earlier requests, as the format has them.
    pub(crate) tool_lists: ToolLists,
}

/// The features of a model beyond text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelFeatures {
    /// Whether the model accepts pictures. Otherwise a line of text replaces each.
    pub(crate) images: bool,
    /// Whether the model accepts a temperature. Some thinking models do not.
    pub(crate) sampling: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireRequest {
    /// The path beneath the provider's base URL, such as `/v1/messages`.
    pub(crate) path: String,
    /// Headers of the format. The caller adds the key's header.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// One server-sent event of a stream, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamEvent<'a> {
    /// The kind. Empty if the stream has none.
    pub(crate) event: &'a str,
    pub(crate) data: &'a str,
}

/// Builds a reply from the events of a stream.
pub(crate) trait ReplyReader: Send {
    /// Takes one event and shows its displayable parts. An event that is activity shows at least [`StreamPart::Alive`].
    /// A ping shows nothing.
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem>;

    /// Takes the whole answer of a server that does not stream.
    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let _ = (body, show);
        Err(Problem::cut("the answer is not a stream of events"))
    }

    /// Takes the end of the stream, or of the answer if [`Flow::End`] was returned. A stream that ended early is a
    /// [`Problem::cut`]: a partial call is never a call.
    fn finish(self: Box<Self>) -> Result<Answer, Problem>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    /// The answer is complete, whatever else is sent.
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// The provider's token counts. `None` if it sent none. Without money: prices are looked up elsewhere.
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: StopReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The reply is complete, or requests tools.
    Done,
    /// The output reached its limit. An incomplete call must not be in the reply.
    Length,
    /// The model or its provider refused, with the provider's reason.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    /// For users. Never contains the key, and has only a few lines.
    pub(crate) message: String,
    /// The HTTP status, if there was one.
    pub(crate) status: Option<u16>,
    /// The usage of the call. `None` if it cannot be known.
    pub(crate) usage: Option<Usage>,
}

/// The kind of a call's problem, which decides how it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// The provider does not accept the key, or the key lacks a permission.
    Key,
    /// The conversation is longer than the model's context.
    Overflow,
    NoModel,
    /// The request is invalid, and would be invalid again.
    Request,
    /// The model has no tool calls. Later requests describe tools in the prompt, so a retry is a different request.
    NoTools,
    /// The rate limit was exceeded.
    RateLimit {
        /// The wait that the provider requested, if any.
        after: Option<Duration>,
    },
    /// The usage limit of the account is exhausted until some time.
    UsageLimit {
        /// The wait that the provider requested, if any.
        after: Option<Duration>,
    },
    /// The provider is overloaded or broken.
    Unwell {
        /// The wait that the provider requested, if any.
        after: Option<Duration>,
    },
    /// The provider could not be reached.
    Unreachable,
    /// No server listens at this address of the user's own machine, and waiting does not start one.
    NoServer,
    /// The stream ended too early, or was malformed.
    Cut,
    /// The answer has another format, such as a proxy's page or another API.
    Foreign,
}

impl Problem {
    /// A problem of a call that cost nothing.
    pub(crate) fn free(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, usage: Some(Usage::ZERO) }
    }

    /// The problem of a stream that ended too early or was malformed. Its cost cannot be known.
    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self { kind: ProblemKind::Cut, message: message.into(), status: None, usage: None }
    }

    /// The code of the problem in the journal.
    pub(crate) fn code(&self) -> Code {
        match self.kind {
            ProblemKind::Key => Code::Unauthenticated,
            ProblemKind::Overflow => Code::ContextOverflow,
            _ => Code::ModelError,
        }
    }
}
