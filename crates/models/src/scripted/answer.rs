//! The answers of a scripted model, and how they are streamed and returned.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_domain::budget::{Price, Usage};
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::message::{Reply, ToolCall};
use posse_engine::ports::{ModelFailure, ModelReply, ModelRequest, Retry, StreamPart, StreamSink};
use serde_json::Value;

use super::estimate;

/// Limit of parts in which a text is streamed.
const STREAM_PARTS_MAX: usize = 4;
/// A text shorter than this is streamed in one part.
const STREAM_PART_MIN_BYTES: usize = 256;
/// Limit of tool names that are streamed: a user who watches a reply with many calls needs no more.
const STREAM_TOOLS_MAX: usize = 16;

/// The answer of a scripted model. Cheap to clone: a reply is copied only when it is returned.
#[derive(Debug, Clone)]
pub struct ScriptedAnswer {
    said: ScriptedOutcome,
    latency: Duration,
    tag: Option<String>,
}

#[derive(Debug, Clone)]
enum ScriptedOutcome {
    Reply(Arc<ScriptedReply>),
    Failure(CallError, Option<Retry>),
}

#[derive(Debug, Clone)]
struct ScriptedReply {
    text: Arc<str>,
    calls: Vec<ScriptedCall>,
    usage: Option<Usage>,
    cut_off: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedCall {
    /// The id of the call. If `None`, it is derived from the turn and position.
    pub id: Option<String>,
    pub name: String,
    /// The arguments. A string is text that did not parse as JSON.
    pub input: Value,
}

impl ScriptedCall {
    /// A call whose id is derived from its turn and position.
    pub fn new(name: impl Into<String>, input: Value) -> Self {
        Self { id: None, name: name.into(), input }
    }

    /// A call whose arguments are text as a model writes it, which may not be JSON.
    pub fn raw(name: impl Into<String>, text: String) -> Self {
        let input = match serde_json::from_str(&text) {
            // Quoted text is JSON too, but not an object of arguments. It stays as written, with its quotes.
            Ok(Value::String(_)) | Err(_) => Value::String(text),
            Ok(value) => value,
        };
        Self::new(name, input)
    }
}

impl ScriptedAnswer {
    /// A reply with this text, which may be empty.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        let reply = ScriptedReply { text: text.into(), calls: Vec::new(), usage: None, cut_off: false };
        Self::new(ScriptedOutcome::Reply(Arc::new(reply)))
    }

    /// A failed call, with the provider's status if there is one. It is not retried unless [`retry`](Self::retry) is
    /// set.
    pub fn error(status: Option<u16>, message: impl Into<String>) -> Self {
        Self::failure(CallError { status, ..CallError::new(Code::ModelError, message) })
    }

    pub fn failure(error: CallError) -> Self {
        Self::new(ScriptedOutcome::Failure(error, None))
    }

    /// Sets when a failed call may be retried. Has no effect on a reply.
    pub fn retry(mut self, again: Retry) -> Self {
        if let ScriptedOutcome::Failure(_, retry) = &mut self.said {
            *retry = Some(again);
        }
        self
    }

    pub(super) fn no_match(message: String) -> Self {
        Self::error(None, message)
    }

    fn new(said: ScriptedOutcome) -> Self {
        Self { said, latency: Duration::ZERO, tag: None }
    }

    /// Adds a tool call. Has no effect on an error.
    pub fn call(self, name: impl Into<String>, input: Value) -> Self {
        self.calls([ScriptedCall::new(name, input)])
    }

    /// Adds tool calls. Has no effect on an error.
    pub fn calls(self, calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        self.map_reply(|reply| reply.calls.extend(calls))
    }

    /// Sets the usage of a reply, which is otherwise estimated. An error has no usage.
    pub fn usage(self, usage: Usage) -> Self {
        self.map_reply(|reply| reply.usage = Some(usage))
    }

    /// Marks the reply as cut off at its length limit.
    pub fn cut_off(self) -> Self {
        self.map_reply(|reply| reply.cut_off = true)
    }

    /// Sets the delay before the answer.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the tag that later requests contain in `ModelRequest::tags`. A rule sets its own.
    pub fn tag(mut self, tag: &str) -> Self {
        self.tag = Some(tag.to_owned());
        self
    }

    fn map_reply(mut self, change: impl FnOnce(&mut ScriptedReply)) -> Self {
        if let ScriptedOutcome::Reply(reply) = &mut self.said {
            change(Arc::make_mut(reply));
        }
        self
    }

    /// Waits, streams and answers. Values that depend on the request are computed before, so that the waiting future
    /// does not hold the request.
    pub(super) fn send_parts(
        self,
        request: &ModelRequest,
        price: Option<Price>,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let latency = self.latency;
        let finish = self.prepare(request, price);
        async move {
            // Without latency no timer is needed: a benchmark makes tens of thousands of such calls.
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            finish(Some(&*sink))
        }
        .boxed()
    }

    /// The delay of the answer, and the answer without the delay.
    pub(super) fn without_waiting(
        self,
        request: &ModelRequest,
        price: Option<Price>,
    ) -> (Duration, Result<ModelReply, ModelFailure>) {
        (self.latency, self.prepare(request, price)(None))
    }

    fn prepare(
        self,
        request: &ModelRequest,
        price: Option<Price>,
    ) -> impl FnOnce(Option<&dyn StreamSink>) -> Result<ModelReply, ModelFailure> + use<> {
        let Self { said, tag, .. } = self;
        let place = ReplyPosition { attempt: request.attempt, turn: request.turn };
        let usage = match &said {
            ScriptedOutcome::Reply(reply) => reply.usage(request, price),
            ScriptedOutcome::Failure(..) => Usage::ZERO,
        };
        move |sink| match said {
            ScriptedOutcome::Reply(reply) => {
                if let Some(sink) = sink {
                    reply.stream(sink);
                }
                Ok(ModelReply { reply: reply.to_reply(place), usage, tag, cut_off: reply.cut_off })
            }
            ScriptedOutcome::Failure(error, retry) => {
                Err(ModelFailure { error: Box::new(error), usage: Some(usage), tag, retry })
            }
        }
    }
}

#[derive(Clone, Copy)]
struct ReplyPosition {
    attempt: u32,
    turn: u32,
}

impl ReplyPosition {
    /// The same call has the same id in every run, and no two calls of an agent share an id.
    fn call_id(self, number: usize) -> String {
        let Self { attempt, turn } = self;
        if attempt <= 1 {
            format!("call_{turn}_{number}")
        } else {
            format!("call_a{attempt}_{turn}_{number}")
        }
    }
}

impl ScriptedReply {
    fn to_reply(&self, place: ReplyPosition) -> Reply {
        let to_call = |(index, call): (usize, &ScriptedCall)| ToolCall {
            id: call.id.clone().unwrap_or_else(|| place.call_id(index + 1)),
            name: call.name.clone(),
            input: call.input.clone(),
        };
        Reply {
            text: self.text.clone().into(),
            calls: self.calls.iter().enumerate().map(to_call).collect(),
            raw: None,
        }
    }

    /// Everything is streamed after the latency: a slow model is silent, and the idle timeout must notice that.
    fn stream(&self, sink: &dyn StreamSink) {
        for part in parts(&self.text) {
            sink.part(StreamPart::Text(part.to_owned()));
        }
        for call in self.calls.iter().take(STREAM_TOOLS_MAX) {
            sink.part(StreamPart::Tool(call.name.clone()));
        }
    }

    /// The stated or estimated usage. Its cost is computed if none is stated and the price is known.
    fn usage(&self, request: &ModelRequest, price: Option<Price>) -> Usage {
        let usage = self.usage.unwrap_or_else(|| self.estimate(request));
        let cost = || price.map(|price| price.cost(&usage));
        Usage { micro_usd: usage.micro_usd.or_else(cost), ..usage }
    }

    fn estimate(&self, request: &ModelRequest) -> Usage {
        let calls = self.calls.iter().map(|call| estimate::call_chars(&call.name, &call.input));
        let output_chars = estimate::text_chars(&self.text) + calls.sum::<u64>();
        Usage {
            input_tokens: estimate::tokens(estimate::request_chars(request)),
            output_tokens: estimate::tokens(output_chars),
            cached_tokens: 0,
            micro_usd: None,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            ..Usage::ZERO
        }
    }
}

/// The text in a few pieces of about the same length, none of them empty.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let size = text.len().div_ceil(STREAM_PARTS_MAX).max(STREAM_PART_MIN_BYTES);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, tail) = rest.split_at(rest.ceil_char_boundary(size));
        rest = tail;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_streamed_whole_in_a_few_parts() {
        for text in ["", "short", &"ä".repeat(5_000), &"x".repeat(STREAM_PART_MIN_BYTES + 1)] {
            let found: Vec<&str> = parts(text).collect();
            assert_eq!(found.concat(), text);
            assert!(found.len() <= STREAM_PARTS_MAX && found.iter().all(|part| !part.is_empty()));
        }
        assert_eq!(parts("short").count(), 1);
    }

    #[test]
    fn raw_arguments_are_read_as_json_if_they_are() {
        let input = |text: &str| ScriptedCall::raw("read", text.to_owned()).input;
        assert_eq!(input(r#"{"path": "a"}"#), serde_json::json!({"path": "a"}));
        assert_eq!(input("[1]"), serde_json::json!([1]));
        for kept in [r#"{"path": "#, "", "\"quoted\""] {
            assert_eq!(input(kept), Value::String(kept.to_owned()));
        }
    }

    #[test]
    fn call_ids_of_two_attempts_differ() {
        assert_eq!(ReplyPosition { attempt: 1, turn: 3 }.call_id(2), "call_3_2");
        assert_eq!(ReplyPosition { attempt: 2, turn: 3 }.call_id(2), "call_a2_3_2");
    }

    #[test]
    fn a_wide_reply_is_shared_until_it_is_handed_over() {
        let answer =
            ScriptedAnswer::text("x").calls((0..100).map(|_| ScriptedCall::new("read", Value::Null)));
        let tagged = answer.clone().tag("rule:1");
        let (ScriptedOutcome::Reply(one), ScriptedOutcome::Reply(other)) = (answer.said, tagged.said) else {
            panic!("replies")
        };
        assert!(Arc::ptr_eq(&one, &other));
    }
}
