//! The wire formats of model APIs, without any network: a request in, bytes out; events in, a reply out.
//!
//! Each format is one file that implements [`Wire`]. What all of them need around it is elsewhere and exists once:
//! `http` sends and reads, `provider` knows who speaks what, and `line` keeps calls within their limits.

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

use std::time::Duration;

use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::message::Reply;
use posse_engine::ports::{ModelRequest, StreamPart};

pub(crate) use buffered::{BufferedValues, check_values};
pub(crate) use error_response::{ErrorResponse, short};

/// Calls of one reply.
pub(crate) const MAX_CALLS: usize = 1024;
/// Bytes of arguments that all calls of one reply may have together.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 8 * 1024 * 1024;

/// A wire format.
pub(crate) trait Wire: Send + Sync + 'static {
    /// The request of one call. Equal requests give equal bytes, and a conversation that only grew gives bytes that
    /// begin alike, so that providers find what they have cached.
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest;

    /// Reads the answer to one call's request.
    fn reader(&self, target: &Target, request: &ModelRequest) -> Box<dyn ReplyReader>;

    /// What an answer that is no success means.
    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem;
}

/// The model that is asked.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Its full name, `provider/model`.
    pub(crate) full_name: String,
    /// Its name at the provider.
    pub(crate) model: String,
    /// What it can do.
    pub(crate) abilities: ModelFeatures,
}

/// What a model can do beyond text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelFeatures {
    /// Whether it takes pictures. Where it does not, a line of text stands for each.
    pub(crate) images: bool,
    /// Whether it takes a temperature. Some that think do not.
    pub(crate) sampling: bool,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireRequest {
    /// The path beneath the provider's base URL, such as `/v1/messages`.
    pub(crate) path: String,
    /// Headers of the format; the key's is added by whoever has the key.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body, JSON.
    pub(crate) body: Vec<u8>,
}

/// One event of a stream, as server-sent events have them. It is read where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamEvent<'a> {
    /// The kind; empty if the stream named none.
    pub(crate) event: &'a str,
    /// The data.
    pub(crate) data: &'a str,
}

/// Puts a reply together from the events of a stream.
pub(crate) trait ReplyReader: Send {
    /// Takes one event and hands over what can be shown of it. An event that is a sign of life gives at least
    /// [`StreamPart::Alive`]; a ping gives nothing.
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem>;

    /// Takes the whole answer of a server that does not stream.
    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let _ = (body, show);
        Err(Problem::cut("the answer is no stream of events"))
    }

    /// The stream has ended, or [`Flow::End`] was said. A stream that ended too early is a [`Problem::cut`]: no part
    /// of a call is ever a call.
    fn finish(self: Box<Self>) -> Result<Answer, Problem>;
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More is to come.
    On,
    /// The answer is whole, whatever else is sent.
    End,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// What the model said.
    pub(crate) reply: Reply,
    /// What the provider counted; none if it did not say. Without money: prices are looked up elsewhere.
    pub(crate) usage: Option<Usage>,
    /// Why the model stopped.
    pub(crate) stop: StopReason,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It had said what it wanted, or asked for tools.
    Done,
    /// Its output was as long as allowed. A call that was being written is incomplete and must not be in the reply.
    Length,
    /// It, or its provider, refused; with the provider's word for it.
    Refused(String),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// What kind of problem.
    pub(crate) kind: ProblemKind,
    /// For people; without the key, and without anything longer than a few lines.
    pub(crate) message: String,
    /// The provider's status, if it gave one.
    pub(crate) status: Option<u16>,
    /// What the call cost; none if that cannot be known.
    pub(crate) usage: Option<Usage>,
}

/// What kind of problem a call had; decides what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// The provider does not know the key, or the key may not do this.
    Key,
    /// The conversation is longer than the model takes.
    Overflow,
    /// There is no such model.
    NoModel,
    /// The request is wrong; the same one is wrong again.
    Request,
    /// The model takes no tools. From now on they are described in the prompt, so the next call is another one.
    NoTools,
    /// Too much was asked in too short a time.
    RateLimit {
        /// When to come back, if the provider said so.
        after: Option<Duration>,
    },
    /// What the account may use is used up for now; it comes back at a known time.
    UsageLimit {
        /// When to come back, if the provider said so.
        after: Option<Duration>,
    },
    /// The provider is overloaded or broken.
    Unwell {
        /// When to come back, if the provider said so.
        after: Option<Duration>,
    },
    /// It could not be reached.
    Unreachable,
    /// The stream ended too early, or made no sense.
    Cut,
    /// It answered, but not in the format: a proxy's page, another API.
    Foreign,
}

impl Problem {
    /// A problem of a call that cost nothing.
    pub(crate) fn free(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, usage: Some(Usage::ZERO) }
    }

    /// A stream that ended too early or made no sense; what it cost cannot be known.
    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self { kind: ProblemKind::Cut, message: message.into(), status: None, usage: None }
    }

    /// The code that the journal has for it.
    pub(crate) fn code(&self) -> Code {
        match self.kind {
            ProblemKind::Key => Code::Unauthenticated,
            ProblemKind::Overflow => Code::ContextOverflow,
            _ => Code::ModelError,
        }
    }
}
