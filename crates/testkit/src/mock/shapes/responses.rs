//! The answers of OpenAI Responses.

use serde_json::{Value, json};

use super::{CREATED, Frames, arguments, id_of, pieces, woven};
use crate::mock::answer::{Call, CallOrder, MockReply, Stop, Thinking, Tokens};
use crate::mock::request::MockRequest;

fn usage(tokens: Option<Tokens>) -> Value {
    let Some(tokens) = tokens else { return Value::Null };
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    })
}

fn status(say: &MockReply) -> &'static str {
    if say.stop == Stop::Done { "completed" } else { "incomplete" }
}

fn response(number: u64, model: &str, status: &str, output: &[Value], usage: &Value) -> Value {
    json!({
        "id": format!("resp_mock_{number}"),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "model": model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "service_tier": "default",
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
        "metadata": {},
    })
}

fn ended(number: u64, model: &str, say: &MockReply) -> Value {
    let output: Vec<Value> = items(number, say).into_iter().map(|item| item.done).collect();
    let mut response = response(number, model, status(say), &output, &usage(say.tokens));
    let reason = match say.stop {
        Stop::Done => return response,
        Stop::Length => "max_output_tokens",
        Stop::Refused => "content_filter",
    };
    response["incomplete_details"] = json!({"reason": reason});
    response
}

pub(super) fn whole(number: u64, model: &str, say: &MockReply) -> Value {
    ended(number, model, say)
}

/// One entry of the output, at its beginning and at its end.
struct Item<'a> {
    id: String,
    begun: Value,
    done: Value,
    of: ItemType<'a>,
}

enum ItemType<'a> {
    Thinking(&'a Thinking),
    Text(&'a str),
    Call(usize),
}

fn items(number: u64, say: &MockReply) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    if let Some(thinking) = &say.thinking {
        let id = format!("rs_mock_{number}");
        let summary = json!([{"type": "summary_text", "text": thinking.text}]);
        items.push(Item {
            begun: json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": ""}),
            done: json!({
                "id": id, "type": "reasoning", "summary": summary, "encrypted_content": thinking.signature,
            }),
            id,
            of: ItemType::Thinking(thinking),
        });
    }
    if !say.text.is_empty() {
        let id = format!("msg_mock_{number}");
        let part = json!({"type": "output_text", "text": say.text, "annotations": [], "logprobs": []});
        let item = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
        let (begun, done) = (item("in_progress", json!([])), item("completed", json!([part])));
        items.push(Item { id, begun, done, of: ItemType::Text(&say.text) });
    }
    for (at, call) in say.calls.iter().enumerate() {
        let id = format!("fc_mock_{number}_{at}");
        let cut = say.stop == Stop::Length && at + 1 == say.calls.len();
        let done = if cut { "incomplete" } else { "completed" };
        items.push(Item {
            begun: function_call(&id, number, at, call, "in_progress", ""),
            done: function_call(&id, number, at, call, done, arguments(say, at, call)),
            id,
            of: ItemType::Call(at),
        });
    }
    items
}

fn function_call(id: &str, number: u64, at: usize, call: &Call, status: &str, arguments: &str) -> Value {
    json!({
        "id": id,
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": id_of(call, "call", number, at),
        "name": call.name,
    })
}

pub(super) fn text_delta(text: &str) -> Value {
    json!({
        "type": "response.output_text.delta", "sequence_number": 7, "item_id": "msg_mock", "output_index": 0,
        "content_index": 0, "delta": text, "logprobs": [],
    })
}

/// A stream whose events are numbered.
#[derive(Default)]
struct NumberedStream {
    frames: Frames,
    next: u64,
}

impl NumberedStream {
    fn event(&mut self, kind: &str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.next.into();
        self.next += 1;
        self.frames.event(kind, &event);
    }
}

pub(super) fn stream(asked: &MockRequest, say: &MockReply) -> Frames {
    let mut out = NumberedStream::default();
    let begun = response(asked.number, &asked.model, "in_progress", &[], &Value::Null);
    out.event("response.created", json!({"response": begun}));
    out.event("response.in_progress", json!({"response": begun}));
    let items = items(asked.number, say);
    let mut calls = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match &item.of {
            ItemType::Thinking(thinking) => {
                added(&mut out, index, item);
                summary(&mut out, index, item, thinking);
                done(&mut out, index, item);
            }
            ItemType::Text(text) => {
                added(&mut out, index, item);
                message(&mut out, index, item, text);
                done(&mut out, index, item);
            }
            ItemType::Call(at) => calls.push((index, item, arguments(say, *at, &say.calls[*at]))),
        }
    }
    function_calls(&mut out, say, &calls);
    let ended = ended(asked.number, &asked.model, say);
    let kind = if say.stop == Stop::Done { "response.completed" } else { "response.incomplete" };
    out.event(kind, json!({"response": ended}));
    out.frames
}

fn added(out: &mut NumberedStream, index: usize, item: &Item<'_>) {
    out.event("response.output_item.added", json!({"output_index": index, "item": item.begun}));
}

fn done(out: &mut NumberedStream, index: usize, item: &Item<'_>) {
    out.event("response.output_item.done", json!({"output_index": index, "item": item.done}));
}

fn summary(out: &mut NumberedStream, index: usize, item: &Item<'_>, thinking: &Thinking) {
    let at = |more: Value| {
        let mut event = more;
        event["item_id"] = item.id.as_str().into();
        event["output_index"] = index.into();
        event["summary_index"] = 0.into();
        event
    };
    let empty = json!({"type": "summary_text", "text": ""});
    out.event("response.reasoning_summary_part.added", at(json!({"part": empty})));
    for piece in pieces(&thinking.text) {
        out.event("response.reasoning_summary_text.delta", at(json!({"delta": piece})));
    }
    out.event("response.reasoning_summary_text.done", at(json!({"text": thinking.text})));
    let part = json!({"type": "summary_text", "text": thinking.text});
    out.event("response.reasoning_summary_part.done", at(json!({"part": part})));
}

fn message(out: &mut NumberedStream, index: usize, item: &Item<'_>, text: &str) {
    let at = |more: Value| {
        let mut event = more;
        event["item_id"] = item.id.as_str().into();
        event["output_index"] = index.into();
        event["content_index"] = 0.into();
        event
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    out.event("response.content_part.added", at(json!({"part": part("")})));
    for piece in pieces(text) {
        out.event("response.output_text.delta", at(json!({"delta": piece, "logprobs": []})));
    }
    out.event("response.output_text.done", at(json!({"text": text, "logprobs": []})));
    out.event("response.content_part.done", at(json!({"part": part(text)})));
}

fn function_calls(out: &mut NumberedStream, say: &MockReply, calls: &[(usize, &Item<'_>, &str)]) {
    let piece = |out: &mut NumberedStream, (index, item, _): &(usize, &Item<'_>, &str), text: &str| {
        let event = json!({"item_id": item.id, "output_index": index, "delta": text});
        out.event("response.function_call_arguments.delta", event);
    };
    let close = |out: &mut NumberedStream, (index, item, arguments): &(usize, &Item<'_>, &str)| {
        let event = json!({"item_id": item.id, "output_index": index, "arguments": arguments});
        // A call that was cut off gets no such event.
        if item.done["status"] == "completed" {
            out.event("response.function_call_arguments.done", event);
        }
        done(out, *index, item);
    };
    if say.weave == CallOrder::Interleaved {
        for (index, item, _) in calls {
            added(out, *index, item);
        }
        for (at, text) in woven(say) {
            piece(out, &calls[at], text);
        }
        for call in calls {
            close(out, call);
        }
        return;
    }
    for call in calls {
        added(out, call.0, call.1);
        for text in pieces(call.2) {
            piece(out, call, text);
        }
        close(out, call);
        if say.weave == CallOrder::Repeated {
            close(out, call);
        }
    }
}
