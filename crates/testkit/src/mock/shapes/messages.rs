//! The answers of Anthropic Messages.

use serde_json::{Value, json};

use super::{Frames, arguments, id_of, pieces, woven};
use crate::mock::answer::{CallOrder, MockReply, Stop, Tokens};
use crate::mock::request::MockRequest;

/// Token counts of this format: its input excludes tokens that were read from or written to the cache.
fn usage(tokens: Option<Tokens>, output: u64) -> Value {
    let tokens = tokens.unwrap_or(Tokens::new(0, 0));
    let fresh = tokens.input.saturating_sub(tokens.cached).saturating_sub(tokens.cache_write);
    json!({
        "input_tokens": fresh,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    })
}

fn stop_reason(say: &MockReply) -> &'static str {
    match say.stop {
        Stop::Length => "max_tokens",
        Stop::Refused => "refusal",
        Stop::Done if say.calls.is_empty() => "end_turn",
        Stop::Done => "tool_use",
    }
}

fn message(number: u64, model: &str, content: &[Value], stop: Option<&str>, usage: &Value) -> Value {
    json!({
        "id": format!("msg_mock_{number}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": usage,
    })
}

pub(super) fn whole(number: u64, model: &str, say: &MockReply) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &say.thinking {
        content.push(json!({"type": "thinking", "thinking": thinking.text, "signature": thinking.signature}));
    }
    if !say.text.is_empty() {
        content.push(json!({"type": "text", "text": say.text}));
    }
    for (at, call) in say.calls.iter().enumerate() {
        let input: Value = serde_json::from_str(arguments(say, at, call)).unwrap_or(json!({}));
        let id = id_of(call, "toolu", number, at);
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    let output = say.tokens.map_or(0, |tokens| tokens.output);
    message(number, model, &content, Some(stop_reason(say)), &usage(say.tokens, output))
}

pub(super) fn text_delta(index: usize, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}})
}

pub(super) fn stream(asked: &MockRequest, say: &MockReply) -> Frames {
    let mut frames = Frames::default();
    // The first event counts only the output so far.
    let begun = message(asked.number, &asked.model, &[], None, &usage(say.tokens, 1));
    frames.event("message_start", &json!({"type": "message_start", "message": begun}));
    let mut index = 0;
    if let Some(thinking) = &say.thinking {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        start(&mut frames, index, &block);
        for piece in pieces(&thinking.text) {
            delta(&mut frames, index, &json!({"type": "thinking_delta", "thinking": piece}));
        }
        delta(&mut frames, index, &json!({"type": "signature_delta", "signature": thinking.signature}));
        stop(&mut frames, index);
        index += 1;
    }
    if !say.text.is_empty() {
        start(&mut frames, index, &json!({"type": "text", "text": ""}));
        frames.event("ping", &json!({"type": "ping"}));
        for piece in pieces(&say.text) {
            frames.event("content_block_delta", &text_delta(index, piece));
        }
        stop(&mut frames, index);
        index += 1;
    }
    calls(&mut frames, asked, say, index);
    let output = say.tokens.map_or(0, |tokens| tokens.output);
    let mut usage = json!({"output_tokens": output});
    if let Some(tokens) = say.tokens.filter(|tokens| tokens.reasoning > 0) {
        usage["output_tokens_details"] = json!({"thinking_tokens": tokens.reasoning});
    }
    let delta = json!({"stop_reason": stop_reason(say), "stop_sequence": null});
    frames.event("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage}));
    frames.event("message_stop", &json!({"type": "message_stop"}));
    frames
}

fn calls(frames: &mut Frames, asked: &MockRequest, say: &MockReply, first: usize) {
    let open = |frames: &mut Frames, at: usize| {
        let call = &say.calls[at];
        let id = id_of(call, "toolu", asked.number, at);
        start(frames, first + at, &json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
        delta(frames, first + at, &json!({"type": "input_json_delta", "partial_json": ""}));
    };
    let piece = |frames: &mut Frames, at: usize, piece: &str| {
        delta(frames, first + at, &json!({"type": "input_json_delta", "partial_json": piece}));
    };
    if say.weave == CallOrder::Interleaved {
        for at in 0..say.calls.len() {
            open(frames, at);
        }
        for (at, text) in woven(say) {
            piece(frames, at, text);
        }
        for at in 0..say.calls.len() {
            stop(frames, first + at);
        }
        return;
    }
    for at in 0..say.calls.len() {
        open(frames, at);
        for text in pieces(arguments(say, at, &say.calls[at])) {
            piece(frames, at, text);
        }
        stop(frames, first + at);
        if say.weave == CallOrder::Repeated {
            stop(frames, first + at);
        }
    }
}

fn start(frames: &mut Frames, index: usize, block: &Value) {
    let event = json!({"type": "content_block_start", "index": index, "content_block": block});
    frames.event("content_block_start", &event);
}

fn delta(frames: &mut Frames, index: usize, delta: &Value) {
    frames.event(
        "content_block_delta",
        &json!({"type": "content_block_delta", "index": index, "delta": delta}),
    );
}

fn stop(frames: &mut Frames, index: usize) {
    frames.event("content_block_stop", &json!({"type": "content_block_stop", "index": index}));
}
