//! Spawning: a request for a child is decided, and the child is created, in the commit of the reply that asked.
//!
//! Why it is like this: `docs/decisions/delegation-spawn-commit.md`.

use posse_domain::budget::price_entry;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, EventBody, ToolIntended};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{NewEvent, Refusal, SpawnFrom, SpawnRequest};
use posse_domain::message::ToolCall;

use super::Driver;
use super::asking::Admission;
use super::commands::HookVerdicts;
use crate::history::message_id;
use crate::ports::{ToolFailure, ToolOutput};

impl Driver {
    /// Decides on a child and creates it; `heard` is what hooks said of its commands.
    pub(super) fn spawn(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
        heard: &HookVerdicts,
    ) {
        let message_id = self.message_id(id);
        let from = SpawnFrom { parent: id, call_id: &call.id, message_id: Some(&message_id), step: None };
        let class_of = |name: &str| self.rt.tools.get(name).map(|tool| tool.class);
        let mut decided = self.run.spawn(from, request, &class_of).and_then(|decided| {
            self.check_child_model(id, call, request)?;
            self.check_granted(id, call)?;
            self.check_room(&decided)?;
            Ok(decided)
        });
        if decided.is_ok() {
            match self.admit_commands(id, &call.id, request, heard) {
                Ok(Admission::Goes) => {}
                Ok(Admission::Asks) => return self.wait_for_person(id, &call.id, EffectClass::Delegate),
                Err(refusal) => decided = Err(refusal),
            }
        }
        let named: String = request.skill.as_ref().unwrap_or(&request.definition).chars().take(64).collect();
        let intended = ToolIntended {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            class: EffectClass::Delegate,
            specifier: Some(named),
            write: None,
            sandbox: None,
        };
        self.emit(id.clone(), intended);
        match decided {
            Ok((child, body)) => {
                self.emit(child.clone(), body);
                self.child_created(id, call, &child, request);
            }
            Err(refusal) => self.refuse_spawn(id, call, request, &refusal),
        }
    }

    /// A call waits for a person; whatever they have to say of its commands is asked at once.
    pub(super) fn ask_about_commands(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        class: EffectClass,
        heard: &HookVerdicts,
    ) {
        if let Some(request) = self.commanding(call) {
            let message_id = self.message_id(id);
            let from = SpawnFrom { parent: id, call_id: &call.id, message_id: Some(&message_id), step: None };
            let admitted = if self.could_spawn(from, &request) {
                self.admit_commands(id, &call.id, &request, heard)
            } else {
                Ok(Admission::Asks)
            };
            if let Err(refusal) = admitted {
                return self.refuse_spawn(id, call, &request, &refusal);
            }
        }
        self.wait_for_person(id, &call.id, class);
    }

    /// Records that a call gets no child, and says why.
    pub(super) fn refuse_spawn(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
        refusal: &Refusal,
    ) {
        let named: String = request.skill.as_ref().unwrap_or(&request.definition).chars().take(64).collect();
        let from = SpawnFrom { parent: id, call_id: &call.id, message_id: None, step: None };
        let (parent, body) = self.run.refuse(from, &named, refusal);
        self.emit(parent, body);
        let failure = ToolFailure { code: refusal.code, text: refusal.reason.clone() };
        self.answer(id, &call.id, &call.name, Err(failure));
    }

    fn child_created(&mut self, id: &AgentId, call: &ToolCall, child: &AgentId, request: &SpawnRequest) {
        if !self.open_child(child) {
            return;
        }
        if self.run.open(child).is_some_and(|agent| agent.background) {
            let text = format!(
                "Started in the background.\n- task_id: {}\n- type: {}\n- description: {}\n\nIts result reaches you as a \
                 message. Use task_status to look at it meanwhile.",
                child.relative(),
                request.skill.as_ref().unwrap_or(&request.definition),
                request.title
            );
            self.answer(id, &call.id, &call.name, Ok(ToolOutput::text(text)));
        } else {
            self.wait_in_engine(id, &call.id);
        }
        self.begin_child(child);
    }

    /// A delegate tool that is not granted has come this far for the codes of spawning, and no further.
    fn check_granted(&self, id: &AgentId, call: &ToolCall) -> Result<(), Refusal> {
        if self.run.open(id).is_some_and(|agent| agent.authority.grant().covers(&call.name)) {
            return Ok(());
        }
        let reason = format!("`{}` is not among this agent's tools", call.name);
        Err(Refusal { code: Code::SpawnNotAllowed, reason })
    }

    /// Whether the child's model is there, and has a price if money is limited.
    fn check_child_model(
        &self,
        parent: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
    ) -> Result<(), Refusal> {
        if let Some(replaying) = &self.replaying {
            // Answered from the record, whatever the models are called: what had none then has none now.
            return replaying.refused(parent, &call.id).map_or(Ok(()), Err);
        }
        let invalid = |reason| Refusal { code: Code::InvalidInput, reason };
        let kind = match self.run.wanted_skill_of(parent, request) {
            Some(skill) => self.run.skill(skill).and_then(|skill| skill.kind.as_ref()),
            None => self.run.prepared_definition(&request.definition),
        };
        let definition = kind.and_then(|kind| kind.definition.model.as_deref());
        let named = request.model.as_deref().or(definition);
        let facts = match named {
            Some(name) => Some(self.rt.parts.models.resolve(name).map_err(invalid)?.facts()),
            None => self.sessions.get(parent).map(|session| session.facts),
        };
        let money = request.budget.is_some_and(|budget| budget.usd.is_some());
        if (money || self.run.ledger.limits_money(parent)) && facts.is_none_or(|facts| facts.price.is_none())
        {
            let own = self.run.open(parent).map(|agent| agent.contract.execution.model.as_str());
            let model = named.or(own).unwrap_or_default();
            return Err(invalid(format!(
                "the price of `{model}` is unknown, and money is limited: use another model, or have its price set in the \
                 settings, in dollars for a million tokens: `{}`",
                price_entry(model)
            )));
        }
        Ok(())
    }

    /// Whether a child leaves room for the report of every open agent. A replay takes that from its record.
    pub(super) fn check_room(&self, (child, body): &NewEvent) -> Result<(), Refusal> {
        let EventBody::SubagentCreated(created) = body else { return Ok(()) };
        if let Some(replaying) = &self.replaying {
            return replaying.refused(&created.parent_id, &created.call_id).map_or(Ok(()), Err);
        }
        self.check_time(&created.parent_id)?;
        let price = self.rt.parts.models.resolve(&created.contract.execution.model).ok();
        let price = price.and_then(|model| model.facts().price);
        let room = self.run.ledger.check_room(&created.parent_id, child, &created.contract.budget, price);
        room.map_err(|lacks| Refusal {
            code: Code::BudgetExhausted,
            reason: format!("there is no room for the report of another agent: {lacks}"),
        })
    }

    /// Whether there is time for a child of this agent: as much as the agent has for its own report.
    fn check_time(&self, parent: &AgentId) -> Result<(), Refusal> {
        let now_ms = self.rt.parts.system.now_ms();
        let times = self.run.report_at_ms(parent, now_ms).zip(self.run.deadline_ms(parent, now_ms));
        match times {
            Some((report_at_ms, at_ms)) if report_at_ms - now_ms < at_ms - report_at_ms => Err(Refusal {
                code: Code::BudgetExhausted,
                reason: format!(
                    "there is no time for the work and the report of another agent: {} ms are left for work",
                    (report_at_ms - now_ms).max(0)
                ),
            }),
            _ => Ok(()),
        }
    }

    /// The id of the reply under way, as contracts name it.
    fn message_id(&self, id: &AgentId) -> String {
        let machine = self.sessions.get(id).map(|session| &session.machine);
        machine.map_or_else(String::new, |machine| message_id(machine.attempt(), machine.turn()))
    }
}
