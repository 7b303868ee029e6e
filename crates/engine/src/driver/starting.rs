//! Starts agents: opens the session, waits for a conversation or a snapshot, and starts the agent with its first model
//! call.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{AgentState, CommandRefused, FailKind, Failure};

use super::effects::Effect;
use super::session::{AgentWait, Session, SessionError};
use super::{Driver, Stop};
use crate::history::{HistoryError, continued_conversation, machine_of};
use crate::ports::{Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink};

impl Driver {
    /// The conversation that the root begins with. It is empty, unless the run continues an earlier one.
    pub(super) fn prior_of_root(&self) -> Result<Conversation, SessionError> {
        let prior = self.core.run.continued.as_deref().map(continued_conversation).transpose()?;
        Ok(prior.unwrap_or_default())
    }

    /// Creates the session of an agent that is in the state.
    pub(super) fn open_session(&mut self, id: &AgentId, prior: Conversation) -> Result<(), SessionError> {
        let agent = self.core.run.open(id).ok_or_else(|| SessionError::NotOpen(id.clone()))?;
        let contract = agent.contract.clone();
        let definition = agent.prepared.name.clone();
        let replayed = self.core.replaying.as_ref().map(|replaying| Ok(replaying.model()));
        let resolve = || self.core.rt.parts.models.resolve(&contract.execution.model);
        let model = match replayed.unwrap_or_else(resolve) {
            Ok(model) => model,
            Err(reason) => {
                // Without its model a run can only be cancelled. It is given up before it does anything else.
                self.missing.get_or_insert(reason.to_string());
                Arc::new(NoModel)
            }
        };
        let machine = machine_of(Some(&agent.prepared.definition), &contract, prior);
        let skills = self.preambles.open(id, &self.core.run, &self.core.rt.tools)?;
        let relays = id.is_root() && self.core.run.terms.skill.is_some();
        let machine = if relays { machine.relaying() } else { machine };
        let facts = self.models.open(id, model);
        self.calls.open(id, skills);
        self.files.open(&self.core, id);
        self.core.run.ledger.set_price(id, facts.price);
        self.core.sessions.insert(id.clone(), Session::new(machine, definition));
        Ok(())
    }

    pub(super) fn open_child(&mut self, child: &AgentId) -> bool {
        let opened =
            self.shared_now(child).and_then(|shared| self.open_session(child, shared.unwrap_or_default()));
        if let Err(reason) = opened {
            self.core.stop = Some(Stop::Inconsistent(reason.to_string()));
            return false;
        }
        self.fresh.push(child.clone());
        self.core.watch_deadline(child);
        self.files.enqueue(&self.core, child);
        true
    }

    /// Starts a created child, unless it must first read a conversation.
    pub(super) fn begin_child(&mut self, child: &AgentId) {
        let Some(agent) = self.core.run.open(child) else { return };
        let continues = agent.contract.parent.continues.clone();
        if let Some(of) = continues
            && let Some(session) = self.core.sessions.get_mut(child)
        {
            session.wait = AgentWait::History;
            return self.core.after_commit(Effect::History { agent: child.clone(), of });
        }
        self.core.mark_ready(child);
    }

    /// Takes the conversation that a child continues, or the reason why it could not be read.
    pub(super) fn history_read(&mut self, id: &AgentId, conversation: Result<Conversation, HistoryError>) {
        let Some(contract) = self.core.run.open(id).map(|agent| agent.contract.clone()) else { return };
        let reading = |session: &&mut Session| matches!(session.wait, AgentWait::History);
        let Some(session) = self.core.sessions.get_mut(id).filter(reading) else { return };
        session.wait = AgentWait::Idle;
        match conversation {
            Ok(prior) => {
                // Messages that arrived meanwhile are journalled already, so the new machine must take them over.
                let waiting = session.machine.take_inbox();
                session.machine = Machine::new(&contract, prior);
                session.machine.put_inbox(waiting);
                self.core.mark_ready(id);
            }
            Err(reason) => {
                let failure = Failure {
                    kind: FailKind::Execution,
                    code: Code::StoreError,
                    reason: format!("the conversation to continue cannot be read: {reason}"),
                    report: None,
                };
                self.end_attempt(id, failure);
            }
        }
    }

    /// Starts an agent in the commit of its first model call, so that an agent without a call leaves no trace of work.
    /// Does nothing for an agent that has started.
    pub(super) fn start_agent(&mut self, id: &AgentId) {
        let base = self.files.base_of(id);
        match self.core.run.start(id, base) {
            Ok((id, body)) => self.core.emit(id, body),
            // This is a later model call of the agent.
            Err(CommandRefused::State(AgentState::Running)) => {}
            Err(refused) => self.core.stop_for_refusal(id, "start", refused),
        }
    }
}

/// Stands in for a missing model. It is never called: the driver gives such a run up, or only cancels it.
struct NoModel;

impl Model for NoModel {
    fn facts(&self) -> ModelFacts {
        ModelFacts { context_tokens: 0, max_output_tokens: 0, price: None }
    }

    fn call(
        &self,
        _: ModelRequest,
        _: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let error = CallError::new(Code::ModelError, "the model is not there".to_owned());
        Box::pin(async { Err(ModelFailure::last(error)) })
    }
}
