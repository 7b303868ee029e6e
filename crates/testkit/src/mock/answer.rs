//! The answers of the mock server: their content, and how they are sent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub(super) content: Content,
    pub(super) manner: DeliveryStyle,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// A model's reply in the format of the request.
    Say(Box<MockReply>),
    /// A provider's error in the format of the request.
    Refuse(Refusal),
    Raw {
        status: u16,
        content_type: String,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
}

/// One reply of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MockReply {
    /// The thinking before the text.
    pub thinking: Option<Thinking>,
    /// May be empty.
    pub text: String,
    pub calls: Vec<Call>,
    /// The token counts. `None` omits them where the format permits that.
    pub tokens: Option<Tokens>,
    pub stop: Stop,
    /// The order of the pieces of several calls.
    pub weave: CallOrder,
}

/// Thinking, and the provider's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinking {
    /// The visible part, which is a summary in some formats.
    pub text: String,
    /// The signature, or the encrypted content.
    pub signature: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The id. If empty, it is derived from the position.
    pub id: String,
    pub name: String,
    /// The arguments as JSON text, sent unchanged, valid or not.
    pub arguments: String,
}

impl Call {
    /// A call with a derived id.
    pub fn new(name: impl Into<String>, input: &Value) -> Self {
        Self { id: String::new(), name: name.into(), arguments: input.to_string() }
    }

    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

/// Token counts of one reply. Input and output are totals, the others are parts of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    /// The part of the input that was read from a cache.
    pub cached: u64,
    /// The part of the input that was written to a cache.
    pub cache_write: u64,
    /// The part of the output that was thinking.
    pub reasoning: u64,
}

impl Tokens {
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output, cached: 0, cache_write: 0, reasoning: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// The reply is complete.
    #[default]
    Done,
    /// The reply reached its length limit. The last call, if any, is cut in the middle.
    Length,
    /// The provider's filter, or the model, refused.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallOrder {
    /// One call after the other.
    #[default]
    InOrder,
    /// All calls are begun, then each gets a piece in turn.
    Interleaved,
    /// Events that close or name a call are repeated, as some servers do.
    Repeated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// The provider's name for the kind. `None` for the usual kind of the status.
    pub kind: Option<String>,
    /// The provider's code, where the format has one.
    pub code: Option<String>,
    pub message: String,
    /// The requested wait.
    pub retry_after: Option<RetryAfter>,
}

/// The ways in which a provider requests a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// `retry-after: 2`
    Seconds(u64),
    /// `retry-after:` and the date that many seconds from now.
    Date(u64),
    /// `retry-after-ms: 1500`
    Millis(u64),
}

/// How an answer is sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeliveryStyle {
    /// Nothing is sent before this time.
    pub latency: Duration,
    /// The head is sent byte by byte, at this interval.
    pub head_drip: Option<Duration>,
    /// The body is sent byte by byte, at this interval.
    pub drip: Option<Duration>,
    /// Time between two events.
    pub gap: Duration,
    /// Positions at which the answer waits until it is released, in their order.
    pub holds: Vec<(FaultMoment, Hold)>,
    /// The position and kind of a fault.
    pub fault: Option<(FaultMoment, FaultType)>,
    pub gzip: bool,
    /// Replaces the true content type.
    pub content_type: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Replaces the true status.
    pub status: Option<u16>,
    /// The answer is one object although a stream was requested.
    pub unstreamed: bool,
}

/// Holds an answer back until it is released.
#[derive(Debug, Clone)]
pub struct Hold(Arc<Semaphore>);

impl Default for Hold {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Hold {
    pub fn release(&self) {
        self.0.close();
    }

    pub(super) async fn released(&self) {
        // No permit is ever added, so this ends when the semaphore is closed.
        drop(self.0.acquire().await);
    }
}

/// A position in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultMoment {
    /// Before anything is sent, including the head.
    AtOnce,
    /// After this many events.
    Event(usize),
    /// After this many bytes of the body.
    Byte(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultType {
    /// Nothing more is sent, and the connection stays open.
    Stall,
    /// Only pings are sent, at this interval.
    Ping(Duration),
    /// The connection is closed in the middle of the body.
    Close,
    Reset,
    /// The body ends there like a complete one.
    End,
    /// The provider reports an error within the stream, then ends it.
    Error(Refusal),
    /// One event that never ends.
    EndlessEvent,
    /// Event after event without end.
    EndlessStream,
    /// These bytes, then the unchanged rest.
    Insert(Vec<u8>),
}

impl MockReply {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tokens: Some(Tokens::new(100, 20)), ..Self::default() }
    }

    pub fn call(self, name: &str, input: &Value) -> Self {
        self.with_call(Call::new(name, input))
    }

    pub fn with_call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// Adds thinking before the text.
    pub fn thinking(mut self, text: &str, signature: &str) -> Self {
        self.thinking = Some(Thinking { text: text.to_owned(), signature: signature.to_owned() });
        self
    }

    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Removes the token counts.
    pub fn uncounted(mut self) -> Self {
        self.tokens = None;
        self
    }

    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    pub fn weave(mut self, weave: CallOrder) -> Self {
        self.weave = weave;
        self
    }
}

impl Refusal {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, kind: None, code: None, message: message.into(), retry_after: None }
    }
}

impl From<MockReply> for Answer {
    fn from(say: MockReply) -> Self {
        Self { content: Content::Say(Box::new(say)), manner: DeliveryStyle::default() }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { content: Content::Refuse(refusal), manner: DeliveryStyle::default() }
    }
}

impl Answer {
    pub fn text(text: impl Into<String>) -> Self {
        MockReply::text(text).into()
    }

    pub fn refuse(status: u16, message: impl Into<String>) -> Self {
        Refusal::new(status, message).into()
    }

    /// A provider's error that requests a wait.
    pub fn refuse_for(status: u16, message: impl Into<String>, retry_after: RetryAfter) -> Self {
        Refusal { retry_after: Some(retry_after), ..Refusal::new(status, message) }.into()
    }

    /// The error for a conversation that is too long, in each provider's own words.
    pub fn overflow() -> Self {
        Refusal { code: Some("context_length_exceeded".to_owned()), ..Refusal::new(400, "") }.into()
    }

    /// Exactly these bytes as the body.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let content = Content::Raw {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            body: body.into(),
        };
        Self { content, manner: DeliveryStyle::default() }
    }

    pub fn recorded(body: impl Into<Vec<u8>>) -> Self {
        Self::raw(200, "text/event-stream", body)
    }

    /// A web page, like the answer of a proxy or a wrong address.
    pub fn page() -> Self {
        let page = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n";
        Self::raw(200, "text/html; charset=utf-8", page)
    }

    pub fn redirect(location: &str) -> Self {
        Self::raw(307, "text/plain", "moved\n").header("location", location)
    }

    /// No answer: the connection is reset when the request has arrived.
    pub fn reset() -> Self {
        Self::text("").fault(FaultMoment::AtOnce, FaultType::Reset)
    }

    /// Delays the whole answer.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.manner.latency = latency;
        self
    }

    /// Sends the head byte by byte.
    pub fn head_drip(mut self, interval: Duration) -> Self {
        self.manner.head_drip = Some(interval);
        self
    }

    /// Sends the body byte by byte.
    pub fn drip(mut self, interval: Duration) -> Self {
        self.manner.drip = Some(interval);
        self
    }

    /// Adds time between events.
    pub fn gap(mut self, gap: Duration) -> Self {
        self.manner.gap = gap;
        self
    }

    /// Holds the answer back at this position.
    pub fn hold(mut self, when: FaultMoment, hold: &Hold) -> Self {
        self.manner.holds.push((when, hold.clone()));
        self
    }

    /// Adds a fault at this position.
    pub fn fault(mut self, when: FaultMoment, then: FaultType) -> Self {
        self.manner.fault = Some((when, then));
        self
    }

    /// Sends one object, whatever was requested.
    pub fn unstreamed(mut self) -> Self {
        self.manner.unstreamed = true;
        self
    }

    pub fn gzip(mut self) -> Self {
        self.manner.gzip = true;
        self
    }

    pub fn content_type(mut self, content_type: &str) -> Self {
        self.manner.content_type = Some(content_type.to_owned());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.manner.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}
