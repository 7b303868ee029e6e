//! API types of questions to approvers, their answers, and explanations of decisions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::timestamp;
use crate::{Decision, PendingQuestion, Rule};

/// A call that waits for an approver.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The agent that asks.
    pub agent: String,
    /// The id of its call.
    pub call_id: String,
    /// The operation of the call, as `tool:specifier`.
    pub operation: String,
    /// The name of the called tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// The layer that asks, and why.
    pub because: String,
    /// The hash of tool, arguments and contract that an answer is bound to.
    pub approval: String,
    /// When the question was asked.
    pub asked_at: String,
    /// The literal that the answer "always" would store; null if that would change nothing.
    pub literal: Option<String>,
}

impl Question {
    /// Converts an open question.
    pub fn new(request: &PendingQuestion) -> Self {
        Self {
            agent: request.agent.to_string(),
            call_id: request.call_id.clone(),
            operation: request.operation.clone(),
            tool: request.tool.clone(),
            arguments: serde_json::from_str(&request.arguments).unwrap_or_default(),
            because: request.why(),
            approval: request.approval.to_string(),
            asked_at: timestamp(request.asked_at_ms),
            literal: request.always.as_ref().map(ToString::to_string),
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerDecision {
    /// The call may run.
    Allow,
    /// The call must not run.
    Deny,
}

/// A question with the answer that was given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The answered question.
    #[serde(flatten)]
    pub question: Question,
    /// The decision of the approver.
    pub decision: AnswerDecision,
    /// Whether the answer was stored for later runs.
    pub always: bool,
    /// Whether a process executes the run and so acts on the answer now.
    pub carried: bool,
}

impl Answer {
    /// Converts an answer to a call. `is_executed` says whether a process executes the run.
    pub fn new(request: &PendingQuestion, answer: &crate::Answer, is_executed: bool) -> Self {
        Self {
            question: Question::new(request),
            decision: if answer.allows() { AnswerDecision::Allow } else { AnswerDecision::Deny },
            always: *answer == crate::Answer::Always,
            carried: is_executed,
        }
    }
}

/// The decision of one permission layer about an operation.
#[derive(Serialize, JsonSchema)]
pub struct LayerDecision {
    layer: String,
    /// Null if the layer does not decide about the operation.
    decision: Option<Decision>,
    source: Option<String>,
}

/// Why an agent may or may not execute an operation.
#[derive(Serialize, JsonSchema)]
pub struct Explanation<'a> {
    operation: &'a str,
    decision: Decision,
    because: String,
    /// The layer that decides.
    layer: Option<String>,
    /// The rule of that layer, if a rule decides.
    rule: Option<&'a Rule>,
    layers: Vec<LayerDecision>,
    /// A limit of the operation beyond the rules.
    note: Option<&'a str>,
}

impl<'a> Explanation<'a> {
    /// Converts an explanation, with a note about limits beyond the rules.
    pub fn new(explanation: &'a crate::Explanation, note: Option<&'a str>) -> Self {
        let layers = explanation.layers.iter().map(|layer| LayerDecision {
            layer: layer.layer.to_string(),
            decision: layer.say.as_ref().map(|say| say.decision),
            source: layer.say.as_ref().map(|say| say.source.to_string()),
        });
        Self {
            operation: &explanation.operation,
            decision: explanation.verdict.decision,
            because: explanation.verdict.to_string(),
            layer: explanation.verdict.by().map(ToString::to_string),
            rule: explanation.verdict.rule(),
            layers: layers.collect(),
            note,
        }
    }
}
