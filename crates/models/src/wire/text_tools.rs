//! Tools for models without native tool calls: the prompt describes the tools, and a call is JSON in the answer.
//!
//! A call is a fenced block with a mark:
//!
//! ````text
//! ```tool_call
//! {"name": "read", "arguments": {"path": "src/main.rs"}}
//! ```
//! ````
//!
//! Only such a block, or the tags that many open models were trained with, is a call. JSON in prose or in another kind
//! of block is text, and so is a marked block within another block. If the server can enforce a schema, the whole
//! answer is one JSON object with text and calls. Results are sent as user text.

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

/// Phrases of providers for a model without tools.
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
/// Statuses that accompany these phrases. A server without any tool support may report it as its own error.
const NO_TOOLS_STATUSES: [u16; 5] = [400, 404, 422, 500, 501];

/// How the model writes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a marked block.
    Fenced,
    /// As the whole answer, for which the server enforces a schema.
    Schema,
}

impl Form {
    /// The form for an endpoint. Servers that can enforce a schema are known by name.
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.provider.as_str() {
            "ollama" | "llamacpp" => Form::Schema,
            _ => Form::Fenced,
        }
    }
}

/// A format for one model of an endpoint, with the kind of tool calls that the endpoint is set to.
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
        // A report has no tools, so no schema is enforced.
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

/// A format that detects whether a model has tool calls, once for the process.
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
        // Another agent may have detected it since the request. This reader accepts native calls too.
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
        // Several agents may get this refusal at once. All of them retry.
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

/// Finds the calls in the text of a model.
pub(crate) struct Listener {
    turn: u32,
    form: Form,
    blocks: Blocks,
    /// Whether the streamed text is JSON, which is not shown.
    constrained: bool,
}

impl Listener {
    fn new(request: &ModelRequest, form: Form) -> Self {
        let constrained = form == Form::Schema && !request.callable().is_empty();
        Self { turn: request.turn, form, blocks: Blocks::default(), constrained }
    }

    /// Shows the text around calls, and the names of the calls.
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

    /// The answer with the calls that its text contains.
    pub(crate) fn calls_in(self, mut answer: Answer) -> Result<Answer, Problem> {
        let said = answer.reply.text.to_shared();
        let whole = answer.stop == StopReason::Done;
        let object = if self.form == Form::Schema { schema::read(&said) } else { None };
        let (text, calls) = object.unwrap_or_else(|| in_blocks(&said, whole));
        if calls.len() > MAX_CALLS {
            return Err(Problem::cut(format!("the answer has more than {MAX_CALLS} calls")));
        }
        // Ids contain the turn and the number of the call, so that each is unique in a conversation.
        let calls = calls.into_iter().enumerate().map(|(at, call)| ToolCall {
            id: format!("text_{}_{}", self.turn, at + 1),
            name: call.name,
            input: call.input,
        });
        answer.reply.calls.extend(calls);
        // The provider's raw content has the blocks as text, so it is not reused.
        answer.reply = Reply { text: text.into(), raw: None, calls: answer.reply.calls };
        Ok(answer)
    }
}

#[derive(Debug, Clone, PartialEq)]
struct WrittenCall {
    name: String,
    input: Value,
}

/// Text and calls of a whole answer. A call that was incomplete when the answer was cut is not a call.
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
        // A missing fence at the end does no harm if the call is complete.
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
