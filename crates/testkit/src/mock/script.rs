//! A reply source from a script file: serves the rules of [`posse_models::scripted`] over HTTP.
//!
//! Of a rule's conditions, `turn` and `contains` work as in a run. A request over HTTP does not contain its agent, so
//! every request counts as one of agent `0` at depth 0 with the definition `http`, and `times` counts over the whole
//! server. An `error` becomes an HTTP error with its `status` (500 if it has none), and `retry_after_ms` becomes the
//! header `retry-after`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse_agent::conversation::Message;
use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_domain::message::ToolCall;
use posse_engine::ports::{ModelFailure, ModelReply, ModelRequest};
use posse_models::scripted::{ScriptError, ScriptedModel};
use serde_json::Value;

use super::ReplySource;
use super::answer::{Answer, Call, MockReply, Refusal, RetryAfter, Tokens};
use super::request::MockRequest;

#[derive(Debug)]
pub struct Script {
    model: ScriptedModel,
    /// How often each rule has answered, by its tag.
    used: Mutex<Arc<BTreeMap<String, u32>>>,
}

impl Script {
    /// Parses a script. Errors contain `name` as the name of the file.
    pub fn parse(yaml: &str, name: &str) -> Result<Self, ScriptError> {
        Ok(Self { model: ScriptedModel::from_yaml(yaml, name)?, used: Mutex::default() })
    }
}

impl ReplySource for Script {
    fn answer(&self, asked: &MockRequest) -> Answer {
        // Held from the lookup to the count: two concurrent requests must not both be the last of `times`.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (latency, answer) = self.model.answer(&request(asked, used.clone()));
        let (answer, tag) = match answer {
            Ok(reply) => (Answer::from(mock_reply(&reply)), reply.tag),
            Err(failure) => (Answer::from(refusal(&failure)), failure.tag),
        };
        if let Some(tag) = tag {
            *Arc::make_mut(&mut used).entry(tag).or_default() += 1;
        }
        answer.latency(latency)
    }
}

/// The request as the rules see it: its turn, and the messages since the model's last reply.
fn request(asked: &MockRequest, tags: Arc<BTreeMap<String, u32>>) -> ModelRequest {
    let messages = asked.newest_texts().into_iter().map(|text| Arc::new(Message::User(text.into())));
    ModelRequest {
        agent: "k3f9ab2c".parse().expect("a valid agent id"),
        definition: "http".into(),
        depth: 0,
        attempt: 1,
        turn: u32::try_from(asked.turn()).unwrap_or(u32::MAX),
        call: 1,
        hash: Hash::ZERO,
        purpose: Purpose::Work,
        system: "".into(),
        tools: Arc::new([]),
        messages: messages.collect(),
        max_output_tokens: u64::MAX,
        temperature: None,
        top_p: None,
        tags,
    }
}

fn mock_reply(ModelReply { reply, usage, .. }: &ModelReply) -> MockReply {
    let call = |call: &ToolCall| match &call.input {
        // Arguments that are not JSON are sent as the script has them.
        Value::String(text) => Call { id: call.id.clone(), name: call.name.clone(), arguments: text.clone() },
        input => Call::new(call.name.as_str(), input).id(call.id.as_str()),
    };
    let tokens =
        Tokens { cached: usage.cached_tokens, ..Tokens::new(usage.input_tokens, usage.output_tokens) };
    let text = MockReply::text(reply.text.to_shared().as_ref()).tokens(tokens);
    reply.calls.iter().map(call).fold(text, MockReply::with_call)
}

fn refusal(ModelFailure { error, retry, .. }: &ModelFailure) -> Refusal {
    Refusal {
        retry_after: retry.map(|retry| RetryAfter::Seconds(rounded_up(retry.after))),
        ..Refusal::new(error.status.unwrap_or(500), error.message.as_str())
    }
}

/// A header has whole seconds, and a fraction less would be too early.
fn rounded_up(pause: Duration) -> u64 {
    pause.as_secs() + u64::from(pause.subsec_nanos() > 0)
}
