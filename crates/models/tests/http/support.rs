//! A format with its mock server and a model, and calls with a timeout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posse_agent::conversation::Message;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_engine::ports::{
    Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamPart, StreamSink,
};
use posse_models::{Endpoint, Format, Http, Key, Limits, ToolCalls, remote};
use posse_testkit::mock::{Answer, Mock, Options, WireFormat};
use serde_json::json;

/// Longer than any call here takes. A longer call hangs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The key of every model here. It has leaked if it appears anywhere except in its header.
pub(crate) const KEY: &str = "sk-canary-7f3a9c51e2d84b60";
/// The stated origin of the key.
pub(crate) const KEY_ORIGIN: &str = "MOCK_API_KEY";

/// The formats: ours, the mock's, and a model that has all features in it.
pub(crate) const FORMATS: [(Format, WireFormat, &str); 3] = [
    (Format::Anthropic, WireFormat::Messages, "claude-sonnet-4-5"),
    (Format::Responses, WireFormat::Responses, "gpt-5.2"),
    (Format::Chat, WireFormat::Chat, "gpt-4.1"),
];

pub(crate) struct Case {
    pub(crate) wire_format: WireFormat,
    pub(crate) mock: Mock,
    pub(crate) model: Arc<dyn Model>,
}

/// Each format with a server that gives this answer.
pub(crate) fn cases(answer: &Answer) -> impl Iterator<Item = Case> {
    let answer = answer.clone();
    cases_of(move |_| answer.clone())
}

/// Each format with a server that creates its answer from the number of the request.
pub(crate) fn cases_of(
    answer: impl Fn(u64) -> Answer + Clone + Send + Sync + 'static,
) -> impl Iterator<Item = Case> {
    FORMATS.into_iter().map(move |(format, wire_format, name)| {
        let answer = answer.clone();
        let options = Options { key: Some(KEY.to_owned()), ..Options::default() };
        let source = move |asked: &posse_testkit::mock::MockRequest| answer(asked.number);
        let mock = Mock::with(source, options).expect("a server");
        let model = model(format, name, &mock.url());
        Case { wire_format, mock, model }
    })
}

pub(crate) fn model(format: Format, name: &str, base_url: &str) -> Arc<dyn Model> {
    let endpoint = Endpoint {
        provider: "mock".to_owned(),
        format,
        base_url: base_url.to_owned(),
        key: Some(Key::new(KEY, KEY_ORIGIN)),
        limits: Limits::default(),
        tools: ToolCalls::Native,
    };
    assert!(!format!("{endpoint:?}").contains(KEY));
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4_096, price: None };
    remote(&endpoint, name, facts, &Http::new())
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tool =
        ToolSpec { name: "read".to_owned(), description: "Reads a file.".to_owned(), input_schema: schema };
    ModelRequest {
        agent: "k3f9ab2c".parse().expect("an id"),
        definition: "coder".into(),
        depth: 0,
        attempt: 1,
        turn: 1,
        call: 1,
        hash: Hash::of(b"request"),
        purpose: Purpose::Work,
        system: "Be brief.".into(),
        tools: vec![Arc::new(tool)].into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: 1_000,
        temperature: None,
        top_p: None,
        tags: Arc::default(),
    }
}

pub(crate) fn hello() -> ModelRequest {
    request(vec![Message::User("hello".into())])
}

/// Records the shown parts.
#[derive(Default)]
pub(crate) struct ShownParts(Mutex<Vec<StreamPart>>);

impl StreamSink for ShownParts {
    fn part(&self, part: StreamPart) {
        self.0.lock().expect("parts").push(part);
    }
}

impl ShownParts {
    pub(crate) fn parts(&self) -> Vec<StreamPart> {
        self.0.lock().expect("parts").clone()
    }

    pub(crate) fn text(&self) -> String {
        let text = |part| if let StreamPart::Text(text) = part { Some(text) } else { None };
        self.parts().into_iter().filter_map(text).collect()
    }

    pub(crate) fn thinking(&self) -> String {
        let text = |part| if let StreamPart::Thinking(text) = part { Some(text) } else { None };
        self.parts().into_iter().filter_map(text).collect()
    }
}

impl Case {
    /// Makes one call, with a timeout.
    pub(crate) async fn call(
        &self,
        request: ModelRequest,
    ) -> (Result<ModelReply, ModelFailure>, Arc<ShownParts>) {
        let shown = Arc::new(ShownParts::default());
        let call = self.model.call(request, shown.clone());
        let result = tokio::time::timeout(PATIENCE, call).await;
        (result.unwrap_or_else(|_| panic!("{:?}: the call hangs", self.wire_format)), shown)
    }

    /// Sends a request that must be answered.
    pub(crate) async fn reply(&self) -> (ModelReply, Arc<ShownParts>) {
        let (result, shown) = self.call(hello()).await;
        (result.unwrap_or_else(|failure| panic!("{:?}: {failure:?}", self.wire_format)), shown)
    }

    /// Sends a request that must fail.
    pub(crate) async fn failure(&self) -> ModelFailure {
        match self.call(hello()).await.0 {
            Ok(reply) => panic!("{:?}: {reply:?}", self.wire_format),
            Err(failure) => failure,
        }
    }
}
