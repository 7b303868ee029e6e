//! The formats in which providers answer, as recorded from their servers.

pub(super) mod lists;

mod chat;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::answer::{Call, CallOrder, MockReply, Refusal, Stop};
use super::request::{MockRequest, WireFormat};

/// Characters of text in one event. Providers send a token or a few.
const PIECE_CHARS: usize = 16;
/// The creation time in all answers. It is constant, so that answers are the same every time.
const CREATED: u64 = 1_750_000_000;

/// A stream: its bytes, and the end position of each event.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Frames {
    fn event(&mut self, name: &str, data: &Value) {
        self.bytes.extend_from_slice(b"event: ");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(b'\n');
        self.data(data);
    }

    fn data(&mut self, data: &Value) {
        self.bytes.extend_from_slice(b"data: ");
        // Writing to a vector cannot fail, and a value is always JSON.
        drop(serde_json::to_writer(&mut self.bytes, data));
        self.end();
    }

    /// Adds bytes unchanged.
    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    fn end(&mut self) {
        if !self.bytes.ends_with(b"\n\n") {
            self.bytes.extend_from_slice(b"\n\n");
        }
        self.ends.push(self.bytes.len());
    }
}

pub(super) fn stream(wire_format: WireFormat, asked: &MockRequest, say: &MockReply) -> Frames {
    match wire_format {
        WireFormat::Messages => messages::stream(asked, say),
        WireFormat::Responses => responses::stream(asked, say),
        WireFormat::Chat => chat::stream(asked, say),
    }
}

pub(super) fn whole(wire_format: WireFormat, asked: Option<&MockRequest>, say: &MockReply) -> Value {
    let (number, model) = asked.map_or((0, "mock"), |asked| (asked.number, asked.model.as_str()));
    match wire_format {
        WireFormat::Messages => messages::whole(number, model, say),
        WireFormat::Responses => responses::whole(number, model, say),
        WireFormat::Chat => chat::whole(number, model, say),
    }
}

pub(super) fn refusal(wire_format: WireFormat, refusal: &Refusal) -> Value {
    let message = message_of(wire_format, refusal);
    match wire_format {
        WireFormat::Messages => {
            json!({
                "type": "error",
                "error": {"type": kind_of(wire_format, refusal), "message": message},
                "request_id": "req_mock",
            })
        }
        WireFormat::Responses | WireFormat::Chat => {
            let kind = kind_of(wire_format, refusal);
            json!({"error": {"message": message, "type": kind, "param": null, "code": refusal.code}})
        }
    }
}

/// The error of a request that no reply source has seen.
pub(super) fn plain_error(wire_format: WireFormat, status: u16, message: &str) -> Value {
    refusal(wire_format, &Refusal::new(status, message))
}

/// An error as an event of a stream.
pub(super) fn error_event(wire_format: WireFormat, error: &Refusal) -> Vec<u8> {
    let mut frames = Frames::default();
    match wire_format {
        WireFormat::Messages => {
            let error =
                json!({"type": kind_of(wire_format, error), "message": message_of(wire_format, error)});
            frames.event("error", &json!({"type": "error", "error": error}));
        }
        WireFormat::Responses => {
            let (code, message) =
                (error.code.as_deref().unwrap_or("server_error"), message_of(wire_format, error));
            let event = json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 99});
            frames.event("error", &event);
        }
        WireFormat::Chat => frames.data(&refusal(wire_format, error)),
    }
    frames.bytes
}

/// A provider's event that keeps a connection alive.
pub(super) fn ping(wire_format: WireFormat) -> &'static str {
    match wire_format {
        WireFormat::Messages => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        WireFormat::Responses => "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":7}\n\n",
        WireFormat::Chat => ": PROCESSING\n\n",
    }
}

/// An event of text, for endless streams.
pub(super) fn filler(wire_format: WireFormat) -> Vec<u8> {
    let mut frames = Frames::default();
    let text = "more ".repeat(16);
    match wire_format {
        WireFormat::Messages => frames.event("content_block_delta", &messages::text_delta(0, &text)),
        WireFormat::Responses => frames.event("response.output_text.delta", &responses::text_delta(&text)),
        WireFormat::Chat => frames.data(&chat::text_chunk(&text)),
    }
    frames.bytes
}

/// A provider's message for an unknown key.
pub(super) fn wrong_key_text(wire_format: WireFormat) -> &'static str {
    match wire_format {
        WireFormat::Messages => "invalid x-api-key",
        WireFormat::Responses | WireFormat::Chat => {
            "Incorrect API key provided. You can find your API key at the provider's settings."
        }
    }
}

/// The provider's error kind for a status.
fn kind_of(wire_format: WireFormat, refusal: &Refusal) -> &str {
    if let Some(kind) = &refusal.kind {
        return kind;
    }
    match (wire_format, refusal.status) {
        (WireFormat::Messages, 401) => "authentication_error",
        (WireFormat::Messages, 403) => "permission_error",
        (WireFormat::Messages, 404) => "not_found_error",
        (WireFormat::Messages, 413) => "request_too_large",
        (WireFormat::Messages, 429) => "rate_limit_error",
        (WireFormat::Messages, 529) => "overloaded_error",
        (WireFormat::Messages, 500..) => "api_error",
        (_, 429) => "requests",
        (_, 500..) => "server_error",
        _ => "invalid_request_error",
    }
}

/// The message. An overflow has the provider's own words.
fn message_of(wire_format: WireFormat, refusal: &Refusal) -> String {
    let overflow = refusal.code.as_deref() == Some("context_length_exceeded") && refusal.message.is_empty();
    match wire_format {
        _ if !overflow => refusal.message.clone(),
        WireFormat::Messages => "prompt is too long: 213462 tokens > 200000 maximum".to_owned(),
        WireFormat::Responses => {
            "Your input exceeds the context window of this model. Please adjust your input and try again."
                .to_owned()
        }
        WireFormat::Chat => {
            "This model's maximum context length is 128000 tokens. However, your messages resulted in \
                          140321 tokens. Please reduce the length of the messages."
                .to_owned()
        }
    }
}

/// The pieces in which a text is streamed.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(PIECE_CHARS).map_or(rest.len(), |(at, _)| at);
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

/// The arguments of a call, as far as they are sent. In a reply that reached its limit, the last call is cut.
fn arguments<'a>(say: &MockReply, at: usize, call: &'a Call) -> &'a str {
    let cut = say.stop == Stop::Length && at + 1 == say.calls.len();
    let half = call.arguments.len() / 2;
    let half = (0..=half).rev().find(|at| call.arguments.is_char_boundary(*at)).unwrap_or(0);
    if cut { &call.arguments[..half] } else { &call.arguments }
}

/// The pieces of arguments in sending order, each with the index of its call.
fn woven<'a>(say: &'a MockReply) -> Vec<(usize, &'a str)> {
    let lists: Vec<Vec<&'a str>> =
        say.calls.iter().enumerate().map(|(at, call)| pieces(arguments(say, at, call))).collect();
    if say.weave != CallOrder::Interleaved {
        let one = |(at, list): (usize, Vec<&'a str>)| list.into_iter().map(move |piece| (at, piece));
        return lists.into_iter().enumerate().flat_map(one).collect();
    }
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let row = |place: usize| {
        let lists = &lists;
        (0..lists.len()).filter_map(move |at| Some((at, *lists[at].get(place)?)))
    };
    (0..longest).flat_map(row).collect()
}

/// The id of a call, derived from its position if it has none.
fn id_of(call: &Call, prefix: &str, number: u64, at: usize) -> String {
    if call.id.is_empty() { format!("{prefix}_mock_{number}_{at}") } else { call.id.clone() }
}
