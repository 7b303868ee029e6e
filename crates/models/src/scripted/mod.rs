//! A model that answers from rules: the first rule that matches a request replies, fails or delays.
//!
//! For each call, the rules are tried in order against the request. The model waits for the latency of the first
//! matching rule (`latency_ms`), streams its answer to the sink, and returns it with the rule's tag. The tag is
//! journalled with the reply and is in later requests of the same agent. A rule with `times` counts its uses by these
//! tags, so the count survives a crash and a resume.
//!
//! Rules come from a YAML file ([`ScriptedModel::load`]), or are created in code ([`ScriptedModel::from_rules`]). If
//! rules are not enough, [`FnModel`] answers from a closure. A file is a list of rules:
//!
//! ```yaml
//! - when: {definition: coder, turn: 1}  # any of: definition, depth, agent (id glob), turn, purpose, contains
//!   reply:
//!     text: "I will split this."
//!     tool_calls:
//!       - {name: task, input: {subagent_type: explore, description: "find it", prompt: "..."}}
//!       - {name: read, input: '{"path": '}  # a string is what a model wrote: here no valid JSON
//!     usage: {input_tokens: 1200, output_tokens: 80}  # omitted: a token for every four characters
//!   latency_ms: 200
//! - when: {agent: "*.1", contains: "boom"}  # text in what came since the model last spoke
//!   error: {status: 529, message: "overloaded", retry_after_ms: 50}  # `limited: true`: a pause that was asked for
//!   times: 1  # for each agent
//! - when: {purpose: summary}  # or work, report; a summary replaces the older part of a long conversation
//!   reply: {text: "Asked for a.rs. Read b.rs. Nothing changed. Left: a.rs."}
//! - reply: {text: "Found in a.rs."}
//! ```
//!
//! or a map that also describes the model, with prices in dollars for a million tokens. Without `price` it costs nothing;
//! `price: unknown` is a model whose price Posse does not know. A model with `context_tokens` refuses longer requests, as
//! a provider does:
//!
//! ```yaml
//! facts: {context_tokens: 100000, max_output_tokens: 4096, price: {input: 3, output: 15, cached: 0.3}}
//! rules:
//!   - reply: {text: "Found in a.rs."}
//! ```

mod answer;
mod error;
mod estimate;
mod file;
mod function;
mod no_match;
mod problem;
mod raw;
mod rule;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::budget::Price;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_engine::ports::{Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink};

pub use answer::{ScriptedAnswer, ScriptedCall};
pub use error::ScriptError;
use file::ParsedScript;
pub use function::FnModel;
pub use rule::{InvalidGlob, Rule, RuleConditions};

/// The facts of a scripted model unless its script sets others. No provider is paid for its replies.
pub const DEFAULT_FACTS: ModelFacts =
    ModelFacts { context_tokens: 200_000, max_output_tokens: 8_192, price: Some(Price::plain(0, 0)) };

/// A model that answers from rules. Cheap to clone.
///
/// ```
/// use posse_models::scripted::{Rule, ScriptedModel, ScriptedAnswer, RuleConditions};
/// use serde_json::json;
///
/// let search = ScriptedAnswer::text("I look first.").call("grep", json!({"pattern": "fn main"}));
/// let model = ScriptedModel::from_rules([
///     Rule::new(RuleConditions::any().definition("explore").turn(1), search),
///     Rule::new(RuleConditions::any(), ScriptedAnswer::text("Found in main.rs.")),
/// ]);
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    script: Arc<Script>,
}

#[derive(Debug, Clone)]
struct Script {
    /// The name of the file in errors.
    name: String,
    facts: ModelFacts,
    /// The length from which a request is refused.
    context_tokens: Option<u64>,
    rules: Vec<NumberedRule>,
}

/// A rule with its tag. The tag is created once, because looking up a count must not build a text for every request.
#[derive(Debug, Clone)]
struct NumberedRule {
    /// `rule:<number>`, counted from 1.
    tag: String,
    rule: Rule,
}

impl ScriptedModel {
    pub fn from_rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::new("a script made in code".to_owned(), DEFAULT_FACTS, None, rules)
    }

    /// Parses a script. Errors contain `name` as the name of the file.
    pub fn from_yaml(text: &str, name: &str) -> Result<Self, ScriptError> {
        let ParsedScript { facts, context_tokens, rules } = file::parse(text, name)?;
        Ok(Self::new(name.to_owned(), facts, context_tokens, rules))
    }

    /// Reads a script file. Errors contain this path.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        Self::load_as(path, &path.display().to_string())
    }

    /// Reads a script file that the user knows by another name.
    pub(crate) fn load_as(path: &Path, name: &str) -> Result<Self, ScriptError> {
        Self::from_yaml(&file::read(path, name)?, name)
    }

    /// The answer to a request and its delay, for a caller that sends it in its own way.
    pub fn answer(&self, request: &ModelRequest) -> (Duration, Result<ModelReply, ModelFailure>) {
        self.script.answer_or_no_match(request).without_waiting(request, self.script.facts.price)
    }

    /// The same model with other facts.
    pub fn with_facts(mut self, facts: ModelFacts) -> Self {
        Arc::make_mut(&mut self.script).facts = facts;
        self
    }

    fn new(
        name: String,
        facts: ModelFacts,
        context_tokens: Option<u64>,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        let numbered = |(index, rule)| NumberedRule { tag: format!("rule:{}", index + 1), rule };
        let rules = rules.into_iter().enumerate().map(numbered).collect();
        Self { script: Arc::new(Script { name, facts, context_tokens, rules }) }
    }
}

impl Script {
    /// The answer of the first matching rule, with its tag.
    fn answer(&self, request: &ModelRequest) -> Option<ScriptedAnswer> {
        let matching = self.rules.iter().find(|numbered| numbered.check(request).is_ok())?;
        Some(matching.rule.answer.clone().tag(&matching.tag))
    }

    fn answer_or_no_match(&self, request: &ModelRequest) -> ScriptedAnswer {
        if let Some(refusal) = self.context_tokens.and_then(|limit| refusal(request, limit)) {
            return refusal;
        }
        self.answer(request).unwrap_or_else(|| ScriptedAnswer::no_match(no_match::text(self, request)))
    }
}

/// The failure of a request that is longer than the model's context.
fn refusal(request: &ModelRequest, context_tokens: u64) -> Option<ScriptedAnswer> {
    let tokens = estimate::tokens(estimate::request_chars(request));
    let message = format!("prompt is too long: {tokens} tokens > {context_tokens} maximum");
    let error = CallError { status: Some(400), ..CallError::new(Code::ContextOverflow, message) };
    (tokens > context_tokens).then(|| ScriptedAnswer::failure(error))
}

impl NumberedRule {
    fn check(&self, request: &ModelRequest) -> Result<(), rule::Mismatch<'_>> {
        // Most rules have no limit, so only rules with a limit look up their tag.
        let used = self.rule.times.map_or(0, |_| request.tags.get(&self.tag).copied().unwrap_or(0));
        self.rule.check(request, used)
    }
}

impl Model for ScriptedModel {
    fn facts(&self) -> ModelFacts {
        self.script.facts
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        // The rule is chosen now and the request dropped, so that ten thousand waiting calls hold no conversation.
        let answer = self.script.answer_or_no_match(&request);
        answer.send_parts(&request, self.script.facts.price, sink)
    }
}

#[cfg(test)]
mod tests;
