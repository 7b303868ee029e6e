//! API types of questions to approvers, their answers, and explanations of decisions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::timestamp;
use crate::{Decision, Pattern, PendingQuestion, Rule};

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

/// An operation that is always allowed in the runs of a directory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoredApproval {
    /// The whole path of the directory.
    pub dir: String,
    /// The allowed operation, as a pattern without wildcards.
    pub operation: String,
}

impl StoredApproval {
    /// Converts a stored operation.
    pub fn new(dir: &str, operation: &Pattern) -> Self {
        Self { dir: dir.to_owned(), operation: operation.to_string() }
    }
}

/// The decision of one permission layer about an operation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LayerDecision {
    /// The name of the layer.
    pub layer: String,
    /// Null if the layer does not decide about the operation.
    pub decision: Option<Decision>,
    /// What in the layer decides.
    pub source: Option<String>,
}

/// A fact about an operation that the rules do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BeyondRules {
    /// The path is protected. An approval of this pattern, given with the request of a run, opens it.
    OpenedBy {
        /// The pattern to approve.
        pattern: String,
    },
    /// An address that is not public is refused, unless an approval names its host.
    PublicAddressesOnly,
    /// No approver is asked about the network. An approval that is given with the request of a run opens it.
    NetworkInAdvance,
    /// The sandbox limits what the command can do.
    SandboxLimits,
}

impl From<&crate::BeyondRules> for BeyondRules {
    fn from(beyond: &crate::BeyondRules) -> Self {
        match beyond {
            crate::BeyondRules::OpenedBy(pattern) => Self::OpenedBy { pattern: pattern.to_string() },
            crate::BeyondRules::PublicAddressesOnly => Self::PublicAddressesOnly,
            crate::BeyondRules::NetworkInAdvance => Self::NetworkInAdvance,
            crate::BeyondRules::SandboxLimits => Self::SandboxLimits,
        }
    }
}

/// Why an agent may or may not execute an operation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The operation, as `tool:specifier`.
    pub operation: String,
    /// The strictest decision of all layers.
    pub decision: Decision,
    /// Why, in words.
    pub because: String,
    /// The layer that decides.
    pub layer: Option<String>,
    /// The rule of that layer, if a rule decides.
    pub rule: Option<Rule>,
    /// The decision of every layer.
    pub layers: Vec<LayerDecision>,
    /// A limit of the operation beyond the rules, in words.
    pub note: Option<String>,
    /// The same for programs.
    pub beyond_rules: Option<BeyondRules>,
    /// Whether an `ask` is refused, because the agent is a sub-agent and its run does not let sub-agents ask.
    #[serde(default)]
    pub ask_is_refused: bool,
    /// Whether the path is that of a well-known secret file that was kept out of the workspace.
    #[serde(default)]
    pub kept_out: bool,
    /// What limits a command; null for other tools, and for a command that is denied.
    #[serde(default)]
    pub command: Option<CommandLimits>,
    /// The places in the settings of the hooks that run before the operation, and can block it.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// These hooks with their commands, and those of the project that do not run because you do not trust its settings.
    #[serde(default)]
    pub hook_commands: Vec<HookCommand>,
}

/// What a command of an agent can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandLimits {
    /// What the sandbox consists of on this machine; null if there is none, so that commands are refused.
    pub sandbox: Option<String>,
    /// Whether the command has the network of the machine.
    pub network: bool,
    /// Whether the command can change the workspace of its agent. It can always change temporary directories of its own.
    pub can_change_workspace: bool,
}

/// A hook that is called before an operation, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookCommand {
    /// Its place in the settings.
    pub origin: String,
    /// The command.
    pub command: String,
    /// Whether it runs: a hook of a project's settings runs only if you trust them.
    pub runs: bool,
}

impl Explanation {
    /// Converts an explanation, with what lies beyond the rules.
    pub fn new(explained: &crate::ExplainedOperation) -> Self {
        let crate::ExplainedOperation { explanation, is_ask_refused, is_kept_out, command } = explained;
        let beyond = crate::BeyondRules::of(explanation);
        let layers = explanation.layers.iter().map(|layer| LayerDecision {
            layer: layer.layer.to_string(),
            decision: layer.say.as_ref().map(|say| say.decision),
            source: layer.say.as_ref().map(|say| say.source.to_string()),
        });
        Self {
            operation: explanation.operation.clone(),
            decision: explanation.verdict.decision,
            because: explanation.because(),
            layer: explanation.verdict.by().map(ToString::to_string),
            rule: explanation.verdict.rule().cloned(),
            layers: layers.collect(),
            note: beyond.as_ref().map(ToString::to_string),
            beyond_rules: beyond.as_ref().map(BeyondRules::from),
            ask_is_refused: *is_ask_refused,
            kept_out: *is_kept_out,
            command: command.map(|command| CommandLimits {
                sandbox: None,
                network: command.has_network,
                can_change_workspace: command.can_change_workspace,
            }),
            hooks: Vec::new(),
            hook_commands: Vec::new(),
        }
    }

    /// Adds what the sandbox consists of.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Option<String>) -> Self {
        let command = self.command.map(|command| CommandLimits { sandbox, ..command });
        Self { command, ..self }
    }

    /// Adds the hooks that are called before the operation, or would be.
    #[must_use]
    pub fn with_hooks(self, hooks: Vec<HookCommand>) -> Self {
        let running = hooks.iter().filter(|hook| hook.runs).map(|hook| hook.origin.clone());
        Self { hooks: running.collect(), hook_commands: hooks, ..self }
    }
}
