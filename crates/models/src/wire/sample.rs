//! Values shared by the tests of text tool calls and of Responses, beyond [`super::fixture`].

use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::Purpose;
use posse_engine::ports::{ModelRequest, StreamPart};
use serde_json::json;

pub(crate) use super::fixture::{assistant, body};
use super::{Answer, Flow, ModelFeatures, Problem, StreamEvent, Target, ToolLists, Wire};

/// A model with all features.
pub(crate) fn target() -> Target {
    Target {
        full_name: "openai/gpt-test".into(),
        model: "gpt-test".into(),
        abilities: ModelFeatures { images: true, sampling: true },
        tool_lists: ToolLists::default(),
    }
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = ToolSpec {
        name: "read".into(),
        description: "Reads a file.\n\n- Read it whole.".into(),
        input_schema: json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}),
    };
    ModelRequest {
        agent: "k3f9ab2c".parse().expect("id"),
        definition: "general".into(),
        depth: 0,
        attempt: 1,
        turn: 3,
        call: 1,
        hash: posse_domain::hash::Hash::ZERO,
        purpose: Purpose::Work,
        system: "You are careful.".into(),
        tools: Arc::new([Arc::new(tool)]),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: 4096,
        temperature: Some(0.5),
        top_p: None,
        tags: Arc::default(),
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(text.into())
}

pub(crate) fn result(call_id: &str, tool: &str, ok: bool, text: &str) -> CallResult {
    CallResult { call_id: call_id.into(), tool: tool.into(), ok, text: text.into(), images: Vec::new() }
}

/// Reads a recorded stream, which may be cut anywhere, and also returns the shown parts.
pub(crate) fn read(
    wire: &impl Wire,
    request: &ModelRequest,
    stream: &[u8],
) -> (Result<Answer, Problem>, Vec<StreamPart>) {
    let mut shown = Vec::new();
    let mut reader = wire.reader(&target(), request);
    // The part after the last empty line is not a complete event.
    let whole = stream.windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |at| at + 2);
    let text = str::from_utf8(&stream[..whole]).expect("UTF-8");
    for block in text.split_terminator("\n\n") {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let event = StreamEvent { event: field("event: "), data: field("data: ") };
        match reader.event(event, &mut |part| shown.push(part)) {
            Ok(Flow::On) => {}
            Ok(Flow::End) => break,
            Err(problem) => return (Err(problem), shown),
        }
    }
    (reader.finish(), shown)
}

pub(crate) fn shown_text(shown: &[StreamPart]) -> String {
    let text = |part: &StreamPart| match part {
        StreamPart::Text(text) => Some(text.clone()),
        _ => None,
    };
    shown.iter().filter_map(text).collect()
}
