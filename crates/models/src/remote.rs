//! A model behind HTTP: builds the request, sends it, and reads the answer while it streams.

use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::message::Reply;
use posse_engine::ports::{
    Admission, CallSize, Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamPart, StreamSink,
};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::endpoint::{Endpoint, Format, Key};
use crate::http::{Http, ResponseHead};
use crate::prices::nearest_model;
use crate::provider_queue::ProviderQueue;
use crate::scrub::{Scrub, ScrubbedParts};
use crate::sse::Decoder;
use crate::wire::anthropic::Anthropic;
use crate::wire::chat::Chat;
use crate::wire::responses::Responses;
use crate::wire::text_tools::{TextModels, with_tools};
use crate::wire::{
    Answer, ErrorResponse, Flow, IT_ANSWERED, ModelFeatures, Problem, ProblemKind, ReplyReader, StopReason,
    Target, ToolLists, Wire, WireRequest, check_values,
};

/// Bytes per token where the provider does not count tokens. A low value, so that usage is not underestimated.
const ESTIMATED_BYTES_PER_TOKEN: u64 = 3;
pub(crate) struct Remote {
    shared: Arc<RemoteState>,
}

struct RemoteState {
    provider: Arc<str>,
    base_url: String,
    /// The base URL as one to which requests can be sent; `None` if it is not.
    base: Option<Url>,
    key: Option<Key>,
    scrub: Scrub,
    key_header: KeyHeader,
    target: Target,
    wire: Box<dyn Wire>,
    facts: ModelFacts,
    http: Http,
    queue: Arc<ProviderQueue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyHeader {
    /// `x-api-key`.
    ApiKey,
    /// `authorization: Bearer`.
    Bearer,
}

impl Remote {
    pub(crate) fn new(
        endpoint: &Endpoint,
        model: &str,
        facts: ModelFacts,
        http: &Http,
        queue: Arc<ProviderQueue>,
        text_models: &TextModels,
    ) -> Self {
        let full_name = format!("{}/{model}", endpoint.provider);
        let wire: Box<dyn Wire> = match endpoint.format {
            Format::Anthropic => Box::new(Anthropic),
            Format::Responses => Box::new(Responses),
            Format::Chat => Box::new(Chat::at(&endpoint.base_url, model)),
        };
        let wire = with_tools(wire, endpoint, &full_name, text_models);
        Self {
            shared: Arc::new(RemoteState {
                provider: endpoint.provider.as_str().into(),
                base_url: endpoint.base_url.trim_end_matches('/').to_owned(),
                base: usable_url(&endpoint.base_url),
                key: endpoint.key.clone(),
                scrub: Scrub::of(endpoint.key.as_ref()),
                key_header: key_header(endpoint),
                target: Target {
                    full_name,
                    model: model.to_owned(),
                    abilities: ModelFeatures::of(model),
                    tool_lists: ToolLists::default(),
                },
                wire,
                facts,
                http: http.clone(),
                queue,
            }),
        }
    }
}

/// A model at an endpoint, with its own queue and without memory of tool support, for a caller that uses no other model
/// there.
pub fn remote(endpoint: &Endpoint, model: &str, facts: ModelFacts, http: &Http) -> Arc<dyn Model> {
    let queue = ProviderQueue::new(endpoint.provider.as_str().into(), endpoint.limits);
    Arc::new(Remote::new(endpoint, model, facts, http, queue, &TextModels::default()))
}

fn usable_url(base_url: &str) -> Option<Url> {
    let url = Url::parse(base_url.trim_end_matches('/')).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Subscription tokens and gateway tokens use the `authorization` header, like other providers' keys.
fn key_header(endpoint: &Endpoint) -> KeyHeader {
    let is_token = |key: &Key| key.secret().starts_with("sk-ant-oat") || key.origin().ends_with("AUTH_TOKEN");
    match endpoint.format {
        Format::Anthropic if !endpoint.key.as_ref().is_some_and(is_token) => KeyHeader::ApiKey,
        _ => KeyHeader::Bearer,
    }
}

impl Model for Remote {
    fn facts(&self) -> ModelFacts {
        self.shared.facts
    }

    fn provider(&self) -> Arc<str> {
        self.shared.provider.clone()
    }

    fn admit(&self, size: CallSize) -> Admission {
        self.shared.queue.admit(size)
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let shared = self.shared.clone();
        async move {
            let call = request.call;
            let mut estimated = UsageEstimate::default();
            let mut parts = ScrubbedParts::new(shared.scrub.clone());
            let mut show = |part| sink.part(part);
            let mut shown = |part: StreamPart| parts.part(part, &mut show);
            let answered = shared.answer(&request, &mut shown, &mut estimated).await;
            parts.finish(&mut show);
            // Scrubbed here, so that the code below sees no answer and no problem that contains the key.
            match answered {
                Ok(answer) => shared.reply(shared.scrub.answer(answer), &estimated),
                Err(problem) => Err(shared.failure(&shared.scrub.problem(problem), call)),
            }
        }
        .boxed()
    }
}

impl RemoteState {
    async fn answer(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(StreamPart) + Send),
        estimated: &mut UsageEstimate,
    ) -> Result<Answer, Problem> {
        let WireRequest { path, headers, body } = self.wire.request(&self.target, request);
        let url = self.url(&path)?;
        let headers = self.headers(&headers)?;
        estimated.sent_bytes = body.len();
        let mut answered = self.http.post(url, headers, body).await?;
        if !answered.is_success() {
            return Err(self.refusal(&mut answered).await);
        }
        let mut reader = self.wire.reader(&self.target, request);
        let mut begun = false;
        let mut show = |part| {
            if !std::mem::replace(&mut begun, true) {
                self.queue.answering();
            }
            if let StreamPart::Thinking(text) = &part {
                estimated.thinking_bytes += text.len();
            }
            sink(part);
        };
        if read(&mut answered, &mut *reader, &mut show).await? == Flow::End {
            tokio::spawn(answered.drained());
        }
        reader.finish()
    }

    /// The path beneath the base URL. Base URLs of servers may or may not end with the version.
    fn url(&self, path: &str) -> Result<Url, Problem> {
        let Some(mut url) = self.base.clone() else {
            let message = format!(
                "invalid base URL `{}`: it must begin with `https://` or `http://` and a host",
                self.base_url
            );
            return Err(Problem::free(ProblemKind::Request, message));
        };
        let beneath = url.path().trim_end_matches('/');
        let path = match path.strip_prefix("/v1/") {
            Some(rest) if beneath.ends_with("/v1") => format!("{beneath}/{rest}"),
            _ => format!("{beneath}{path}"),
        };
        url.set_path(&path);
        Ok(url)
    }

    fn headers(&self, of_format: &[(&'static str, String)]) -> Result<HeaderMap, Problem> {
        let mut headers = HeaderMap::with_capacity(of_format.len() + 4);
        for (name, value) in of_format {
            let value = HeaderValue::from_str(value).map_err(|_| {
                let message = format!("its header `{name}` has characters that no header has");
                Problem::free(ProblemKind::Request, message)
            })?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let Some(key) = &self.key else { return Ok(headers) };
        let secret = key.secret().trim();
        let (name, value) = match self.key_header {
            KeyHeader::ApiKey => (HeaderName::from_static("x-api-key"), HeaderValue::from_str(secret)),
            KeyHeader::Bearer => (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {secret}"))),
        };
        let mut value = value.map_err(|_| {
            Problem::free(ProblemKind::Key, "it has characters that no key has, such as a line break")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(headers)
    }

    async fn refusal(&self, answered: &mut ResponseHead) -> Problem {
        let body = answered.error_body().await;
        // Scrubbed before anything is shortened, so that no part of the key remains.
        let body = self.scrub.cut_text(&String::from_utf8_lossy(&body));
        self.wire.refusal(&ErrorResponse {
            status: answered.status(),
            headers: answered.headers(),
            body: body.as_bytes(),
            now: SystemTime::now(),
        })
    }

    fn reply(&self, answer: Answer, estimated: &UsageEstimate) -> Result<ModelReply, ModelFailure> {
        self.queue.succeeded(answer.usage.as_ref());
        let Answer { reply, usage, stop } = answer;
        if let StopReason::Refused(why) = stop {
            let message = format!("{} refused to answer: {why}", self.target.full_name);
            let error = CallError::new(Code::ModelError, message);
            return Err(ModelFailure { usage, ..ModelFailure::last(error) });
        }
        // A usage without input tokens means that the server does not count. It is estimated instead.
        let usage = usage.filter(|usage| usage.input_tokens > 0);
        let usage = usage.unwrap_or_else(|| estimated.with(&reply));
        Ok(ModelReply { reply, usage, cut_off: stop == StopReason::Length, tag: None })
    }

    fn failure(&self, problem: &Problem, call: u32) -> ModelFailure {
        let retry = self.queue.failed(problem, call);
        let error =
            CallError { status: problem.status, ..CallError::new(problem.code(), self.error_text(problem)) };
        ModelFailure { error: Box::new(error), usage: problem.usage, tag: None, retry }
    }

    fn error_text(&self, problem: &Problem) -> String {
        let (provider, message) = (&self.provider, &problem.message);
        let status = problem.status.map(|status| format!(" ({status})")).unwrap_or_default();
        match (problem.kind, &self.key) {
            (ProblemKind::Key, Some(key)) => {
                format!("{provider} does not accept the key from {}: {message}", key.origin())
            }
            (ProblemKind::Key, None) => format!("{provider} needs an API key and none is set: {message}"),
            (ProblemKind::NoModel, _) => {
                let near = nearest_model(&self.target.full_name);
                let meant = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
                format!("{provider} has no model `{}`{meant}: {message}", self.target.model)
            }
            (ProblemKind::Overflow, _) => {
                format!("the conversation is longer than {} takes: {message}", self.target.full_name)
            }
            (ProblemKind::RateLimit { .. }, _) => format!("{provider}: rate limited{status}: {message}"),
            (ProblemKind::UsageLimit { .. }, _) => {
                format!("{provider}: usage limit reached{status}: {message}")
            }
            (ProblemKind::Unwell { .. }, _) => format!("{provider}: server error{status}: {message}"),
            // A message of Posse's own has the status.
            (ProblemKind::Request | ProblemKind::Foreign, _)
                if !status.is_empty() && !message.starts_with(IT_ANSWERED) =>
            {
                format!("{provider} refused the request{status}: {message}")
            }
            _ => format!("{provider}: {message}"),
        }
    }
}

/// The estimated usage of a call whose provider counts nothing.
#[derive(Debug, Default)]
struct UsageEstimate {
    sent_bytes: usize,
    thinking_bytes: usize,
}

impl UsageEstimate {
    fn with(&self, reply: &Reply) -> Usage {
        let calls: usize =
            reply.calls.iter().map(|call| call.name.len() + call.input.to_string().len()).sum();
        let tokens = |bytes: usize| (bytes as u64).div_ceil(ESTIMATED_BYTES_PER_TOKEN);
        Usage {
            input_tokens: tokens(self.sent_bytes),
            output_tokens: tokens(self.thinking_bytes + calls)
                + reply.text.len_bytes().div_ceil(ESTIMATED_BYTES_PER_TOKEN),
            micro_usd: None,
            ..Usage::ZERO
        }
    }
}

/// The shape of an answer, judged by its first byte, because the headers of servers are often wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Events,
    Whole,
    Page,
    Other,
}

impl Shape {
    /// `None` if there is no byte to judge by.
    fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes.iter().find(|byte| !byte.is_ascii_whitespace())? {
            b'{' | b'[' => Shape::Whole,
            b'<' => Shape::Page,
            // The fields that an event can begin with, a comment, and a byte order mark.
            b'd' | b'e' | b'i' | b'r' | b':' | 0xEF => Shape::Events,
            _ => Shape::Other,
        })
    }
}

/// Reads an answer until its end, or until the reader knows that nothing follows.
async fn read(
    answered: &mut ResponseHead,
    reader: &mut dyn ReplyReader,
    show: &mut (dyn FnMut(StreamPart) + Send),
) -> Result<Flow, Problem> {
    let mut decoder = Decoder::default();
    let mut shape = None;
    let mut body = Vec::new();
    while let Some(chunk) = answered.chunk().await? {
        let chunk = chunk.as_ref();
        shape = shape.or_else(|| Shape::of(chunk));
        match shape {
            None => {}
            Some(Shape::Events) => {
                let flow = decoder.feed(chunk, |event| {
                    check_values(event.data.as_bytes())?;
                    reader.event(event, show)
                })?;
                if flow == Flow::End {
                    return Ok(Flow::End);
                }
            }
            Some(Shape::Whole) => body.extend_from_slice(chunk),
            Some(Shape::Page) => return Err(foreign(answered.status(), "with a web page")),
            Some(Shape::Other) => return Err(foreign(answered.status(), "in a format that is not its own")),
        }
    }
    if shape == Some(Shape::Whole) {
        check_values(&body)?;
        reader.whole(&body, show)?;
    }
    Ok(Flow::On)
}

fn foreign(status: u16, how: &str) -> Problem {
    let message = format!("{IT_ANSWERED} {how}; is the base URL right?");
    Problem { status: Some(status), ..Problem::free(ProblemKind::Foreign, message) }
}

#[cfg(test)]
mod tests;
