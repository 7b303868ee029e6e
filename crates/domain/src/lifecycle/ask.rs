//! Questions to a user about a call: how they are asked, answered and folded into the state.
//!
//! A question is asked once and answered once. The hash in it binds it to one call and its effect: an answer with
//! another hash is refused. An answer of "always" adds the operation's exact literal to the run's approvals. All of
//! this is folded from events, so it survives a crash. A question is removed from the state with its call's result.
//! While one is open the agent's deadline moves back.

use thiserror::Error;

use super::apply::{IllegalEvent, illegal};
use super::commands::call_of_command;
use super::{AskedQuestion, CommandRefused, NewEvent, Node, OpenAgent, OpenState, QuestionState, Run};
use crate::event::{AnsweredBy, Event, InputAnswered, InputRequested, QuestionAnswer};
use crate::hash::Hash;
use crate::id::AgentId;
use crate::permission::{ANSWER_REASON_MAX_BYTES, Answer, LayerName, OnAsk, Operation, Verdict};
use crate::skill::SKILL_TOOL;
use crate::text::Text;

/// A question to a user about one call.
#[derive(Debug)]
pub struct Question<'a> {
    pub call_id: &'a str,
    /// The operation that the call would execute.
    pub operation: &'a Operation<'a>,
    /// The verdict that asks.
    pub verdict: &'a Verdict,
    /// The call's arguments as JSON.
    pub arguments: Text,
    /// The hash that an answer must name.
    pub approval: Hash,
}

/// Why an answer has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAnswered {
    /// The question does not exist, or it is answered.
    #[error("the call does not wait for a user")]
    NotOpen,
    /// The answer has the hash of another question.
    #[error("the answer is to another question: the call differs from the approved one")]
    OtherQuestion,
}

impl Run {
    /// Whether an `ask` of this agent reaches a user. The root's does if a user attends the process that executes the
    /// run. Any other agent's does only by escalation, which waits for a user.
    pub fn may_ask(&self, id: &AgentId, attended: bool) -> bool {
        let escalates = |agent: &OpenAgent| agent.authority.grant().on_ask == OnAsk::Escalate;
        self.open(id).is_some_and(|agent| (attended && id.is_root()) || escalates(agent))
    }

    /// Asks about a call of a running agent, once.
    pub fn ask(&self, id: &AgentId, question: Question<'_>) -> Result<NewEvent, CommandRefused> {
        let agent = self.commanded(id)?;
        match &agent.state {
            OpenState::Running { .. } => {}
            OpenState::Created { .. }
            | OpenState::WaitingForMerge { .. }
            | OpenState::Completed { .. }
            | OpenState::Failed(_) => return Err(CommandRefused::State(agent.state.name())),
        }
        if agent.questions.contains_key(question.call_id) {
            return Err(CommandRefused::AlreadyAsked);
        }
        let requested = InputRequested {
            call_id: question.call_id.to_owned(),
            operation: question.operation.to_string(),
            tool: question.operation.tool().to_owned(),
            arguments: question.arguments,
            layer: question.verdict.by().map(ToString::to_string),
            rule: question.verdict.rule().cloned(),
            reason: question.verdict.hook_reason().map(str::to_owned),
            approval: question.approval,
        };
        Ok((id.clone(), Box::new(requested).into()))
    }

    /// Answers the open question with this hash. An "always" that would not change later decisions allows only this
    /// call.
    pub fn answer(
        &self,
        id: &AgentId,
        call_id: &str,
        approval: &Hash,
        answer: Answer,
        by: AnsweredBy,
    ) -> Result<NewEvent, NotAnswered> {
        let agent = self.open(id).ok_or(NotAnswered::NotOpen)?;
        let question = agent.questions.get(call_id).ok_or(NotAnswered::NotOpen)?;
        if question.state != QuestionState::Open || self.outcome.is_some() {
            return Err(NotAnswered::NotOpen);
        }
        if question.approval != *approval {
            return Err(NotAnswered::OtherQuestion);
        }
        let lifts = || {
            let operation = Operation::parse(&question.operation);
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

    /// The open questions with agent and call, ordered by id.
    pub fn open_questions(&self) -> impl Iterator<Item = (&AgentId, &str, &AskedQuestion)> {
        let of = |id: &AgentId| self.open(id).map(|agent| &agent.questions);
        self.asking.iter().filter_map(move |id| of(id).map(|questions| (id, questions))).flat_map(
            |(id, questions)| {
                let open = questions.iter().filter(|(_, question)| question.state == QuestionState::Open);
                open.map(move |(call_id, question)| (id, call_id.as_str(), question))
            },
        )
    }

    /// The numbers of the events that describe what the agent waits for now: its open questions, and the start of its wait
    /// for a provider. The root also has events that hold for the whole run: the answers of "always" with their questions, and
    /// the plan with the events that created or refused the children of its steps. A fold over these events finds the same as
    /// a fold over all.
    pub fn events_in_force(&self, id: &AgentId) -> Vec<u64> {
        let mut seqs = Vec::new();
        if let Some(agent) = self.open(id).filter(|_| self.outcome.is_none()) {
            let open = agent.questions.values().filter(|question| question.state == QuestionState::Open);
            seqs.extend(open.map(|question| question.seq));
            seqs.extend(agent.provider_wait.as_ref().map(|wait| wait.seq));
        }
        if id.is_root() {
            seqs.extend(self.always_answers.iter().chain(&self.plan_events));
        }
        seqs.sort_unstable();
        seqs
    }

    /// Whether the agent or an ancestor waits for a user. Then its deadline moves with the clock.
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

    pub(super) fn input_requested(&mut self, event: &Event, e: &InputRequested) -> Result<(), IllegalEvent> {
        let seq = self.seq + 1;
        let agent = self.live(event)?;
        if !matches!(agent.state, OpenState::Running { .. }) {
            return Err(illegal(event, "it is not running"));
        }
        if agent.questions.contains_key(&e.call_id) {
            return Err(illegal(event, "the call already has a question"));
        }
        let question = AskedQuestion {
            operation: e.operation.clone(),
            approval: e.approval,
            by_hook: e.layer == Some(LayerName::Hook.to_string()),
            state: QuestionState::Open,
            seq,
        };
        agent.questions.insert(e.call_id.clone(), question);
        agent.deadline.wait(u64::try_from(event.at_ms).unwrap_or(0));
        self.asking.insert(event.agent.clone());
        Ok(())
    }

    pub(super) fn input_answered(&mut self, event: &Event, e: &InputAnswered) -> Result<(), IllegalEvent> {
        let approvals = self.terms.approvals.clone();
        let agent = self.live(event)?;
        let open = |question: &&mut AskedQuestion| question.state == QuestionState::Open;
        let Some(question) = agent.questions.get_mut(&e.call_id).filter(open) else {
            return Err(illegal(event, "the call does not wait for a user"));
        };
        if question.approval != e.approval {
            return Err(illegal(event, "the answer is to another question"));
        }
        question.state = match e.decision {
            QuestionAnswer::Allow => QuestionState::Allowed,
            QuestionAnswer::Deny => QuestionState::Denied { by: e.by, reason: e.reason.clone() },
        };
        if e.always {
            let operation = Operation::parse(&question.operation);
            let literal = agent.authority.literal_that_lifts(&approvals, &operation);
            let literal = literal.filter(|_| e.decision == QuestionAnswer::Allow);
            let literal =
                literal.ok_or_else(|| illegal(event, "the operation cannot be stored as an approval"))?;
            let asked = question.seq;
            self.terms.approvals = approvals.with(literal);
            self.always_answers.extend([asked, self.seq + 1]);
        }
        self.asks_no_more(&event.agent, event.at_ms);
        Ok(())
    }

    /// A call has its result, so a question about it is closed.
    pub(super) fn call_ended(&mut self, event: &Event, call_id: &str) -> Result<(), IllegalEvent> {
        let agent = self.live(event)?;
        if agent.questions.is_empty() {
            return Ok(());
        }
        if let Some(question) = agent.questions.remove(call_id) {
            let operation = Operation::parse(&question.operation);
            if question.state == QuestionState::Allowed && operation.tool() == SKILL_TOOL {
                agent.consented_skills.extend(operation.specifier().map(str::to_owned));
            }
        }
        agent.questions.retain(|key, _| call_of_command(key) != Some(call_id));
        self.asks_no_more(&event.agent, event.at_ms);
        Ok(())
    }

    /// The child was created or refused, so questions about its commands are closed.
    pub(super) fn commands_decided(&mut self, id: &AgentId, call_id: &str, at_ms: i64) {
        if let Some(Node::Open(agent)) = self.agents.get_mut(id)
            && !agent.questions.is_empty()
        {
            agent.questions.retain(|key, _| call_of_command(key) != Some(call_id));
            self.asks_no_more(id, at_ms);
        }
    }

    /// Resumes the agent's deadline when its last open question closes.
    fn asks_no_more(&mut self, id: &AgentId, at_ms: i64) {
        let Some(Node::Open(agent)) = self.agents.get_mut(id) else { return };
        if agent.questions.values().all(|question| question.state != QuestionState::Open) {
            agent.deadline.resume(u64::try_from(at_ms).unwrap_or(0));
            self.asking.remove(id);
        }
    }
}

fn bounded(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(ANSWER_REASON_MAX_BYTES));
    reason
}
