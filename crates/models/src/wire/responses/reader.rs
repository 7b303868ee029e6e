//! Builds a reply from the events of a stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use posse_domain::budget::Usage;
use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_engine::ports::StreamPart;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::wire::text::arguments;
use crate::wire::{
    Answer, BufferedValues, ErrorResponse, Flow, Problem, ProblemKind, ReplyReader, StopReason, StreamEvent,
    Target,
};

/// Limit of items in one answer. A normal answer has a handful.
const ITEMS_MAX: usize = 4_096;

pub(super) struct Reader {
    model: String,
    /// The items so far, by their position in the answer.
    items: BTreeMap<u64, Item>,
    kept: BufferedValues,
    end: Option<End>,
}

#[derive(Default)]
struct Item {
    is_call: bool,
    /// Text that was streamed.
    text: String,
    /// The item, when it is complete.
    done: Option<Value>,
}

/// How an answer ended, and its usage.
struct End {
    stop: Stop,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Completed,
    Length,
    Filtered,
}

/// The fields that are read of an event. Absent fields are null or empty.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    delta: Value,
    #[serde(default)]
    item: Value,
    #[serde(default)]
    response: Value,
}

impl Reader {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            model: target.full_name.clone(),
            items: BTreeMap::new(),
            kept: BufferedValues::default(),
            end: None,
        }
    }

    fn item(&mut self, at: u64) -> Result<&mut Item, Problem> {
        if self.items.len() >= ITEMS_MAX && !self.items.contains_key(&at) {
            return Err(Problem::cut(format!("the answer has more than {ITEMS_MAX} items")));
        }
        Ok(self.items.entry(at).or_default())
    }

    fn text(&mut self, event: &Event, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let item = self.item(event.output_index)?;
        match event.delta.as_str().filter(|delta| !delta.is_empty()) {
            Some(delta) => {
                item.text.push_str(delta);
                show(StreamPart::Text(delta.to_owned()));
            }
            None => show(StreamPart::Alive),
        }
        Ok(())
    }

    fn item_added(&mut self, event: &Event, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let item = self.item(event.output_index)?;
        item.is_call = kind(&event.item) == "function_call";
        show(if item.is_call { StreamPart::Tool(text_of(&event.item, "name")) } else { StreamPart::Alive });
        Ok(())
    }

    fn item_done(&mut self, event: Event, show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        self.kept.value(&event.item)?;
        let item = self.item(event.output_index)?;
        let text = message_text(&event.item).0;
        // Some servers do not stream short texts.
        show(if item.text.is_empty() && !text.is_empty() {
            StreamPart::Text(text)
        } else {
            StreamPart::Alive
        });
        item.done = Some(event.item);
        Ok(())
    }

    fn ended(&mut self, mut response: Value, completed: bool) -> Result<(), Problem> {
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let stop = match reason {
            Some("content_filter") => Stop::Filtered,
            Some(_) => Stop::Length,
            None if !completed || response["status"] == "incomplete" => Stop::Length,
            None => Stop::Completed,
        };
        let usage = usage(&response["usage"]);
        // The final event contains everything that was not streamed.
        if let Value::Array(output) = response["output"].take() {
            for (at, whole) in (0..).zip(output) {
                let item = self.item(at)?;
                item.done.get_or_insert(whole);
            }
        }
        self.end = Some(End { stop, usage });
        Ok(())
    }
}

impl ReplyReader for Reader {
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem> {
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::On);
        }
        let mut read: Event = serde_json::from_str(event.data)
            .map_err(|error| Problem::cut(format!("an event of the stream cannot be read: {error}")))?;
        if read.r#type.is_empty() {
            event.event.clone_into(&mut read.r#type);
        }
        match read.r#type.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => self.text(&read, show)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                show(StreamPart::Thinking(read.delta.as_str().unwrap_or_default().to_owned()));
            }
            "response.output_item.added" => self.item_added(&read, show)?,
            "response.output_item.done" => self.item_done(read, show)?,
            "response.completed" => {
                self.ended(read.response, true)?;
                return Ok(Flow::End);
            }
            "response.incomplete" => {
                self.ended(read.response, false)?;
                return Ok(Flow::End);
            }
            "response.failed" => return Err(failed(&read.response)),
            "error" => {
                let event: Value = serde_json::from_str(event.data).unwrap_or_default();
                return Err(problem(event.get("error").unwrap_or(&event), None));
            }
            known if known.starts_with("response.") => show(StreamPart::Alive),
            // A ping of some kind.
            _ => {}
        }
        Ok(Flow::On)
    }

    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let response: Value = serde_json::from_slice(body)
            .map_err(|error| Problem::cut(format!("the answer cannot be read: {error}")))?;
        if response["status"] == "failed" || response["error"].is_object() {
            return Err(failed(&response));
        }
        if !response["output"].is_array() {
            let message = "the answer is not one of the Responses API; is the base URL right?";
            return Err(Problem { usage: None, ..Problem::free(ProblemKind::Foreign, message) });
        }
        self.ended(response, true)?;
        for item in self.items.values() {
            let text = item.done.as_ref().map(|item| message_text(item).0).unwrap_or_default();
            if !text.is_empty() {
                show(StreamPart::Text(text));
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Answer, Problem> {
        let Some(End { stop, usage }) = self.end else {
            return Err(Problem::cut("the stream ended before the answer was complete"));
        };
        let mut reply = Reply { text: "".into(), calls: Vec::new(), raw: None };
        let (mut text, mut refused) = (String::new(), None);
        for item in self.items.values() {
            match &item.done {
                Some(done) if kind(done) == "function_call" => {
                    // A call that was incomplete when the answer was cut is not a call.
                    reply
                        .calls
                        .extend(call(done).filter(|call| stop == Stop::Completed || is_whole(done, call)));
                }
                Some(done) => {
                    let (said, refusal) = message_text(done);
                    text.push_str(if said.is_empty() { &item.text } else { &said });
                    refused = refused.or(refusal);
                }
                None if item.is_call && stop == Stop::Completed => {
                    return Err(Problem { usage, ..Problem::cut("a call in the answer has no end") });
                }
                None => text.push_str(&item.text),
            }
        }
        reply.text = text.into();
        let stop = match (stop, refused) {
            (Stop::Filtered, _) => StopReason::Refused("content_filter".to_owned()),
            (_, Some(refusal)) => StopReason::Refused(refusal),
            (Stop::Length, None) => StopReason::Length,
            (Stop::Completed, None) => StopReason::Done,
        };
        if stop == StopReason::Done {
            let items = self.items.into_values().filter_map(|item| item.done);
            reply.raw = raw(self.model, items.collect());
        }
        Ok(Answer { reply, usage, stop })
    }
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}

fn text_of(item: &Value, field: &str) -> String {
    item[field].as_str().unwrap_or_default().to_owned()
}

/// The text of a message, and its refusal if it is one.
fn message_text(item: &Value) -> (String, Option<String>) {
    let mut text = String::new();
    let mut refusal = None;
    if kind(item) != "message" {
        return (text, refusal);
    }
    for part in item["content"].as_array().into_iter().flatten() {
        if let Some(said) = part["text"].as_str() {
            text.push_str(said);
        }
        if let Some(said) = part["refusal"].as_str() {
            text.push_str(said);
            refusal = Some(crate::wire::short(said));
        }
    }
    (text, refusal)
}

fn call(item: &Value) -> Option<ToolCall> {
    let input = match &item["arguments"] {
        Value::String(text) => arguments(text),
        Value::Null => return None,
        input => input.clone(),
    };
    Some(ToolCall { id: text_of(item, "call_id"), name: text_of(item, "name"), input })
}

/// Whether a call of a cut answer is complete: its status confirms it, or at least does not deny it.
fn is_whole(item: &Value, call: &ToolCall) -> bool {
    item["status"].as_str().is_none_or(|status| status == "completed") && call.input.is_object()
}

/// The answer as the provider expects it in later requests: with all its thinking, or not at all. Without thinking,
/// text and calls are sufficient.
fn raw(model: String, mut items: Vec<Value>) -> Option<Arc<RawReply>> {
    let mut thinking = items.iter().filter(|item| kind(item) == "reasoning").peekable();
    thinking.peek()?;
    // The provider stores nothing, so thinking without its content is an id that it does not know.
    if !thinking.all(|item| item["encrypted_content"].as_str().is_some_and(|content| !content.is_empty())) {
        return None;
    }
    for item in &mut items {
        if let Value::Object(fields) = item {
            // The provider does not treat null like an absent field.
            fields.retain(|_, value| !value.is_null());
        }
    }
    Some(Arc::new(RawReply { model, content: Value::Array(items) }))
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: count("/input_tokens")?,
        output_tokens: count("/output_tokens")?,
        cached_tokens: count("/input_tokens_details/cached_tokens").unwrap_or(0),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens").unwrap_or(0),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens").unwrap_or(0),
        micro_usd: None,
        ..Usage::ZERO
    })
}

fn failed(response: &Value) -> Problem {
    problem(&response["error"], usage(&response["usage"]))
}

/// The problem of an error in an answer: the same as for that error with its own HTTP status.
fn problem(error: &Value, usage: Option<Usage>) -> Problem {
    let code = [&error["code"], &error["type"]].into_iter().find_map(Value::as_str).unwrap_or_default();
    let status = match code {
        "rate_limit_exceeded" | "too_many_requests" | "insufficient_quota" | "usage_limit_reached" => 429,
        "server_error"
        | "server_is_overloaded"
        | "overloaded"
        | "slow_down"
        | "vector_store_timeout"
        | "" => 500,
        "invalid_api_key" | "authentication_error" => 401,
        _ => 400,
    };
    let body = json!({ "error": error }).to_string();
    let headers = HeaderMap::new();
    let refused =
        ErrorResponse { status, headers: &headers, body: body.as_bytes(), now: SystemTime::UNIX_EPOCH };
    let problem = refused.problem();
    // A refused request costs nothing. The cost until a later failure is unknown.
    let free = !matches!(problem.kind, ProblemKind::Unwell { .. } | ProblemKind::Foreign);
    Problem { status: None, usage: usage.or(problem.usage.filter(|_| free)), ..problem }
}
