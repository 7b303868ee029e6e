//! Spawns children: the request is decided and the child is created in the commit of the reply that contains the call.
//!
//! Why it is like this: `docs/decisions/delegation-spawn-commit.md`.

use posse_domain::budget::price_entry;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, EventBody, ToolIntended};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{NewEvent, Refusal, SpawnFrom, SpawnRequest};
use posse_domain::message::ToolCall;

use super::Driver;
use super::desks::calls::{Admission, HookVerdicts, admit_commands};
use crate::ports::ToolOutput;

impl Driver {
    /// Decides on a child and creates it. `verdicts` are the hook verdicts about its commands.
    pub(super) fn spawn(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
        verdicts: &HookVerdicts,
    ) {
        let message_id = self.core.message_id(id);
        let from = SpawnFrom { parent: id, call_id: &call.id, message_id: Some(&message_id), step: None };
        let class_of = |name: &str| self.core.rt.tools.get(name).map(|tool| tool.class);
        let mut decided = self.core.run.spawn(from, request, &class_of).and_then(|decided| {
            self.check_child_model(id, call, request)?;
            self.check_granted(id, call)?;
            self.check_room(&decided)?;
            Ok(decided)
        });
        if decided.is_ok() {
            match admit_commands(&mut self.core, id, &call.id, request, verdicts) {
                Ok(Admission::Goes) => {}
                Ok(Admission::Asks) => {
                    return self.calls.wait_for_approver(id, &call.id, EffectClass::Delegate);
                }
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
        self.core.emit(id.clone(), intended);
        match decided {
            Ok((child, body)) => {
                self.core.emit(child.clone(), body);
                self.child_created(id, call, &child, request);
            }
            Err(refusal) => {
                self.calls.refuse_spawn(&mut self.core, &self.files, id, call, request, &refusal);
            }
        }
    }

    fn child_created(&mut self, id: &AgentId, call: &ToolCall, child: &AgentId, request: &SpawnRequest) {
        if !self.open_child(child) {
            return;
        }
        if self.core.run.open(child).is_some_and(|agent| agent.background) {
            let text = format!(
                "Started in the background.\n- task_id: {}\n- type: {}\n- description: {}\n\nIts result reaches you as a \
                 message. Use task_status to look at it meanwhile.",
                child.relative(),
                request.skill.as_ref().unwrap_or(&request.definition),
                request.title
            );
            self.answer(id, &call.id, &call.name, Ok(ToolOutput::text(text)));
        } else {
            self.calls.wait_in_engine(id, &call.id);
        }
        self.begin_child(child);
    }

    /// Refuses a delegate tool that is not granted. Admission lets such a call pass, so that a missing spawn right is
    /// reported with the codes for spawning.
    fn check_granted(&self, id: &AgentId, call: &ToolCall) -> Result<(), Refusal> {
        if self.core.run.open(id).is_some_and(|agent| agent.authority.grant().covers(&call.name)) {
            return Ok(());
        }
        let reason = format!("`{}` is not among this agent's tools", call.name);
        Err(Refusal { code: Code::SpawnNotAllowed, reason })
    }

    /// Checks that the child's model exists, and that its price is known if money is limited.
    fn check_child_model(
        &self,
        parent: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
    ) -> Result<(), Refusal> {
        if let Some(replaying) = &self.core.replaying {
            // A replay answers from the recording and needs no model. It repeats a recorded refusal.
            return replaying.refused(parent, &call.id).map_or(Ok(()), Err);
        }
        let invalid = |reason| Refusal { code: Code::InvalidInput, reason };
        let prepared = match self.core.run.requested_skill_of(parent, request) {
            Some(skill) => self.core.run.skill(skill).and_then(|skill| skill.prepared.as_ref()),
            None => self.core.run.prepared_definition(&request.definition),
        };
        let definition = prepared.and_then(|prepared| prepared.definition.model.as_deref());
        let named = request.model.as_deref().or(definition);
        let facts = match named {
            Some(name) => {
                let resolved = self.core.rt.parts.models.resolve(name);
                Some(resolved.map_err(|error| invalid(error.to_string()))?.facts())
            }
            None => self.models.facts(parent),
        };
        let money = request.budget.is_some_and(|budget| budget.usd.is_some());
        if (money || self.core.run.ledger.limits_money(parent))
            && facts.is_none_or(|facts| facts.price.is_none())
        {
            let own = self.core.run.open(parent).map(|agent| agent.contract.execution.model.as_str());
            let model = named.or(own).unwrap_or_default();
            return Err(invalid(format!(
                "the price of `{model}` is unknown, and money is limited: use another model, or have its price set in the \
                 settings, in dollars for a million tokens: `{}`",
                price_entry(model)
            )));
        }
        Ok(())
    }

    /// Checks that the budget with this child still covers the reports of all open agents. A replay repeats the
    /// recorded decision.
    pub(super) fn check_room(&self, (child, body): &NewEvent) -> Result<(), Refusal> {
        let EventBody::SubagentCreated(created) = body else { return Ok(()) };
        if let Some(replaying) = &self.core.replaying {
            return replaying.refused(&created.parent_id, &created.call_id).map_or(Ok(()), Err);
        }
        self.check_time(&created.parent_id)?;
        let price = self.core.rt.parts.models.resolve(&created.contract.execution.model).ok();
        let price = price.and_then(|model| model.facts().price);
        let room =
            self.core.run.ledger.check_room(&created.parent_id, child, &created.contract.budget, price);
        room.map_err(|lacks| Refusal {
            code: Code::BudgetExhausted,
            reason: format!("there is no room for the report of another agent: {lacks}"),
        })
    }

    /// Checks that enough time remains for a child of this agent: at least the time that the agent has for its own
    /// report.
    fn check_time(&self, parent: &AgentId) -> Result<(), Refusal> {
        let now_ms = self.core.rt.parts.system.now_ms();
        let times = self.core.run.report_at_ms(parent, now_ms).zip(self.core.run.deadline_ms(parent, now_ms));
        match times {
            Some((report_at_ms, at_ms)) if report_at_ms - now_ms < at_ms - report_at_ms => Err(Refusal {
                code: Code::BudgetExhausted,
                reason: format!(
                    "not enough time is left for another agent: {} ms until its parent has to report, and it needs at \
                     least {} ms",
                    (report_at_ms - now_ms).max(0),
                    at_ms - report_at_ms
                ),
            }),
            _ => Ok(()),
        }
    }
}
