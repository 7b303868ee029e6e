//! The start of an agent: its session is opened, it passes what it has to wait for, and starts with its first model call.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure};

use super::effects::Effect;
use super::session::{Calls, ModelCallStage, SalvageProgress, Session, Start, StartPoint, TimeUp};
use super::{Driver, Stop};
use crate::history::machine_of;
use crate::ports::{Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink};

impl Driver {
    /// Makes the session of an agent that is in the state.
    pub(super) fn open_session(&mut self, id: &AgentId, prior: Conversation) -> Result<(), String> {
        let agent = self.run.open(id).ok_or("the agent is not open")?;
        let contract = agent.contract.clone();
        let kind = agent.kind.name.clone();
        let replayed = self.replaying.as_ref().map(|replaying| Ok(replaying.model()));
        let resolve = || self.rt.parts.models.resolve(&contract.execution.model);
        let model = match replayed.unwrap_or_else(resolve) {
            Ok(model) => model,
            Err(reason) => {
                // A run can be cancelled without its model; anything else stops before it starts.
                self.missing.get_or_insert(reason);
                Arc::new(NoModel)
            }
        };
        let machine = machine_of(Some(&agent.kind.definition), &contract, prior);
        let parent = id.parent().and_then(|parent| self.sessions.get(&parent));
        let parent = parent.map(|parent| &parent.preamble);
        let preamble = self.preambles.preamble_of(id, &self.run, &self.rt.tools, parent)?;
        let facts = model.facts();
        let relays = id.is_root() && self.run.terms.skill.is_some();
        let session = Session {
            machine: if relays { machine.relaying() } else { machine },
            kind,
            model,
            facts,
            preamble,
            model_call: ModelCallStage::Idle,
            permit: None,
            unanswered: None,
            start_point: StartPoint::Unknown,
            cursor: 0,
            calls: Calls::default(),
            hooks: Vec::new(),
            start: Start::Untold,
            last_activity: "agent.subagent_created",
            ending: None,
            winding: TimeUp::No,
            place: self.known_workspace(id),
            parked: Vec::new(),
            tip: None,
            change: None,
            keeping: SalvageProgress::No,
        };
        self.run.ledger.set_price(id, session.facts.price);
        self.sessions.insert(id.clone(), session);
        Ok(())
    }

    /// Opens the session of a child that was just created.
    pub(super) fn open_child(&mut self, child: &AgentId) -> bool {
        let opened =
            self.shared_now(child).and_then(|shared| self.open_session(child, shared.unwrap_or_default()));
        if let Err(reason) = opened {
            self.poisoned = Some(Stop::Inconsistent(reason));
            return false;
        }
        self.fresh.push(child.clone());
        self.watch_deadline(child);
        self.enqueue_for_merge(child);
        true
    }

    /// Starts a created child, unless it must first read a conversation.
    pub(super) fn begin_child(&mut self, child: &AgentId) {
        let Some(agent) = self.run.open(child) else { return };
        let continues = agent.contract.parent.continues.clone();
        if let Some(of) = continues
            && let Some(session) = self.sessions.get_mut(child)
        {
            session.start_point = StartPoint::History;
            return self.after_commit(Effect::History { agent: child.clone(), of });
        }
        self.mark_ready(child);
    }

    pub(super) fn history_read(&mut self, id: &AgentId, conversation: Result<Conversation, String>) {
        let Some(contract) = self.run.open(id).map(|agent| agent.contract.clone()) else { return };
        let reading = |session: &&mut Session| session.start_point == StartPoint::History;
        let Some(session) = self.sessions.get_mut(id).filter(reading) else { return };
        session.start_point = StartPoint::Unknown;
        match conversation {
            Ok(prior) => {
                // Messages may have come meanwhile: they are events, so the new machine is told of them again.
                let waiting = session.machine.take_inbox();
                session.machine = Machine::new(&contract, prior);
                session.machine.put_inbox(waiting);
                self.mark_ready(id);
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

    /// An agent starts in the commit of its first model call: until then it can be ended without a trace of work. Does
    /// nothing for an agent that has started.
    pub(super) fn start_agent(&mut self, id: &AgentId) {
        let base = self.sessions.get(id).and_then(|session| match session.start_point {
            StartPoint::Snapshot(base) => Some(base),
            StartPoint::History | StartPoint::Unknown | StartPoint::Awaited => None,
        });
        if let Some((id, body)) = self.run.start(id, base) {
            self.emit(id, body);
        }
    }
}

/// Stands in for a model that is not there. It is never asked: a driver with one only ends what it carries.
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
