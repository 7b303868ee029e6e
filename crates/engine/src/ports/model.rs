//! The port to models.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_agent::conversation::Message;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::budget::{Price, Usage};
use posse_domain::event::{CallError, Purpose};
use posse_domain::id::AgentId;
use posse_domain::message::Reply;

/// Everything one model call needs.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Who asks.
    pub agent: AgentId,
    /// The asking agent's definition.
    pub definition: Arc<str>,
    /// Its depth.
    pub depth: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The turn of the attempt, from 1.
    pub turn: u32,
    /// What the call is for.
    pub purpose: Purpose,
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools offered.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The conversation; messages are shared, not copied.
    pub messages: Vec<Arc<Message>>,
    /// Most tokens the reply may have.
    pub max_output_tokens: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// How often each tag came back in this agent's earlier replies, folded from the journal.
    pub tags: Arc<std::collections::BTreeMap<String, u32>>,
}

/// A model's answer.
#[derive(Debug, Clone)]
pub struct ModelReply {
    /// What it said.
    pub reply: Reply,
    /// What it cost.
    pub usage: Usage,
    /// What the model wants to find again in `tags`.
    pub tag: Option<String>,
}

/// A call that failed after all call retries.
#[derive(Debug, Clone)]
pub struct ModelFailure {
    /// Why.
    pub error: CallError,
    /// What it cost all the same; none if unknown.
    pub usage: Option<Usage>,
    /// As in [`ModelReply::tag`].
    pub tag: Option<String>,
}

/// What is known about a model before it is asked.
#[derive(Debug, Clone, Copy)]
pub struct ModelFacts {
    /// Tokens of conversation it can take.
    pub context_tokens: u64,
    /// Most tokens of one reply.
    pub max_output_tokens: u64,
    /// Its price, if known.
    pub price: Option<Price>,
}

/// A piece of a reply as it streams in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPart {
    /// Text.
    Text(String),
    /// The name of a tool that is being called.
    Tool(String),
}

/// Where a model hands over pieces while it answers. Every piece counts as a sign of life.
pub trait StreamSink: Send + Sync {
    /// Takes one piece; never blocks.
    fn part(&self, part: StreamPart);
}

/// One model.
pub trait Model: Send + Sync + 'static {
    /// What is known about it.
    fn facts(&self) -> ModelFacts;

    /// Asks it. Dropping the future ends the call.
    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

/// Finds models by name.
pub trait Models: Send + Sync + 'static {
    /// The model called `provider/model`, or why there is none.
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, String>;
}
