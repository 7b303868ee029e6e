//! The port to models: the engine resolves a model by name, requests a permit, and makes one call at a time through it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_agent::conversation::Message;
use posse_agent::machine::CallPlace;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::budget::{Price, Usage};
use posse_domain::event::{CallError, Purpose};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::message::Reply;
use thiserror::Error;

/// The input of one model call.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The agent whose model is called.
    pub agent: AgentId,
    /// The name of the agent's definition.
    pub definition: Arc<str>,
    /// The agent's depth in the tree.
    pub depth: u32,
    /// Counted from 1.
    pub attempt: u32,
    /// Counted from 1 within the attempt.
    pub turn: u32,
    /// Counted from 1 within the turn, summary calls separately. More than 1 is a call retry.
    pub call: u32,
    /// Hash of the system prompt, the tools and the conversation, as the journal has it.
    pub hash: Hash,
    /// Whether the call is for work, for a report or for a summary of the conversation.
    pub purpose: Purpose,
    /// The system prompt.
    pub system: Arc<str>,
    /// The agent's tools. A report and a summary may call no tool, but their requests contain them, because the
    /// provider's cache matches only an identical prefix.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The conversation. Messages are shared, not copied.
    pub messages: Vec<Arc<Message>>,
    /// Limit of tokens in the reply.
    pub max_output_tokens: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling probability.
    pub top_p: Option<f64>,
    /// How often each [tag](ModelReply::tag) was in earlier replies to this agent, folded from the journal.
    pub tags: Arc<std::collections::BTreeMap<String, u32>>,
}

impl ModelRequest {
    /// The tools that the model may call in this request.
    pub fn callable(&self) -> &[Arc<ToolSpec>] {
        match self.purpose {
            Purpose::Work => &self.tools,
            Purpose::Report | Purpose::Summary => &[],
        }
    }

    /// The position of the call among the calls of its agent.
    pub fn place(&self) -> CallPlace {
        let Self { attempt, turn, call, .. } = *self;
        CallPlace { attempt, turn, call, summary: self.purpose == Purpose::Summary }
    }
}

/// The reply to a model call.
#[derive(Debug, Clone)]
pub struct ModelReply {
    /// The text and the tool calls.
    pub reply: Reply,
    /// The tokens that the call used.
    pub usage: Usage,
    /// Whether the reply was cut off at its length limit. It contains no incomplete tool call.
    pub cut_off: bool,
    /// A label that the model adapter receives again in [`ModelRequest::tags`] of later calls.
    pub tag: Option<String>,
}

/// A failed call. The engine decides whether to call again, because it counts calls and time.
#[derive(Debug, Clone)]
pub struct ModelFailure {
    /// Why the call failed.
    pub error: Box<CallError>,
    /// The tokens that the failed call used. If unknown, the engine charges the whole reserve of the call.
    pub usage: Option<Usage>,
    /// As in [`ModelReply::tag`].
    pub tag: Option<String>,
    /// When the same request may succeed. `None` if it never will.
    pub retry: Option<Retry>,
}

impl ModelFailure {
    /// A failure that a retry would not fix, of a call that used no tokens.
    pub fn last(error: CallError) -> Self {
        Self { error: Box::new(error), usage: Some(Usage::ZERO), tag: None, retry: None }
    }
}

/// When to repeat a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait before the next call, jitter included.
    pub after: Duration,
    /// Whether the provider requested the pause because of a rate limit, and is not failing. Such a pause may be long,
    /// and does not count as time without an answer.
    pub limited: bool,
}

/// The size of a call, as far as it is known before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSize {
    /// Estimated tokens of the request.
    pub input_tokens: u64,
    /// Limit of tokens in the reply.
    pub output_tokens: u64,
}

/// The answer to a request for a permit.
pub enum Admission {
    /// The call may be made now.
    Go(Permit),
    /// The call is in the provider's queue.
    Wait(QueuedCall),
}

/// A call that waits in the queue of its provider.
pub struct QueuedCall {
    /// Resolves to the permit when it is the call's turn. Dropping it removes the call from the queue.
    pub turn: BoxFuture<'static, Permit>,
    /// The reason for the wait, if it takes so long that users should know.
    pub notice: Option<Notice>,
}

/// Why an agent waits for its provider, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// For example `the limit of 5 requests a minute`, `it does not answer`.
    pub reason: String,
    /// The expected duration of the wait, as far as it is known.
    pub expected: Duration,
    /// Whether the provider seems to fail, and is not only busy. The engine limits such a wait.
    pub unwell: bool,
}

/// The right to make one call. Dropping it releases the resources that it holds.
#[derive(Default)]
pub struct Permit(Option<Box<dyn Send + Sync>>);

impl Permit {
    /// A permit that drops `held` when it is dropped itself.
    pub fn holding(held: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(held)))
    }

    /// Whether the permit holds any resource.
    pub fn holds(&self) -> bool {
        self.0.is_some()
    }
}

/// The limits and the price of a model.
#[derive(Debug, Clone, Copy)]
pub struct ModelFacts {
    /// Limit of tokens in a request and its reply.
    pub context_tokens: u64,
    /// Limit of tokens in one reply.
    pub max_output_tokens: u64,
    /// The price of its tokens, if known.
    pub price: Option<Price>,
}

/// A piece of a streaming reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPart {
    /// Text of the reply.
    Text(String),
    /// The name of a tool that is being called.
    Tool(String),
    /// The model's thinking, as far as the provider shows it.
    Thinking(String),
    /// Activity without a text to show, such as a piece of a tool's arguments. Pings of a provider do not count.
    Alive,
}

/// Receives the pieces of a streaming reply. Every piece counts as activity.
pub trait StreamSink: Send + Sync {
    /// Takes one piece. Must not block.
    fn part(&self, part: StreamPart);
}

/// A model of a provider.
pub trait Model: Send + Sync + 'static {
    /// The limits and the price of the model.
    fn facts(&self) -> ModelFacts;

    /// The provider's name for users, such as `anthropic`.
    fn provider(&self) -> Arc<str> {
        "the model".into()
    }

    /// Requests a permit for a call. Must not block. The caller holds the permit until the call has ended.
    fn admit(&self, size: CallSize) -> Admission {
        let _ = size;
        Admission::Go(Permit::default())
    }

    /// Makes one call, without retries. Dropping the future ends the call.
    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

/// Why a name does not resolve to a usable model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// No model has this name.
    #[error("{0}")]
    Unknown(String),
    /// The provider needs a key, and none is configured.
    #[error("{0}")]
    Unauthenticated(String),
    /// The model is known but its configuration is unusable, such as a missing address or an unreadable script.
    #[error("{0}")]
    Unusable(String),
}

/// Resolves the names of models.
pub trait Models: Send + Sync + 'static {
    /// The model with the name `provider/model`.
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ModelError>;
}
