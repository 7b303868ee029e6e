//! Opening the session of an agent: its model, its machine, and what it is told before its first turn.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse_agent::conversation::Conversation;
use posse_domain::code::Code;
use posse_domain::event::CallError;
use posse_domain::id::AgentId;

use super::session::{Base, Calls, SalvageProgress, Session, Start, TimeUp};
use super::{Driver, preamble};
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
        let (system, text_hash, tools) = self.preamble_of(id)?;
        // One that begins with its parent's conversation is offered its parent's tools, which is no right to use them.
        let own = if contract.execution.share_history { self.tools_of(id) } else { tools.clone() };
        let skill_dirs = own.skills.dirs.clone();
        let preamble = preamble::of(&text_hash, &system, &tools);
        let facts = model.facts();
        let relays = id.is_root() && self.run.terms.skill.is_some();
        let session = Session {
            machine: if relays { machine.relaying() } else { machine },
            kind,
            model,
            facts,
            system,
            system_hash: text_hash,
            tools,
            skill_dirs,
            preamble,
            asking: None,
            permit: None,
            waiting: None,
            unanswered: None,
            wants_model: false,
            held: false,
            needs_history: false,
            cursor: 0,
            calls: Calls::default(),
            hooks: Vec::new(),
            start: Start::Untold,
            last_activity: "agent.subagent_created",
            ending: None,
            winding: TimeUp::No,
            place: self.known_workspace(id),
            parked: Vec::new(),
            base: Base::Unknown,
            tip: None,
            change: None,
            keeping: SalvageProgress::No,
        };
        self.run.ledger.set_price(id, session.facts.price);
        self.sessions.insert(id.clone(), session);
        Ok(())
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
