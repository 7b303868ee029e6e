//! The port to models.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_agent::conversation::Message;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::budget::{Price, Usage};
use posse_domain::event::{CallError, Purpose};
use posse_domain::hash::Hash;
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
    /// The call of the turn, from 1; more than 1 is a call retry.
    pub call: u32,
    /// Hash of the system prompt, the tools and the conversation, as the journal has it.
    pub hash: Hash,
    /// What the call is for.
    pub purpose: Purpose,
    /// The system prompt.
    pub system: Arc<str>,
    /// The agent's tools. On a report turn none may be called; they are here all the same, because a provider that
    /// finds what it has cached by how a request begins finds nothing without them.
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

impl ModelRequest {
    /// The tools that may be called now.
    pub fn callable(&self) -> &[Arc<ToolSpec>] {
        match self.purpose {
            Purpose::Work => &self.tools,
            Purpose::Report => &[],
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone)]
pub struct ModelReply {
    /// What it said.
    pub reply: Reply,
    /// What it cost.
    pub usage: Usage,
    /// Whether it is as long as it may be and was cut off there. No part of a call that was being written is in it.
    pub cut_off: bool,
    /// What the model wants to find again in `tags`.
    pub tag: Option<String>,
}

/// A call that failed. Whether it is made again is for the engine to decide, which counts calls and time.
#[derive(Debug, Clone)]
pub struct ModelFailure {
    /// Why.
    pub error: Box<CallError>,
    /// What it cost all the same; none if unknown, and then it counts as all that was reserved.
    pub usage: Option<Usage>,
    /// As in [`ModelReply::tag`].
    pub tag: Option<String>,
    /// When the same request may be worth another call; none if it never is.
    pub retry: Option<Retry>,
}

impl ModelFailure {
    /// A failure that another call would not mend, of a call that cost nothing.
    pub fn last(error: CallError) -> Self {
        Self { error: Box::new(error), usage: Some(Usage::ZERO), tag: None, retry: None }
    }
}

/// When a failed call may be worth another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait first, jitter included.
    pub after: Duration,
    /// Whether the provider asked for the pause: a limit of its own, and no sign that it is unwell. Such a pause may be
    /// long, and its time does not count as time without an answer.
    pub limited: bool,
}

/// How large a call is, as far as it is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSize {
    /// Tokens sent, as estimated.
    pub input_tokens: u64,
    /// Most tokens of the reply.
    pub output_tokens: u64,
}

/// Whether a call may be made now.
pub enum Admission {
    /// Yes.
    Go(Permit),
    /// Not yet.
    Wait(QueuedCall),
}

/// A call's place in the line of its provider.
pub struct QueuedCall {
    /// Comes when it is the call's turn. Dropping it gives the place up.
    pub turn: BoxFuture<'static, Permit>,
    /// What is waited for, if it takes so long that people should know.
    pub notice: Option<Notice>,
}

/// What an agent waits for, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Why: `the limit of 5 requests a minute`, `it does not answer`.
    pub reason: String,
    /// How long it will take, as far as is known.
    pub expected: Duration,
    /// Whether the provider is thought to be unwell, and not only busy: that is not waited for without end.
    pub unwell: bool,
}

/// The right to make one call; whatever it holds is given back when it is dropped.
#[derive(Default)]
pub struct Permit(Option<Box<dyn Send + Sync>>);

impl Permit {
    /// A permit that gives something back when it is dropped.
    pub fn holding(held: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(held)))
    }

    /// Whether dropping it gives anything back.
    pub fn holds(&self) -> bool {
        self.0.is_some()
    }
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
    /// Thinking, as far as the provider shows it.
    Thinking(String),
    /// A sign of life without anything to show, such as a piece of a tool's arguments. A provider's pings are none.
    Alive,
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

    /// Who stands behind it, for people: `anthropic`.
    fn provider(&self) -> Arc<str> {
        "the model".into()
    }

    /// Asks for leave to make a call. Never blocks. The permit is held until the call has ended.
    fn admit(&self, size: CallSize) -> Admission {
        let _ = size;
        Admission::Go(Permit::default())
    }

    /// Makes one call: no retries. Dropping the future ends the call.
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
