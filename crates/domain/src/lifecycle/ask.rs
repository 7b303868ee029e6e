//! A call waits for a person: the question, the answer, and what both do to the state.
//!
//! A question is asked once and answered once. It is about one call and is bound to what that call would do by the
//! hash it carries: an answer that names another hash is refused. A yes said "always" adds the operation's exact
//! literal to the run's approvals. All of it is folded from events, so it holds after a crash; a question leaves the
//! state with its call's result, whatever that is. While one is open the agent's deadline stands still.

use thiserror::Error;

use super::apply::{Illegal, illegal};
use super::commands::call_of_command;
use super::{NewEvent, Node, OpenAgent, OpenState, Request, RequestState, Run};
use crate::event::{AnsweredBy, Event, InputAnswered, InputRequested, QuestionAnswer};
use crate::hash::Hash;
use crate::id::AgentId;
use crate::permission::{ANSWER_REASON_MAX_BYTES, Answer, LayerName, OnAsk, Operation, Verdict};
use crate::skill::SKILL_TOOL;
use crate::text::Text;

/// What a person is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The call.
    pub call_id: &'a str,
    /// What it would do.
    pub operation: &'a Operation<'a>,
    /// Who asks.
    pub verdict: &'a Verdict,
    /// What it is called with, as JSON.
    pub arguments: Text,
    /// What an answer must name.
    pub approval: Hash,
}

/// Why an answer has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAnswered {
    /// Nobody waits for it, or not any more.
    #[error("the call does not wait for a person")]
    NotOpen,
    /// It was given to another question.
    #[error("the answer is to another question: what the call would do is not what was approved")]
    OtherQuestion,
}

impl Run {
    /// Whether an `ask` of this agent reaches a person. The root's does if somebody attends to the process that
    /// carries the run; any other only by escalation, which waits until somebody comes.
    pub fn may_ask(&self, id: &AgentId, attended: bool) -> bool {
        let escalates = |agent: &OpenAgent| agent.authority.grant().on_ask == OnAsk::Escalate;
        self.open(id).is_some_and(|agent| (attended && id.is_root()) || escalates(agent))
    }

    /// Asks; nothing if the call has been asked about.
    pub fn ask(&self, id: &AgentId, question: Question<'_>) -> Option<NewEvent> {
        let agent = self.open(id)?;
        if agent.requests.contains_key(question.call_id) {
            return None;
        }
        let requested = InputRequested {
            call_id: question.call_id.to_owned(),
            operation: question.operation.to_string(),
            tool: question.operation.tool().to_owned(),
            arguments: question.arguments,
            layer: question.verdict.by().map(ToString::to_string),
            rule: question.verdict.rule().cloned(),
            reason: question.verdict.said().map(str::to_owned),
            approval: question.approval,
        };
        Some((id.clone(), Box::new(requested).into()))
    }

    /// Answers an open question that has this hash. An "always" that would change nothing is a yes to this call
    /// alone.
    pub fn answer(
        &self,
        id: &AgentId,
        call_id: &str,
        approval: &Hash,
        answer: Answer,
        by: AnsweredBy,
    ) -> Result<NewEvent, NotAnswered> {
        let agent = self.open(id).ok_or(NotAnswered::NotOpen)?;
        let request = agent.requests.get(call_id).ok_or(NotAnswered::NotOpen)?;
        if request.state != RequestState::Open || self.outcome.is_some() {
            return Err(NotAnswered::NotOpen);
        }
        if request.approval != *approval {
            return Err(NotAnswered::OtherQuestion);
        }
        let lifts = || {
            let operation = Operation::parse(&request.operation);
            agent.authority.literal_that_lifts(&self.terms.approvals, &operation).is_some()
        };
        let (decision, always, reason) = match answer {
            Answer::Once => (QuestionAnswer::Allow, false, None),
            Answer::Always => (QuestionAnswer::Allow, lifts(), None),
            Answer::Deny { reason } => (QuestionAnswer::Deny, false, reason.map(bounded)),
        };
        let call_id = call_id.to_owned();
        let answered = InputAnswered { call_id, approval: *approval, decision, always, by, reason };
        Ok((id.clone(), answered.into()))
    }

    /// The questions nobody has answered: agent and call, in the order of their ids.
    pub fn open_requests(&self) -> impl Iterator<Item = (&AgentId, &str, &Request)> {
        let of = |id: &AgentId| self.open(id).map(|agent| &agent.requests);
        self.asking.iter().filter_map(move |id| of(id).map(|requests| (id, requests))).flat_map(
            |(id, requests)| {
                let open = requests.iter().filter(|(_, request)| request.state == RequestState::Open);
                open.map(move |(call_id, request)| (id, call_id.as_str(), request))
            },
        )
    }

    /// Whether the agent, or one above it, waits for a person: then its deadline moves on with the clock.
    pub fn is_stopped(&self, id: &AgentId) -> bool {
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if self.asking.contains(&id) {
                return true;
            }
            at = id.parent();
        }
        false
    }

    pub(super) fn input_requested(&mut self, event: &Event, e: &InputRequested) -> Result<(), Illegal> {
        let agent = self.live(event)?;
        if !matches!(agent.state, OpenState::Running { .. }) {
            return Err(illegal(event, "it is not running"));
        }
        if agent.requests.contains_key(&e.call_id) {
            return Err(illegal(event, "the call was asked about"));
        }
        let request = Request {
            operation: e.operation.clone(),
            approval: e.approval,
            by_hook: e.layer == Some(LayerName::Hook.to_string()),
            state: RequestState::Open,
        };
        agent.requests.insert(e.call_id.clone(), request);
        agent.deadline.wait(u64::try_from(event.at_ms).unwrap_or(0));
        self.asking.insert(event.agent.clone());
        Ok(())
    }

    pub(super) fn input_answered(&mut self, event: &Event, e: &InputAnswered) -> Result<(), Illegal> {
        let approvals = self.terms.approvals.clone();
        let agent = self.live(event)?;
        let open = |request: &&mut Request| request.state == RequestState::Open;
        let Some(request) = agent.requests.get_mut(&e.call_id).filter(open) else {
            return Err(illegal(event, "the call does not wait for a person"));
        };
        if request.approval != e.approval {
            return Err(illegal(event, "the answer is to another question"));
        }
        request.state = match e.decision {
            QuestionAnswer::Allow => RequestState::Allowed,
            QuestionAnswer::Deny => RequestState::Denied { by: e.by, reason: e.reason.clone() },
        };
        if e.always {
            let operation = Operation::parse(&request.operation);
            let literal = agent.authority.literal_that_lifts(&approvals, &operation);
            let literal = literal.filter(|_| e.decision == QuestionAnswer::Allow);
            let literal = literal.ok_or_else(|| illegal(event, "nothing of it can be kept"))?;
            self.terms.approvals = approvals.with(literal);
        }
        self.asks_no_more(&event.agent, event.at_ms);
        Ok(())
    }

    /// A call has its result; a question about it is of the past.
    pub(super) fn call_ended(&mut self, event: &Event, call_id: &str) -> Result<(), Illegal> {
        let agent = self.live(event)?;
        if agent.requests.is_empty() {
            return Ok(());
        }
        if let Some(request) = agent.requests.remove(call_id) {
            let operation = Operation::parse(&request.operation);
            if request.state == RequestState::Allowed && operation.tool() == SKILL_TOOL {
                agent.consented_skills.extend(operation.specifier().map(str::to_owned));
            }
        }
        agent.requests.retain(|key, _| call_of_command(key) != Some(call_id));
        self.asks_no_more(&event.agent, event.at_ms);
        Ok(())
    }

    /// The child that a call or a step asked for is there, or never will be: questions about its commands are of the
    /// past.
    pub(super) fn commands_decided(&mut self, id: &AgentId, call_id: &str, at_ms: i64) {
        if let Some(Node::Open(agent)) = self.agents.get_mut(id)
            && !agent.requests.is_empty()
        {
            agent.requests.retain(|key, _| call_of_command(key) != Some(call_id));
            self.asks_no_more(id, at_ms);
        }
    }

    /// Lets the agent's time run again once none of its questions is open.
    fn asks_no_more(&mut self, id: &AgentId, at_ms: i64) {
        let Some(Node::Open(agent)) = self.agents.get_mut(id) else { return };
        if agent.requests.values().all(|request| request.state != RequestState::Open) {
            agent.deadline.go_on(u64::try_from(at_ms).unwrap_or(0));
            self.asking.remove(id);
        }
    }
}

fn bounded(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(ANSWER_REASON_MAX_BYTES));
    reason
}
