//! The operations of a run that were refused, each with the source of the refusal.

use std::collections::HashMap;

use posse_domain::code::Code;
use posse_domain::event::{
    AnsweredBy, EventBody, EventKind, InputAnswered, PermissionDecided, QuestionAnswer, SubagentRefused,
    ToolFinished,
};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::step_number;
use posse_domain::permission::{Decision, LayerName};
use posse_domain::printable;
use posse_domain::text::{Text, first_line};

use super::{ViewEvent, ViewPart};

/// Limit of refused operations that are listed; further ones are only counted.
pub const REFUSED_LISTED_MAX: usize = 100;
/// Longest operation in the list.
const OPERATION_MAX_CHARS: usize = 400;
/// Longest reason in the list.
const REASON_MAX_CHARS: usize = 400;

/// What refused an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedBy {
    /// A rule, a definition or a contract denies it.
    Rule,
    /// It needs an approval, and no user could be asked.
    NoApprover,
    /// A user denied it.
    User,
    /// A hook denied it.
    Hook,
    /// The agent does not own the path.
    Ownership,
    /// The agent does not have the tool, or may not have children.
    Grant,
    /// Something that no rule allows: a protected name, a path outside of the workspace, a host that tools may not reach.
    Policy,
    /// This machine has no sandbox for the command.
    Sandbox,
}

/// An operation that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOperation {
    /// The number of the event that ended the call.
    pub seq: u64,
    /// When it was refused, in milliseconds since 1970.
    pub at_ms: i64,
    /// The agent that requested it.
    pub agent: AgentId,
    /// The operation, `tool:specifier`; only the tool if the specifier is not in the journal.
    pub operation: String,
    /// The code of the call's result.
    pub code: Code,
    /// What refused it.
    pub by: RefusedBy,
    /// The source of the refusal in words.
    pub reason: String,
}

/// What is known of a call before its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PendingCall {
    operation: Option<String>,
    decision: Option<Decision>,
    layer: Option<String>,
    rule: Option<String>,
    /// Who denied it, with the reason.
    denied: Option<(AnsweredBy, Option<String>)>,
}

/// The refused operations of a run, in the order of their refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedOperations {
    list: Vec<RefusedOperation>,
    count: u64,
    /// By agent and call. Calls in progress bound their number.
    pending: HashMap<(AgentId, String), PendingCall>,
}

impl RefusedOperations {
    /// The first refused operations, at most [`REFUSED_LISTED_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = &RefusedOperation> {
        self.list.iter()
    }

    /// How many operations were refused in total.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those of an agent and of the agents beneath it. Only listed operations count, because nothing is known of others.
    #[must_use]
    pub fn within(&self, top: &AgentId) -> Self {
        if top.is_root() {
            return self.clone();
        }
        let list: Vec<_> = self.list.iter().filter(|refused| refused.agent.is_within(top)).cloned().collect();
        Self { count: list.len() as u64, list, pending: HashMap::new() }
    }

    /// Lists a step of a plan whose agent was refused: no call of a model ends with that.
    fn step_refused(&mut self, event: &ViewEvent<'_>, e: &SubagentRefused) {
        let by = match e.code {
            Code::PermissionDenied => RefusedBy::Rule,
            Code::SpawnNotAllowed => RefusedBy::Grant,
            _ => return,
        };
        if step_number(&e.call_id).is_none() {
            return;
        }
        self.count += 1;
        if self.list.len() == REFUSED_LISTED_MAX {
            return;
        }
        self.list.push(RefusedOperation {
            seq: event.seq,
            at_ms: event.at_ms,
            agent: event.agent.clone(),
            operation: printable::visible_line(&format!("task:{}", e.definition)),
            code: e.code,
            by,
            reason: printable::line(&first_line(&e.reason, REASON_MAX_CHARS)),
        });
    }

    fn pending(&mut self, agent: &AgentId, call_id: &str) -> &mut PendingCall {
        self.pending.entry((agent.clone(), call_id.to_owned())).or_default()
    }

    fn decided(&mut self, agent: &AgentId, e: &PermissionDecided) {
        let call = self.pending(agent, &e.call_id);
        call.operation = Some(e.operation.clone());
        call.decision = Some(e.decision);
        call.layer.clone_from(&e.layer);
        call.rule = e.rule.as_ref().map(|rule| rule.pattern.to_string());
    }

    fn answered(&mut self, agent: &AgentId, e: &InputAnswered) {
        if e.decision == QuestionAnswer::Deny {
            self.pending(agent, &e.call_id).denied = Some((e.by, e.reason.clone()));
        }
    }

    fn finished(&mut self, event: &ViewEvent<'_>, e: &ToolFinished) {
        let call = self.pending.remove(&(event.agent.clone(), e.call_id.clone()));
        if !e.is_refused() {
            return;
        }
        self.count += 1;
        if self.list.len() == REFUSED_LISTED_MAX {
            return;
        }
        let call = call.unwrap_or_default();
        let (by, reason) = call.source(event.agent, e);
        let operation = call.operation.as_deref().unwrap_or(&e.tool);
        self.list.push(RefusedOperation {
            seq: event.seq,
            at_ms: event.at_ms,
            agent: event.agent.clone(),
            operation: printable::visible_line(&first_line(operation, OPERATION_MAX_CHARS)),
            code: e.code.unwrap_or(Code::PermissionDenied),
            by,
            reason: printable::line(&first_line(&reason, REASON_MAX_CHARS)),
        });
    }
}

impl PendingCall {
    /// What refused the call, and the same in words.
    fn source(&self, agent: &AgentId, e: &ToolFinished) -> (RefusedBy, String) {
        let layer = self.layer.as_deref().and_then(LayerName::parse);
        match (self.decision, &self.denied, layer) {
            _ if e.code == Some(Code::OwnershipViolation) => (RefusedBy::Ownership, stated(e)),
            _ if e.has_no_sandbox() => (RefusedBy::Sandbox, stated(e)),
            _ if e.code == Some(Code::SpawnNotAllowed) => (RefusedBy::Grant, stated(e)),
            (_, Some((AnsweredBy::Person, reason)), _) => {
                let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                (RefusedBy::User, format!("a user denied it{reason}"))
            }
            (Some(Decision::Ask), _, layer) => {
                let asks =
                    layer.map(|layer| format!("; {}", self.rule_words("approval is required by", &layer)));
                let why = if agent.is_root() {
                    "it needs approval, and no user could be asked"
                } else {
                    "it needs approval, and the run does not let sub-agents ask"
                };
                (RefusedBy::NoApprover, format!("{why}{}", asks.unwrap_or_default()))
            }
            (_, _, Some(LayerName::Hook)) => (RefusedBy::Hook, format!("a hook denied it: {}", stated(e))),
            (_, _, Some(layer)) => (RefusedBy::Rule, self.rule_words("denied by", &layer)),
            (Some(_), _, None) if stated(e).contains(NOT_GRANTED) => (RefusedBy::Grant, stated(e)),
            (_, _, None) => (RefusedBy::Policy, stated(e)),
        }
    }

    fn rule_words(&self, verb: &str, layer: &LayerName) -> String {
        let source = match layer {
            LayerName::Operator => "your settings".to_owned(),
            LayerName::Project => "the project's settings".to_owned(),
            LayerName::Run => "the run's options".to_owned(),
            LayerName::Definition { definition } => format!("definition {definition}"),
            LayerName::Contract => "the agent's contract".to_owned(),
            LayerName::Hook => "a hook".to_owned(),
            above @ (LayerName::AncestorDefinition { .. } | LayerName::AncestorContract { .. }) => {
                above.to_string()
            }
        };
        match &self.rule {
            Some(rule) => format!("{verb} rule `{rule}` of {source}"),
            None => format!("{verb} {source}"),
        }
    }
}

/// The words of the permission layer for a tool that the agent does not have.
const NOT_GRANTED: &str = "not among the agent's tools";

/// The reason in a call's result, without the operation that it repeats.
fn stated(e: &ToolFinished) -> String {
    let Text::Here(text) = &e.output else { return "see the call's result".to_owned() };
    let text = first_line(text, REASON_MAX_CHARS);
    // The code is a field of its own.
    let text = e.without_code(&text);
    let inner = text.split_once("is not allowed (deny: ").map(|(_, inner)| inner.trim_end_matches(')'));
    inner.unwrap_or(text).to_owned()
}

impl ViewPart for RefusedOperations {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(
            kind,
            EventKind::PermissionDecided
                | EventKind::InputAnswered
                | EventKind::ToolIntended
                | EventKind::ToolFinished
                | EventKind::ToolInterrupted
                | EventKind::SubagentRefused
        )
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::PermissionDecided(e) => self.decided(event.agent, e),
            EventBody::InputAnswered(e) => self.answered(event.agent, e),
            EventBody::ToolIntended(e) => {
                let specifier = e.specifier.as_ref().map(|specifier| format!(":{specifier}"));
                let operation = format!("{}{}", e.tool, specifier.unwrap_or_default());
                self.pending(event.agent, &e.call_id).operation.get_or_insert(operation);
            }
            EventBody::ToolFinished(e) => self.finished(event, e),
            EventBody::SubagentRefused(e) => self.step_refused(event, e),
            EventBody::ToolInterrupted(e) => {
                self.pending.remove(&(event.agent.clone(), e.call_id.clone()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
