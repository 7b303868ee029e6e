//! A model server for tests and benches: real TCP, real wire formats, and control over every byte.
//!
//! It serves Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, with and without streaming. A
//! [`ReplySource`], such as a function from a [`MockRequest`] to an [`Answer`], decides on its answers. An answer also
//! states how it is sent: late, in drips, cut at a byte, followed by pings for ever. All requests and their times are
//! in its [log](Mock::requests).
//!
//! The official SDKs parse its answers (`cargo xtask sdks`), so Posse is not tested against mistakes of its own server.

mod answer;
mod delivery;
mod http;
mod log;
mod reply_sources;
mod request;
mod script;
mod server;
mod shapes;

pub use answer::{
    Answer, Call, CallOrder, DeliveryStyle, FaultMoment, FaultType, Hold, MockReply, Refusal, RetryAfter,
    Stop, Thinking, Tokens,
};
pub use log::{LogEntry, Outcome};
pub use reply_sources::{FANOUT, by_name, fanout};
pub use request::{MockRequest, ToolResult, WireFormat};
pub use script::Script;
pub use server::{Mock, Options, Stats, refused_url};

/// Decides on the answers of the server.
pub trait ReplySource: Send + Sync + 'static {
    fn answer(&self, asked: &MockRequest) -> Answer;
}

impl<F: Fn(&MockRequest) -> Answer + Send + Sync + 'static> ReplySource for F {
    fn answer(&self, asked: &MockRequest) -> Answer {
        self(asked)
    }
}

#[cfg(test)]
mod tests;
