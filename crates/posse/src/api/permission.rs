//! Questions to people, their answers, and why a rule decides as it does.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::timestamp;
use crate::{Pattern, Request, Rule};

/// A call that waits for a person.
#[derive(Serialize, JsonSchema)]
pub struct Question<'a> {
    agent: &'a str,
    call_id: &'a str,
    /// What it would do, as `tool:specifier`.
    operation: &'a str,
    tool: &'a str,
    arguments: Value,
    /// Which layer asks, and why.
    because: String,
    /// What an answer is bound to: the hash of tool, arguments and contract.
    approval: String,
    asked_at: String,
    /// What the answer "always" would store; null if that would change nothing.
    literal: Option<&'a str>,
}

impl<'a> Question<'a> {
    /// The question of a call.
    pub fn new(request: &'a Request) -> Self {
        Self {
            agent: request.agent.as_str(),
            call_id: &request.call_id,
            operation: &request.operation,
            tool: &request.tool,
            arguments: serde_json::from_str(&request.arguments).unwrap_or_default(),
            because: request.why(),
            approval: request.approval.to_string(),
            asked_at: timestamp(request.asked_at_ms),
            literal: request.always.as_ref().map(Pattern::as_str),
        }
    }
}

/// A question with the answer that was given.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    #[serde(flatten)]
    question: Question<'a>,
    /// `allow` or `deny`.
    decision: &'static str,
    /// Whether the answer was stored for later runs.
    always: bool,
    /// Whether a process executes the run, and reads the answer now.
    carried: bool,
}

impl<'a> Answer<'a> {
    /// An answer to a call; whether a process executes the run.
    pub fn new(request: &'a Request, answer: &crate::Answer, is_executed: bool) -> Self {
        Self {
            question: Question::new(request),
            decision: if answer.allows() { "allow" } else { "deny" },
            always: *answer == crate::Answer::Always,
            carried: is_executed,
        }
    }
}

/// What one permission layer says of an operation.
#[derive(Serialize, JsonSchema)]
pub struct LayerDecision {
    layer: String,
    /// `allow`, `ask` or `deny`; null if the layer says nothing of it.
    decision: Option<String>,
    source: Option<String>,
}

/// Why an agent may or may not do something.
#[derive(Serialize, JsonSchema)]
pub struct Explanation<'a> {
    operation: &'a str,
    /// `allow`, `ask` or `deny`.
    decision: String,
    because: String,
    /// The layer that decides.
    layer: Option<String>,
    /// Its rule, if it is a rule.
    rule: Option<&'a Rule>,
    layers: Vec<LayerDecision>,
    /// What bounds the operation beyond the rules.
    note: Option<&'a str>,
}

impl<'a> Explanation<'a> {
    /// The explanation, with a note on what bounds the operation beyond the rules.
    pub fn new(explanation: &'a crate::Explanation, note: Option<&'a str>) -> Self {
        let layers = explanation.layers.iter().map(|layer| LayerDecision {
            layer: layer.layer.to_string(),
            decision: layer.say.as_ref().map(|say| say.decision.to_string()),
            source: layer.say.as_ref().map(|say| say.source.to_string()),
        });
        Self {
            operation: &explanation.operation,
            decision: explanation.verdict.decision.to_string(),
            because: explanation.verdict.to_string(),
            layer: explanation.verdict.by().map(ToString::to_string),
            rule: explanation.verdict.rule(),
            layers: layers.collect(),
            note,
        }
    }
}
