//! Reads the answer: chunks of text, thinking and calls.

use std::sync::Arc;
use std::time::SystemTime;

use posse_domain::budget::Usage;
use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_engine::ports::StreamPart;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::ServerQuirks;
use super::chunk::{CallDelta, Choice, Chunk, Delta};
use crate::wire::text::{Str, arguments, as_object, is_whole_object};
use crate::wire::{
    Answer, BufferedValues, ErrorResponse, Flow, MAX_ARGUMENT_BYTES, MAX_CALLS, Problem, ReplyReader,
    StopReason, StreamEvent, Target, short,
};

const DONE: &str = "[DONE]";

pub(super) struct Reader {
    quirks: ServerQuirks,
    full_name: String,
    begun: bool,
    text: String,
    thinking: String,
    details: Vec<Value>,
    kept: BufferedValues,
    refusal: String,
    calls: Vec<Call>,
    argument_bytes: usize,
    stop: Option<StopReason>,
    usage: Option<Usage>,
}

/// One call, as far as it has arrived.
#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

impl Reader {
    pub(super) fn new(quirks: ServerQuirks, target: &Target) -> Self {
        Self {
            quirks,
            full_name: target.full_name.clone(),
            begun: false,
            text: String::new(),
            thinking: String::new(),
            details: Vec::new(),
            kept: BufferedValues::default(),
            refusal: String::new(),
            calls: Vec::new(),
            argument_bytes: 0,
            stop: None,
            usage: None,
        }
    }

    fn take(
        &mut self,
        data: &str,
        named_error: bool,
        show: &mut dyn FnMut(StreamPart),
    ) -> Result<(), Problem> {
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) if named_error => return Err(self.error(data)),
            Err(error) => return Err(Problem::cut(format!("an event of the answer is malformed: {error}"))),
        };
        let object_error = chunk.object.is_some_and(|object| object.0 == "error");
        if named_error || object_error || chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(self.error(data));
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let usage = chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage));
        if let Some(usage) = usage.and_then(|usage| usage.usage()) {
            self.usage = Some(usage);
        }
        let mut shown = false;
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.choose(choice, &mut |part| {
                shown = true;
                show(part);
            })?;
        }
        // The first chunk shows that an answer has begun. A later empty chunk is a ping.
        if first && !shown {
            show(StreamPart::Alive);
        }
        Ok(())
    }

    fn choose(&mut self, choice: Choice<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.write(delta, show)?;
        }
        let Some(Str(reason)) = choice.finish_reason else { return Ok(()) };
        self.stop = Some(match &*reason {
            "" => return Ok(()),
            "length" | "max_tokens" | "model_length" => StopReason::Length,
            "content_filter" | "safety" | "sensitive" | "recitation" => {
                StopReason::Refused(reason.into_owned())
            }
            "error"
            | "insufficient_system_resource"
            | "network_error"
            | "abort"
            | "aborted"
            | "cancelled"
            | "timeout" => {
                return Err(Problem::cut(format!("the provider broke the answer off: {reason}")));
            }
            _ => StopReason::Done,
        });
        Ok(())
    }

    fn write(&mut self, delta: Delta<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        // One server sends both fields with the same content.
        if let Some(Str(thinking)) = delta.reasoning_content.or(delta.reasoning) {
            self.think(&thinking, show);
        }
        for detail in delta.reasoning_details.into_iter().flatten() {
            keep(&mut self.details, &mut self.kept, detail)?;
        }
        if let Some(content) = delta.content {
            self.think(&content.thinking, show);
            if !content.text.is_empty() {
                self.text.push_str(&content.text);
                show(StreamPart::Text(content.text.into_owned()));
            }
        }
        if let Some(Str(refusal)) = delta.refusal {
            self.refusal.push_str(&refusal);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.write_call(call, show)?;
        }
        Ok(())
    }

    fn think(&mut self, thinking: &str, show: &mut dyn FnMut(StreamPart)) {
        if !thinking.is_empty() {
            self.thinking.push_str(thinking);
            show(StreamPart::Thinking(thinking.to_owned()));
        }
    }

    fn write_call(&mut self, delta: CallDelta<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let id = delta.id.map(|id| id.0).unwrap_or_default();
        let name = delta.function.as_ref().and_then(|function| function.name.as_ref());
        let name = name.map(|name| &*name.0).unwrap_or_default();
        let at = self.find_call(delta.index, &id, name);
        let at = if let Some(at) = at {
            at
        } else {
            if self.calls.len() >= MAX_CALLS {
                return Err(Problem::cut(format!("the answer has more than {MAX_CALLS} calls")));
            }
            self.calls.push(Call { index: delta.index, ..Call::default() });
            self.calls.len() - 1
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id.push_str(&id);
        }
        if call.name.is_empty() && !name.is_empty() {
            call.name.push_str(name);
            show(StreamPart::Tool(name.to_owned()));
        }
        if let Some(extra) = delta.extra_content {
            self.kept.value(&extra)?;
            call.extra = Some(extra);
        }
        if let Some(piece) = delta.function.and_then(|function| function.arguments())
            // Some servers repeat the whole arguments at the end.
            && !(call.arguments == piece && is_whole_object(&piece))
        {
            self.argument_bytes += piece.len();
            if self.argument_bytes > MAX_ARGUMENT_BYTES {
                return Err(Problem::cut(format!(
                    "the arguments of its calls are longer than {MAX_ARGUMENT_BYTES} bytes"
                )));
            }
            call.arguments.push_str(&piece);
        }
        show(StreamPart::Alive);
        Ok(())
    }

    /// The call that a piece belongs to, or `None` if it begins a new call. The index decides, but some servers send
    /// none, and some send the same for all calls. A different id together with a name begins a new call. A piece with
    /// neither belongs to the last call.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let begins = |call: &Call| !id.is_empty() && !call.id.is_empty() && call.id != id && !name.is_empty();
        match index {
            Some(_) => {
                let found = self.calls.iter().rposition(|call| call.index == index)?;
                if !begins(&self.calls[found]) {
                    return Some(found);
                }
                self.calls.iter().rposition(|call| call.index == index && call.id == id)
            }
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    /// The problem of an error within the answer. When the answer has begun, its cost is unknown.
    fn error(&self, data: &str) -> Problem {
        let usage = if self.begun { None } else { Some(Usage::ZERO) };
        let json: Value = serde_json::from_str(data).unwrap_or_default();
        let headers = HeaderMap::new();
        let status = status_of(json.get("error").unwrap_or(&json));
        let refused =
            ErrorResponse { status, headers: &headers, body: data.as_bytes(), now: SystemTime::UNIX_EPOCH };
        Problem { usage, ..refused.problem() }
    }
}

/// The status that corresponds to an error in a stream.
fn status_of(error: &Value) -> u16 {
    let numbers = ["code", "status", "status_code"].map(|field| {
        let value = error.get(field)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    });
    if let Some(status) = numbers.into_iter().flatten().find(|number| (400..600).contains(number)) {
        return u16::try_from(status).unwrap_or(500);
    }
    let words = ["type", "code"].map(|field| error.get(field).and_then(Value::as_str).unwrap_or(""));
    let has = |part: &str| words.iter().any(|word| word.to_lowercase().contains(part));
    match () {
        () if has("rate_limit") || has("quota") || has("too_many") => 429,
        () if has("auth") || has("api_key") => 401,
        () if has("invalid") || has("badrequest") || has("context") => 400,
        () => 500,
    }
}

impl ReplyReader for Reader {
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(Flow::End);
        }
        if !data.is_empty() {
            self.take(data, event.event == "error", show)?;
        }
        Ok(Flow::On)
    }

    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        self.take(&String::from_utf8_lossy(body), false, show)
    }

    fn finish(mut self: Box<Self>) -> Result<Answer, Problem> {
        let Some(stop) = self.stop.take() else {
            return Err(Problem::cut("the answer ended before its end"));
        };
        if stop == StopReason::Length {
            self.calls.retain(|call| is_whole_object(&call.arguments));
        }
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(Problem::cut("the answer calls a tool without a name"));
        }
        for (at, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
            call.id = format!("call_{}", at + 1);
        }
        let refused = !self.refusal.is_empty() && self.calls.is_empty();
        let stop = if refused { StopReason::Refused(short(&self.refusal)) } else { stop };
        let raw = self.raw();
        let calls = self.calls.into_iter().map(|call| ToolCall {
            input: arguments(&call.arguments),
            id: call.id,
            name: call.name,
        });
        let reply = Reply { text: self.text.into(), calls: calls.collect(), raw };
        Ok(Answer { reply, usage: self.usage, stop })
    }
}

impl Reader {
    /// The message as the provider expects it in later requests, if text and calls are not sufficient.
    fn raw(&self) -> Option<Arc<RawReply>> {
        let thinking = self.quirks.thinking_back && !self.thinking.is_empty();
        let extra = self.calls.iter().any(|call| call.extra.is_some());
        if (!thinking && !extra && self.details.is_empty())
            || (self.text.trim().is_empty() && self.calls.is_empty())
        {
            return None;
        }
        let content = if self.text.trim().is_empty() { Value::Null } else { self.text.as_str().into() };
        let mut message = json!({ "role": "assistant", "content": content });
        if thinking {
            message["reasoning_content"] = self.thinking.as_str().into();
        }
        if !self.details.is_empty() {
            message["reasoning_details"] = Value::Array(self.details.clone());
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(Call::raw).collect();
        }
        Some(Arc::new(RawReply { model: self.full_name.clone(), content: message }))
    }
}

impl Call {
    fn raw(&self) -> Value {
        let arguments = as_object(&arguments(&self.arguments)).to_string();
        let function = json!({ "name": self.name, "arguments": arguments });
        let mut call = json!({ "id": self.id, "type": "function", "function": function });
        if let Some(extra) = &self.extra {
            call["extra_content"] = extra.clone();
        }
        call
    }
}

/// Keeps a piece of thinking. Consecutive pieces with the same type, index and id are joined.
fn keep(details: &mut Vec<Value>, kept: &mut BufferedValues, detail: Value) -> Result<(), Problem> {
    let same =
        |other: &Value| ["type", "index", "id"].iter().all(|field| other.get(field) == detail.get(field));
    match (details.last_mut().filter(|last| same(last)), detail) {
        (Some(Value::Object(last)), Value::Object(detail)) => {
            for (field, value) in detail {
                match (last.get_mut(&field), value) {
                    (Some(Value::String(text)), Value::String(more))
                        if matches!(field.as_str(), "text" | "summary" | "data" | "signature") =>
                    {
                        text.push_str(&more);
                    }
                    (Some(Value::Null) | None, value) => {
                        kept.value(&value)?;
                        last.insert(field, value);
                    }
                    _ => {}
                }
            }
        }
        (_, detail) => {
            kept.value(&detail)?;
            details.push(detail);
        }
    }
    Ok(())
}
