//! Vendors beyond our own formats, through the `genai` crate: it makes the request and reads the stream.
//!
//! It gets nothing but what an endpoint says: the key, the place and our own HTTP client, so its looks into the
//! environment never happen. It makes one request for a call and never tries again. What it is too kind about is put
//! right here: a stream that broke off is no answer, and arguments that are no JSON are not empty ones.
//!
//! Why it is like this: `docs/decisions/models-genai.md`.

mod problem;
mod request;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use futures::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatOptions, ChatStreamEvent, ContentPart, MessageContent, StreamEnd, ToolCall as GenaiCall,
};
use genai::resolver::{AuthData, Endpoint as GenaiEndpoint};
use genai::{Client, ModelIden, ServiceTarget};
use posse_domain::budget::Usage;
use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_engine::ports::{ModelRequest, StreamPart};
use reqwest::Url;
use serde_json::Value;

use crate::endpoint::{Endpoint, Key};
use crate::http::Http;
use crate::wire::text::arguments;
use crate::wire::text_tools::as_text;
use crate::wire::{Answer, Problem, ProblemKind, StopReason, Target};

/// Our names of vendors that `genai` has under others.
const NAMES: &[(&str, AdapterKind)] = &[
    ("bedrock", AdapterKind::BedrockApi),
    ("gemini-native", AdapterKind::Gemini),
    ("ollama-cloud", AdapterKind::OllamaCloud),
    ("qwen", AdapterKind::QwenCloud),
];
/// Vendors whose tool calls `genai` does not know.
const WITHOUT_TOOLS: &[AdapterKind] = &[AdapterKind::Cohere];
/// Reasons to stop that mean that the model failed at a call; another try often succeeds.
const MALFORMED: &[&str] = &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "malformed_tool_use"];

/// What stands for a vendor's own format.
pub(crate) struct Genai {
    provider: String,
    /// None if nobody knows the vendor.
    kind: Option<AdapterKind>,
    /// With a slash at its end, as `genai` wants it.
    base_url: String,
}

impl Genai {
    /// For the vendor of an endpoint.
    pub(crate) fn at(endpoint: &Endpoint) -> Self {
        let name = endpoint.provider.as_str();
        let ours = NAMES.iter().find(|(ours, _)| *ours == name).map(|(_, kind)| *kind);
        Self {
            provider: name.to_owned(),
            kind: ours.or_else(|| AdapterKind::from_lower_str(&name.replace('-', "_"))),
            base_url: format!("{}/", endpoint.base_url.trim_end_matches('/')),
        }
    }

    /// Makes one call.
    pub(crate) async fn answer(
        &self,
        target: &Target,
        request: &ModelRequest,
        key: Option<&Key>,
        http: &Http,
        show: &mut (dyn FnMut(StreamPart) + Send),
    ) -> Result<Answer, Problem> {
        let kind = self.kind.ok_or_else(|| {
            let message = format!(
                "the format `genai` has no vendor `{}`; use the name it has there, or another format",
                self.provider
            );
            Problem::free(ProblemKind::Request, message)
        })?;
        let service = self.service(kind, target, key)?;
        if !WITHOUT_TOOLS.contains(&kind) {
            return self.ask(service, target, request, http, show).await;
        }
        let (told, mut listener) = as_text(request);
        let mut hear = |part| listener.show(part, show);
        let answer = self.ask(service, target, &told, http, &mut hear).await?;
        listener.calls_in(answer)
    }

    /// A complete target: nothing is resolved, and no variable is looked at.
    fn service(
        &self,
        kind: AdapterKind,
        target: &Target,
        key: Option<&Key>,
    ) -> Result<ServiceTarget, Problem> {
        let key = key.ok_or_else(|| Problem::free(ProblemKind::Key, "it answers nobody without one"))?;
        Ok(ServiceTarget {
            endpoint: GenaiEndpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key.secret().trim()),
            model: ModelIden::new(kind, target.model.as_str()),
        })
    }

    async fn ask(
        &self,
        service: ServiceTarget,
        target: &Target,
        request: &ModelRequest,
        http: &Http,
        show: &mut (dyn FnMut(StreamPart) + Send),
    ) -> Result<Answer, Problem> {
        let url = Url::parse(&self.base_url).map_err(|error| {
            Problem::free(
                ProblemKind::Request,
                format!("its base URL `{}` is not one: {error}", self.base_url),
            )
        })?;
        let (connection, _under_way) = http.client(&url).await?;
        let client = Client::builder().with_reqwest(connection).build();
        let client = client.map_err(|error| problem::of(&error))?;
        let options = options(target, request);
        let sent = client.exec_chat_stream(service, request::chat(target, request), Some(&options)).await;
        let mut stream = sent.map_err(|error| problem::of(&error))?.stream;
        let mut streamed = StreamProgress::default();
        while let Some(event) = stream.next().await {
            if let Some(end) = streamed.take(event.map_err(|error| problem::of(&error))?, show) {
                return streamed.answer(target, end);
            }
        }
        Err(Problem::cut("the stream ended before the answer was complete"))
    }
}

fn options(target: &Target, request: &ModelRequest) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_max_tokens(u32::try_from(request.max_output_tokens).unwrap_or(u32::MAX))
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_reasoning_content(true)
        .with_capture_tool_calls(true);
    if target.abilities.sampling {
        options.temperature = request.temperature;
        options.top_p = request.top_p;
    }
    options
}

/// What came so far.
#[derive(Default)]
struct StreamProgress {
    /// The arguments of calls as the model wrote them, by the id of the call.
    written: HashMap<String, String>,
}

impl StreamProgress {
    /// Takes one event; gives the end.
    fn take(&mut self, event: ChatStreamEvent, show: &mut dyn FnMut(StreamPart)) -> Option<StreamEnd> {
        match event {
            // The first comes before anything was sent, the other is a ping.
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            ChatStreamEvent::Chunk(chunk) => show(StreamPart::Text(chunk.content)),
            ChatStreamEvent::ReasoningChunk(chunk) => show(StreamPart::Thinking(chunk.content)),
            ChatStreamEvent::ThoughtSignatureChunk(_) => show(StreamPart::Alive),
            ChatStreamEvent::ToolCallChunk(chunk) => {
                let GenaiCall { call_id, fn_name, fn_arguments, .. } = chunk.tool_call;
                let text = match fn_arguments {
                    Value::String(text) => text,
                    _ => String::new(),
                };
                let known = self.written.insert(call_id, text).is_some();
                show(if known { StreamPart::Alive } else { StreamPart::Tool(fn_name) });
            }
            ChatStreamEvent::End(end) => return Some(end),
        }
        None
    }

    fn answer(&self, target: &Target, end: StreamEnd) -> Result<Answer, Problem> {
        let usage = end.captured_usage.as_ref().and_then(counted);
        let stop = match end.captured_stop_reason {
            // Without a reason the stream broke off, whatever it has given.
            None => return Err(Problem::cut("the stream ended before the answer was complete")),
            Some(reason) => stop(&reason),
        };
        let stop = stop
            .map_err(|why| Problem { usage, ..Problem::cut(format!("the model failed at a call: {why}")) })?;
        let content = end.captured_content.unwrap_or_default();
        let calls = content.tool_calls().into_iter().map(|call| self.call(call));
        // What was being written when the output ended is no call.
        let calls = calls.filter(|call| stop == StopReason::Done || call.input.is_object()).collect();
        let text = content.texts().concat();
        let raw = (stop == StopReason::Done).then(|| raw(target, &content)).flatten();
        Ok(Answer { reply: Reply { text: text.into(), calls, raw: raw.map(Into::into) }, usage, stop })
    }

    fn call(&self, call: &GenaiCall) -> ToolCall {
        let written = self.written.get(&call.call_id).filter(|text| !text.trim().is_empty());
        let input = match (written, &call.fn_arguments) {
            // As it was written: what is no JSON stays text.
            (Some(text), _) | (None, Value::String(text)) => arguments(text),
            (None, Value::Null) => arguments(""),
            (None, input) => input.clone(),
        };
        ToolCall { id: call.call_id.clone(), name: call.fn_name.clone(), input }
    }
}

/// Why the model stopped, or why its call came to nothing.
fn stop(reason: &genai::chat::StopReason) -> Result<StopReason, String> {
    use genai::chat::StopReason as Reason;
    Ok(match reason {
        Reason::MaxTokens(_) => StopReason::Length,
        Reason::ContentFilter(why) => StopReason::Refused(why.clone()),
        Reason::Other(why) if MALFORMED.contains(&why.as_str()) => return Err(why.clone()),
        Reason::Other(why) if why.contains("guardrail") || why.contains("filter") => {
            StopReason::Refused(why.clone())
        }
        Reason::Completed(_) | Reason::ToolCall(_) | Reason::StopSequence(_) | Reason::Other(_) => {
            StopReason::Done
        }
    })
}

/// The answer as the vendor wants it back, if it has more than text and calls.
fn raw(target: &Target, content: &MessageContent) -> Option<RawReply> {
    let more = |part: &ContentPart| match part {
        ContentPart::Text(_) => false,
        ContentPart::ToolCall(call) => call.thought_signatures.is_some(),
        _ => true,
    };
    content.parts().iter().any(more).then_some(())?;
    let content = serde_json::to_value(content).ok()?;
    Some(RawReply { model: target.full_name.clone(), content })
}

fn counted(usage: &genai::chat::Usage) -> Option<Usage> {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let sent = usage.prompt_tokens_details.as_ref();
    let received = usage.completion_tokens_details.as_ref();
    Some(Usage {
        input_tokens: count(usage.prompt_tokens)?,
        output_tokens: count(usage.completion_tokens)?,
        cached_tokens: count(sent.and_then(|sent| sent.cached_tokens)).unwrap_or(0),
        cache_write_tokens: count(sent.and_then(|sent| sent.cache_creation_tokens)).unwrap_or(0),
        reasoning_tokens: count(received.and_then(|received| received.reasoning_tokens)).unwrap_or(0),
        micro_usd: None,
    })
}
