//! What the server says, and how it delivers it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

/// One answer: its content and the manner of its delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub(super) content: Content,
    pub(super) manner: DeliveryStyle,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// A model's reply in the shape of what was asked.
    Say(Box<MockReply>),
    /// A provider's error in that shape.
    Refuse(Refusal),
    /// Exactly this.
    Raw { status: u16, content_type: String, headers: Vec<(String, String)>, body: Vec<u8> },
}

/// What a model says in one reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MockReply {
    /// What it thinks first.
    pub thinking: Option<Thinking>,
    /// Its text; may be empty.
    pub text: String,
    /// The tools it calls.
    pub calls: Vec<Call>,
    /// What is counted. None leaves the figures out where the format can do without.
    pub tokens: Option<Tokens>,
    /// Why it stops.
    pub stop: Stop,
    /// How the pieces of several calls follow each other.
    pub weave: CallOrder,
}

/// Thinking, and the provider's seal on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinking {
    /// What is shown of it; a summary where the format has only that.
    pub text: String,
    /// The signature, or the encrypted content.
    pub signature: String,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its id. Empty for one made up from its place.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as JSON text, sent as they are, valid or not.
    pub arguments: String,
}

impl Call {
    /// A call with an id that is made up.
    pub fn new(name: impl Into<String>, input: &Value) -> Self {
        Self { id: String::new(), name: name.into(), arguments: input.to_string() }
    }

    /// The same with an id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

/// Figures of one reply. Input and output are totals; the others are parts of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// All that was sent.
    pub input: u64,
    /// All that was received.
    pub output: u64,
    /// The part of the input read from a cache.
    pub cached: u64,
    /// The part of the input written to a cache.
    pub cache_write: u64,
    /// The part of the output that was thinking.
    pub reasoning: u64,
}

impl Tokens {
    /// Figures without cache and thinking.
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output, cached: 0, cache_write: 0, reasoning: 0 }
    }
}

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// It is whole.
    #[default]
    Done,
    /// It is as long as allowed; the last call, if any, is cut in its middle.
    Length,
    /// The provider's filter, or the model, refused.
    Refused,
}

/// How the pieces of several calls follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallOrder {
    /// One call after the other.
    #[default]
    InOrder,
    /// All calls are begun, then each gets a piece in turn.
    Interleaved,
    /// What closes or names a call is said more than once, as some servers do.
    Repeated,
}

/// An error of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The provider's word for the kind; none for the usual one of the status.
    pub kind: Option<String>,
    /// The provider's code, where the format has one.
    pub code: Option<String>,
    /// The message.
    pub message: String,
    /// When to come back.
    pub retry_after: Option<RetryAfter>,
}

/// The ways in which a provider says when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// `retry-after: 2`
    Seconds(u64),
    /// `retry-after:` and the date that many seconds from now.
    Date(u64),
    /// `retry-after-ms: 1500`
    Millis(u64),
}

/// How an answer is delivered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeliveryStyle {
    /// Nothing is sent before this.
    pub latency: Duration,
    /// The head comes byte by byte, this far apart.
    pub head_drip: Option<Duration>,
    /// The body comes byte by byte, this far apart.
    pub drip: Option<Duration>,
    /// Time between one event and the next.
    pub gap: Duration,
    /// Where it waits until it is let go, in their order.
    pub holds: Vec<(FaultMoment, Hold)>,
    /// Where it goes wrong, and how.
    pub fault: Option<(FaultMoment, FaultType)>,
    /// The body is compressed.
    pub gzip: bool,
    /// Another content type than the true one.
    pub content_type: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Another status than the true one.
    pub status: Option<u16>,
    /// A stream was asked for, and one object is the answer.
    pub unstreamed: bool,
}

/// What holds an answer back until it is let go.
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
    /// Lets the answer go on.
    pub fn release(&self) {
        self.0.close();
    }

    pub(super) async fn released(&self) {
        // Nobody adds permits: this ends when it is closed.
        drop(self.0.acquire().await);
    }
}

/// Where in an answer something happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultMoment {
    /// Before anything is sent, the head included.
    AtOnce,
    /// After so many events.
    Event(usize),
    /// After so many bytes of the body.
    Byte(usize),
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultType {
    /// Nothing more is sent; the connection stays open.
    Stall,
    /// Nothing but pings is sent, this far apart.
    Ping(Duration),
    /// The connection is closed in the middle of the body.
    Close,
    /// The connection is reset.
    Reset,
    /// The body ends there as if it were whole.
    End,
    /// The provider reports an error within the stream, then ends it.
    Error(Refusal),
    /// One event that never ends.
    EndlessEvent,
    /// Event after event.
    EndlessStream,
    /// These bytes, then the rest as if nothing had happened.
    Insert(Vec<u8>),
}

impl MockReply {
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tokens: Some(Tokens::new(100, 20)), ..Self::default() }
    }

    /// The same with a call.
    pub fn call(self, name: &str, input: &Value) -> Self {
        self.with_call(Call::new(name, input))
    }

    /// The same with this call.
    pub fn with_call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// The same with thinking before it.
    pub fn thinking(mut self, text: &str, signature: &str) -> Self {
        self.thinking = Some(Thinking { text: text.to_owned(), signature: signature.to_owned() });
        self
    }

    /// The same with these figures.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// The same without figures.
    pub fn uncounted(mut self) -> Self {
        self.tokens = None;
        self
    }

    /// The same, ended for this reason.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// The same with its calls in this order of pieces.
    pub fn weave(mut self, weave: CallOrder) -> Self {
        self.weave = weave;
        self
    }
}

impl Refusal {
    /// An error with this status.
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
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        MockReply::text(text).into()
    }

    /// A provider's error.
    pub fn refuse(status: u16, message: impl Into<String>) -> Self {
        Refusal::new(status, message).into()
    }

    /// A provider's error that says when to come back.
    pub fn refuse_for(status: u16, message: impl Into<String>, retry_after: RetryAfter) -> Self {
        Refusal { retry_after: Some(retry_after), ..Refusal::new(status, message) }.into()
    }

    /// The conversation is longer than the model takes, in each provider's own words.
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

    /// A recorded stream.
    pub fn recorded(body: impl Into<Vec<u8>>) -> Self {
        Self::raw(200, "text/event-stream", body)
    }

    /// A page, as a proxy or a wrong address gives it.
    pub fn page() -> Self {
        let page = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n";
        Self::raw(200, "text/html; charset=utf-8", page)
    }

    /// A redirect to elsewhere.
    pub fn redirect(location: &str) -> Self {
        Self::raw(307, "text/plain", "moved\n").header("location", location)
    }

    /// No answer: the connection is reset once the request is there.
    pub fn reset() -> Self {
        Self::text("").fault(FaultMoment::AtOnce, FaultType::Reset)
    }

    /// The same, later.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.manner.latency = latency;
        self
    }

    /// The same with its head byte by byte.
    pub fn head_drip(mut self, interval: Duration) -> Self {
        self.manner.head_drip = Some(interval);
        self
    }

    /// The same with its body byte by byte.
    pub fn drip(mut self, interval: Duration) -> Self {
        self.manner.drip = Some(interval);
        self
    }

    /// The same with time between its events.
    pub fn gap(mut self, gap: Duration) -> Self {
        self.manner.gap = gap;
        self
    }

    /// The same, held back there.
    pub fn hold(mut self, when: FaultMoment, hold: &Hold) -> Self {
        self.manner.holds.push((when, hold.clone()));
        self
    }

    /// The same, going wrong there.
    pub fn fault(mut self, when: FaultMoment, then: FaultType) -> Self {
        self.manner.fault = Some((when, then));
        self
    }

    /// The same as one object, whatever was asked for.
    pub fn unstreamed(mut self) -> Self {
        self.manner.unstreamed = true;
        self
    }

    /// The same, compressed.
    pub fn gzip(mut self) -> Self {
        self.manner.gzip = true;
        self
    }

    /// The same with another content type.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.manner.content_type = Some(content_type.to_owned());
        self
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.manner.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}
