//! A model server for tests and benches: real TCP, true shapes, and every byte under control.
//!
//! It speaks Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, with and without streaming. What it says is
//! decided by a [`Brain`], a function from a [`MockRequest`] to an [`Answer`]; an answer says also how it is delivered:
//! late, in drips, cut at a byte, followed by pings for ever. What came in, and when, is in its [log](Mock::requests).
//!
//! The official SDKs read what it says (`cargo xtask sdks`): what passes here is not merely used to its own mistakes.

mod answer;
mod brains;
mod delivery;
mod http;
mod log;
mod request;
mod script;
mod server;
mod shapes;

pub use answer::{
    Answer, Call, CallOrder, DeliveryStyle, FaultMoment, FaultType, Hold, MockReply, Refusal, RetryAfter,
    Stop, Thinking, Tokens,
};
pub use brains::{FANOUT, by_name, fanout};
pub use log::{LogEntry, Outcome};
pub use request::{Dialect, MockRequest, ToolResult};
pub use script::{Script, ScriptError};
pub use server::{Mock, Options, Stats, refused_url};

/// Decides what the server answers.
pub trait Brain: Send + Sync + 'static {
    /// The answer to one request.
    fn answer(&self, asked: &MockRequest) -> Answer;
}

impl<F: Fn(&MockRequest) -> Answer + Send + Sync + 'static> Brain for F {
    fn answer(&self, asked: &MockRequest) -> Answer {
        self(asked)
    }
}

#[cfg(test)]
mod tests;
