//! Tools for models that have no tool calls: they are described in the prompt, and a call is JSON in the answer.
//!
//! A call is a fenced block that is marked as one:
//!
//! ````text
//! ```tool_call
//! {"name": "read", "arguments": {"path": "src/main.rs"}}
//! ```
//! ````
//!
//! Only such a block, or the tags that many open models learnt, is ever a call: JSON in prose or in a block of another
//! kind is text, and so is a marked block within another block. Where the server can hold a model to a schema, the
//! whole answer is one JSON object with text and calls. Results go back as text of the user.

mod blocks;
mod known;
mod prompt;
mod repair;
mod schema;
#[cfg(test)]
mod tests;

use posse_domain::message::{Reply, ToolCall};
use posse_engine::ports::{ModelRequest, StreamPart};
use serde_json::Value;

use super::{
    Answer, ErrorResponse, Flow, MAX_CALLS, Problem, ProblemKind, ReplyReader, StopReason, StreamEvent,
    Target, Wire, WireRequest,
};
use crate::endpoint::{Endpoint, ToolCalls};
use blocks::{Blocks, Piece};
pub use known::TextModels;

/// Words with which providers say that a model takes no tools.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "doesn't support tools",
    "do not support tools",
    "no endpoints found that support tool use",
    "tool use is not supported",
    "tool calling is not supported",
    "tools are not supported",
    "does not support function calling",
    "function calling is not supported",
    "function calling is not enabled",
    "\"auto\" tool choice requires",
    "`tools` is not supported",
    "tools param requires --jinja",
];
/// Statuses that such words come with. A server that has no tools at all may call that its own fault.
const NO_TOOLS_STATUSES: [u16; 5] = [400, 404, 422, 500, 501];

/// How the model gives a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a marked block.
    Fenced,
    /// As the whole answer, which the server holds to a schema.
    Schema,
}

impl Form {
    /// The form for an endpoint. Those that constrain what a model writes are known by name.
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.provider.as_str() {
            "ollama" | "llamacpp" => Form::Schema,
            _ => Form::Fenced,
        }
    }
}

/// A format for one model of an endpoint, which calls tools as the endpoint says.
pub(crate) fn with_tools(
    wire: Box<dyn Wire>,
    endpoint: &Endpoint,
    full_name: &str,
    known: &TextModels,
) -> Box<dyn Wire> {
    let form = Form::of(endpoint);
    match endpoint.tools {
        ToolCalls::Native => wire,
        ToolCalls::Text => Box::new(TextTools { wire, form }),
        ToolCalls::Probe => Box::new(ProbingFormat {
            text: TextTools { wire, form },
            full_name: full_name.to_owned(),
            known: known.clone(),
        }),
    }
}

/// A format in which tools are text.
pub(crate) struct TextTools<W> {
    wire: W,
    form: Form,
}

impl Wire for Box<dyn Wire> {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        (**self).request(target, request)
    }

    fn reader(&self, target: &Target, request: &ModelRequest) -> Box<dyn ReplyReader> {
        (**self).reader(target, request)
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        (**self).refusal(refused)
    }
}

impl<W: Wire> Wire for TextTools<W> {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        let mut sent = self.wire.request(target, &prompt::without_tools(request, self.form));
        // A report, for which no tools are offered, is held to nothing.
        if self.form == Form::Schema && !request.callable().is_empty() {
            schema::constrain(&mut sent.body, request.callable());
        }
        sent
    }

    fn reader(&self, target: &Target, request: &ModelRequest) -> Box<dyn ReplyReader> {
        let listener = Listener::new(request, self.form);
        Box::new(TextReader { inner: self.wire.reader(target, request), listener })
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        self.wire.refusal(refused)
    }
}

/// A format that finds out whether a model calls tools, once for the process.
struct ProbingFormat<W> {
    text: TextTools<W>,
    full_name: String,
    known: TextModels,
}

impl<W: Wire> Wire for ProbingFormat<W> {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        if self.known.has(&self.full_name) {
            self.text.request(target, request)
        } else {
            self.text.wire.request(target, request)
        }
    }

    fn reader(&self, target: &Target, request: &ModelRequest) -> Box<dyn ReplyReader> {
        // If another agent has found it out since the request: this reader takes calls of the format too.
        if self.known.has(&self.full_name) {
            self.text.reader(target, request)
        } else {
            self.text.wire.reader(target, request)
        }
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        let problem = self.text.wire.refusal(refused);
        if !takes_no_tools(refused) {
            return problem;
        }
        // Several agents may hear it at once; all of them ask again.
        self.known.note(&self.full_name);
        Problem { kind: ProblemKind::NoTools, ..problem }
    }
}

fn takes_no_tools(refused: &ErrorResponse<'_>) -> bool {
    let said = || String::from_utf8_lossy(refused.body).to_lowercase();
    NO_TOOLS_STATUSES.contains(&refused.status) && {
        // Quotes within JSON are written with a backslash.
        let said = said().replace('\\', "");
        NO_TOOLS.iter().any(|words| said.contains(words))
    }
}

/// Reads an answer in which calls are text.
struct TextReader {
    inner: Box<dyn ReplyReader>,
    listener: Listener,
}

impl ReplyReader for TextReader {
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem> {
        let Self { inner, listener } = self;
        inner.event(event, &mut |part| listener.show(part, show))
    }

    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let Self { inner, listener } = self;
        inner.whole(body, &mut |part| listener.show(part, show))
    }

    fn finish(self: Box<Self>) -> Result<Answer, Problem> {
        self.listener.calls_in(self.inner.finish()?)
    }
}

/// Finds the calls in what a model says.
pub(crate) struct Listener {
    turn: u32,
    form: Form,
    blocks: Blocks,
    /// Whether what streams in is JSON, which is not shown.
    constrained: bool,
}

impl Listener {
    fn new(request: &ModelRequest, form: Form) -> Self {
        let constrained = form == Form::Schema && !request.callable().is_empty();
        Self { turn: request.turn, form, blocks: Blocks::default(), constrained }
    }

    /// Shows the text around calls, and names the calls.
    pub(crate) fn show(&mut self, part: StreamPart, show: &mut dyn FnMut(StreamPart)) {
        let StreamPart::Text(text) = part else { return show(part) };
        if self.constrained {
            return show(StreamPart::Alive);
        }
        let mut shown = false;
        self.blocks.push(&text, &mut |piece| {
            shown = true;
            show(match piece {
                Piece::Text(text) => StreamPart::Text(text),
                Piece::Begun => StreamPart::Alive,
                Piece::Call(text) => match repair::calls(&text).into_iter().next() {
                    Some(call) => StreamPart::Tool(call.name),
                    None => StreamPart::Alive,
                },
            });
        });
        if !shown {
            show(StreamPart::Alive);
        }
    }

    /// The answer with the calls that its text has.
    pub(crate) fn calls_in(self, mut answer: Answer) -> Result<Answer, Problem> {
        let said = answer.reply.text.to_shared();
        let whole = answer.stop == StopReason::Done;
        let object = if self.form == Form::Schema { schema::read(&said) } else { None };
        let (text, calls) = object.unwrap_or_else(|| in_blocks(&said, whole));
        if calls.len() > MAX_CALLS {
            return Err(Problem::cut(format!("the answer has more than {MAX_CALLS} calls")));
        }
        // Ids say which turn and which call it was, so that a conversation has each only once.
        let calls = calls.into_iter().enumerate().map(|(at, call)| ToolCall {
            id: format!("text_{}_{}", self.turn, at + 1),
            name: call.name,
            input: call.input,
        });
        answer.reply.calls.extend(calls);
        // What the provider wrote has the blocks as text, and is written anew.
        answer.reply = Reply { text: text.into(), raw: None, calls: answer.reply.calls };
        Ok(answer)
    }
}

/// A request that tells of tools in text, and one who finds the calls in the answer: for formats that are none of ours.
pub(crate) fn as_text(request: &ModelRequest) -> (ModelRequest, Listener) {
    (prompt::without_tools(request, Form::Fenced), Listener::new(request, Form::Fenced))
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
struct WrittenCall {
    name: String,
    input: Value,
}

/// Text and calls of a whole answer. What was being written when the answer was cut is no call.
fn in_blocks(said: &str, whole: bool) -> (String, Vec<WrittenCall>) {
    let mut blocks = Blocks::default();
    let (mut text, mut calls, mut begun) = (String::new(), Vec::new(), false);
    let mut take = |piece| match piece {
        Piece::Text(part) => text.push_str(&part),
        Piece::Begun => begun = true,
        Piece::Call(body) => calls.extend(repair::calls(&body)),
    };
    blocks.push(said, &mut take);
    if let Some(open) = blocks.end(&mut take) {
        // A fence that a model forgot at the end does no harm if what it began is whole.
        let written = repair::calls(&open);
        let complete = written.iter().all(|call| call.input.is_object());
        if whole || complete {
            calls.extend(written);
        }
    }
    if !begun {
        return (said.to_owned(), Vec::new());
    }
    (text.trim().to_owned(), calls)
}
