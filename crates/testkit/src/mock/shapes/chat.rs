//! The answers of OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{CREATED, Frames, arguments, id_of, pieces, woven};
use crate::mock::answer::{Call, CallOrder, MockReply, Stop, Tokens};
use crate::mock::request::MockRequest;

fn usage(tokens: Option<Tokens>) -> Value {
    let Some(tokens) = tokens else { return Value::Null };
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write, "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

fn finish_reason(say: &MockReply) -> &'static str {
    match say.stop {
        Stop::Length => "length",
        Stop::Refused => "content_filter",
        Stop::Done if say.calls.is_empty() => "stop",
        Stop::Done => "tool_calls",
    }
}

pub(super) fn whole(number: u64, model: &str, say: &MockReply) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    if !say.text.is_empty() {
        message["content"] = say.text.as_str().into();
    }
    if let Some(thinking) = &say.thinking {
        message["reasoning_content"] = thinking.text.as_str().into();
    }
    if !say.calls.is_empty() {
        let call = |(at, call)| tool_call(number, at, call, arguments(say, at, call));
        message["tool_calls"] = say.calls.iter().enumerate().map(call).collect();
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(say)});
    let mut whole = json!({
        "id": format!("chatcmpl-mock-{number}"),
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [choice],
        "service_tier": "default",
        "system_fingerprint": null,
    });
    if say.tokens.is_some() {
        whole["usage"] = usage(say.tokens);
    }
    whole
}

fn tool_call(number: u64, at: usize, call: &Call, arguments: &str) -> Value {
    let function = json!({"name": call.name, "arguments": arguments});
    json!({"id": id_of(call, "call", number, at), "type": "function", "function": function})
}

struct Chunks<'a> {
    frames: Frames,
    number: u64,
    model: &'a str,
}

impl Chunks<'_> {
    fn delta(&mut self, delta: &Value, finish: Option<&str>) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        self.chunk(&json!([choice]), Value::Null);
    }

    fn chunk(&mut self, choices: &Value, usage: Value) {
        let mut chunk = chunk(self.number, self.model, choices);
        chunk["usage"] = usage;
        self.frames.data(&chunk);
    }
}

fn chunk(number: u64, model: &str, choices: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-mock-{number}"),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": null,
        "choices": choices,
    })
}

pub(super) fn text_chunk(text: &str) -> Value {
    let choice = json!({"index": 0, "delta": {"content": text}, "logprobs": null, "finish_reason": null});
    chunk(0, "mock", &json!([choice]))
}

pub(super) fn stream(asked: &MockRequest, say: &MockReply) -> Frames {
    let mut chunks = Chunks { frames: Frames::default(), number: asked.number, model: &asked.model };
    chunks.delta(&json!({"role": "assistant", "content": "", "refusal": null}), None);
    for piece in say.thinking.iter().flat_map(|thinking| pieces(&thinking.text)) {
        chunks.delta(&json!({"reasoning_content": piece}), None);
    }
    for piece in pieces(&say.text) {
        chunks.delta(&json!({"content": piece}), None);
    }
    let mut begun = vec![false; say.calls.len()];
    let open = |chunks: &mut Chunks<'_>, at: usize, begun: &mut [bool]| {
        if !std::mem::replace(&mut begun[at], true) {
            let mut call = tool_call(asked.number, at, &say.calls[at], "");
            call["index"] = at.into();
            chunks.delta(&json!({"tool_calls": [call]}), None);
        }
    };
    if say.weave == CallOrder::Interleaved {
        for at in 0..say.calls.len() {
            open(&mut chunks, at, &mut begun);
        }
    }
    for (at, piece) in woven(say) {
        open(&mut chunks, at, &mut begun);
        let mut call = json!({"index": at, "function": {"arguments": piece}});
        if say.weave == CallOrder::Repeated {
            call = tool_call(asked.number, at, &say.calls[at], piece);
            call["index"] = at.into();
        }
        chunks.delta(&json!({"tool_calls": [call]}), None);
    }
    // A call without arguments is begun all the same.
    for at in 0..say.calls.len() {
        open(&mut chunks, at, &mut begun);
    }
    chunks.delta(&json!({}), Some(finish_reason(say)));
    if asked.stream_usage && say.tokens.is_some() {
        chunks.chunk(&json!([]), usage(say.tokens));
    }
    chunks.frames.raw("data: [DONE]\n\n");
    chunks.frames
}
