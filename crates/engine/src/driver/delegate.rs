//! What agents ask of the engine: children, their state, messages, lists. Decided purely, in the commit of the
//! reply that asked.
//!
//! Why it is like this: `docs/decisions/delegation-spawn-commit.md`.

use std::sync::Arc;

use posse_domain::budget::price_entry;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, EventBody, Sender, TodoChanged, ToolIntended};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Cancel, NewEvent, OpenState, Refusal, SpawnFrom, SpawnRequest};
use posse_domain::message::ToolCall;
use posse_domain::text::Text;

use super::Driver;
use super::asking::Admission;
use super::commands::HookVerdicts;
use super::effects::Effect;
use super::results::Answer;
use super::session::{CallInFlight, CallStage, SeenDuringCall};
use super::skills::{answer_of, message_of};
use crate::history::message_id;
use crate::ports::{EngineRequest, ToolFailure, ToolOutput, ToolResult};

impl Driver {
    pub(super) fn request(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        class: EffectClass,
        request: EngineRequest,
    ) {
        let result = match request {
            EngineRequest::Spawn(spawn) => return self.spawn(id, call, &spawn, &HookVerdicts::default()),
            EngineRequest::Skill { name, arguments } => {
                return self.use_skill(id, call, &name, &arguments);
            }
            EngineRequest::Status { task_id, wait_ms } => {
                match self.status(id, call, task_id.as_deref(), wait_ms) {
                    Some(result) => result,
                    None => return,
                }
            }
            EngineRequest::Send { task_id, message } => self.send_to_child(id, &task_id, message),
            EngineRequest::Cancel { task_id, reason } => self.cancel_child(id, &task_id, reason),
            EngineRequest::Close { task_id } => self.close_child(id, &task_id),
            EngineRequest::Todo(items) => {
                let text = format!("The list has {} entries.", items.len());
                self.emit(id.clone(), TodoChanged { items });
                Ok(ToolOutput::text(text))
            }
        };
        debug_assert!(!matches!(class, EffectClass::Exec), "an exec tool is never a request");
        self.answer(id, &call.id, &call.name, result);
    }

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

    /// Opens the session of a child that was just created.
    pub(super) fn open_child(&mut self, child: &AgentId) -> bool {
        let opened =
            self.shared_now(child).and_then(|shared| self.open_session(child, shared.unwrap_or_default()));
        if let Err(reason) = opened {
            self.poisoned = Some(super::Stop::Inconsistent(reason));
            return false;
        }
        self.fresh.push(child.clone());
        self.watch_deadline(child);
        self.enqueue_for_merge(child);
        true
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

    /// Starts a created child, unless it must first read a conversation or wait for another writer.
    pub(super) fn begin_child(&mut self, child: &AgentId) {
        let Some(agent) = self.run.open(child) else { return };
        let continues = agent.contract.parent.continues.clone();
        let writer = agent.writer;
        if let Some(of) = continues
            && let Some(session) = self.sessions.get_mut(child)
        {
            session.needs_history = true;
            return self.after_commit(Effect::History { agent: child.clone(), of });
        }
        if writer { self.begin_writer(child) } else { self.advance(child) }
    }

    /// Starts a writer, or lets it wait for the one that runs.
    pub(super) fn begin_writer(&mut self, id: &AgentId) {
        if self.may_write(id) {
            self.writers.insert(id.clone());
            return self.advance(id);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.held = true;
        }
        self.held_writers.push_back(id.clone());
    }

    pub(super) fn history_read(
        &mut self,
        id: &AgentId,
        conversation: Result<posse_agent::conversation::Conversation, String>,
    ) {
        let Some(contract) = self.run.open(id).map(|agent| agent.contract.clone()) else { return };
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.needs_history) else { return };
        session.needs_history = false;
        match conversation {
            Ok(prior) => {
                // Messages may have come meanwhile: they are events, so the new machine is told of them again.
                let waiting = session.machine.take_inbox();
                session.machine = posse_agent::machine::Machine::new(&contract, prior);
                session.machine.put_inbox(waiting);
                let writer = self.run.open(id).is_some_and(|agent| agent.writer);
                if writer { self.begin_writer(id) } else { self.advance(id) }
            }
            Err(reason) => {
                let failure = posse_domain::lifecycle::Failure {
                    kind: posse_domain::lifecycle::FailKind::Execution,
                    code: Code::StoreError,
                    reason: format!("the conversation to continue cannot be read: {reason}"),
                    report: None,
                };
                self.end_attempt(id, failure);
            }
        }
    }

    /// Whether a writer may start now.
    ///
    /// In workspaces of their own siblings write at once, unless they own the same paths; then the one that was asked
    /// for first goes first. Nobody ever waits for a later one, so no two wait for each other. In place only one
    /// writes at a time, beside those above it, which wait.
    fn may_write(&self, id: &AgentId) -> bool {
        if !self.run.is_isolated() {
            return self.writers.iter().all(|writer| writer.contains(id));
        }
        let (Some(parent), Some(own)) = (id.parent(), id.number()) else { return true };
        let siblings = self.run.open(&parent).map(|parent| &parent.open_children);
        siblings.into_iter().flatten().filter(|&&number| number != own).all(|&number| {
            let sibling = parent.child(number);
            let before = number < own || self.writers.contains(&sibling);
            !before || !self.run.overlap(id, &sibling)
        })
    }

    /// A writer has closed: those that waited for it start.
    pub(super) fn writer_closed(&mut self, id: &AgentId) {
        self.writers.remove(id);
        self.held_writers.retain(|held| held != id);
        loop {
            // One that is ending is concluded by whoever ends it; starting it here would be one call deeper for each.
            let starts = |held: &AgentId| {
                self.sessions.get(held).is_some_and(|session| session.ending.is_none())
                    && self.may_write(held)
            };
            let next = self.held_writers.iter().position(starts);
            let Some(next) = next.and_then(|at| self.held_writers.remove(at)) else { return };
            self.writers.insert(next.clone());
            if let Some(session) = self.sessions.get_mut(&next) {
                session.held = false;
            }
            self.advance(&next);
        }
    }

    /// A call that waits inside the engine: it holds no slot and has no task.
    pub(super) fn wait_in_engine(&mut self, id: &AgentId, call_id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let seen = Arc::new(SeenDuringCall::default());
        let flight = CallInFlight::new(EffectClass::Delegate, CallStage::Waiting, seen);
        session.calls.insert(call_id.into(), flight);
    }

    /// The id of the reply under way, as contracts name it.
    fn message_id(&self, id: &AgentId) -> String {
        let machine = self.sessions.get(id).map(|session| &session.machine);
        machine.map_or_else(String::new, |machine| message_id(machine.attempt(), machine.turn()))
    }

    /// A child has ended: its parent hears of it, exactly once.
    pub(super) fn answer_parent(&mut self, child: &AgentId, mut ended: ChildResult) {
        let Some(parent) = child.parent() else { return };
        if let Some(files) = self.in_the_way.remove(child) {
            ended.result = ended.result.map(|report| {
                format!("{report}\n\nFiles of yours were in the way of its work and were kept as they are: {files}").into()
            });
        }
        if self.run.is_step(child) {
            return self.step_ended(child, &ended.result);
        }
        if self.run.is_run_skill(child) {
            return self.run_skill_ended(child, &ended);
        }
        if ended.background {
            let text = message_of(child, &ended);
            if self.sessions.contains_key(&parent)
                && let Some(received) = self.in_turn(&parent, Sender::Child(child.clone()), text.into())
            {
                self.emit(parent, received);
            }
            return;
        }
        if let Some(session) = self.sessions.get_mut(&parent) {
            session.calls.remove(&ended.call_id);
            let call = session.machine.call_of(&ended.call_id);
            let tool = call.map(|call| call.name.clone()).unwrap_or_default();
            let answer = Answer {
                call_id: &ended.call_id,
                tool: &tool,
                result: answer_of(&tool, child, &ended),
                child: Some(child.clone()),
                seen: Vec::new(),
                elapsed_ms: 0,
            };
            self.finished(&parent, answer);
        }
    }

    fn send_to_child(&mut self, id: &AgentId, task_id: &str, message: String) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        if !self.takes_messages(&child) {
            let text = format!(
                "task {} has ended; start a new task with its task_id to continue it",
                child.relative()
            );
            return Err(ToolFailure::failed(text));
        }
        let text = format!("Task {} gets the message before its next turn.", child.relative());
        self.receive(&child, Sender::Agent(id.clone()), message.into());
        Ok(ToolOutput::text(text))
    }

    /// Whether a message can still reach the agent.
    pub(super) fn takes_messages(&self, id: &AgentId) -> bool {
        let state = self.run.open(id).map(|agent| &agent.state);
        matches!(state, Some(OpenState::Created { .. } | OpenState::Running { .. }))
            && !self.run.is_cancelled(id)
    }

    pub(super) fn receive(&mut self, id: &AgentId, from: Sender, text: Text) {
        let Some(received) = self.in_turn(id, from, text) else { return };
        self.emit(id.clone(), received);
        self.advance(id);
    }

    fn cancel_child(&mut self, id: &AgentId, task_id: &str, reason: String) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        let cancel = Cancel { by: id.to_string(), reason, kill: false };
        if !self.cancel(&child, cancel) {
            let text = format!("Task {} had ended already.", child.relative());
            return Ok(ToolOutput::text(text));
        }
        Ok(ToolOutput::text(format!("Task {} and all below it are cancelled.", child.relative())))
    }

    fn close_child(&mut self, id: &AgentId, task_id: &str) -> ToolResult {
        let child = self.run.own_child(id, task_id).map_err(refused)?;
        if self.run.closed(&child).is_some() {
            return Ok(ToolOutput::text(format!("Task {} is closed.", child.relative())));
        }
        if !self.close(&child) {
            let text = format!("task {} is still working; cancel it first", child.relative());
            return Err(ToolFailure::failed(text));
        }
        let text = format!("Task {} is closed now.", child.relative());
        Ok(ToolOutput::text(text))
    }
}

/// How a child ended, for its parent.
pub(super) struct ChildResult {
    pub(super) call_id: Arc<str>,
    pub(super) background: bool,
    pub(super) definition: String,
    pub(super) skill: Option<String>,
    pub(super) result: Result<Arc<str>, (Code, String)>,
}

impl ChildResult {
    /// Its report, or why it failed.
    pub(super) fn words(&self) -> Result<&str, &str> {
        self.result.as_deref().map_err(|(_, reason)| reason.as_str())
    }
}

pub(super) fn refused(refusal: Refusal) -> ToolFailure {
    ToolFailure { code: refusal.code, text: refusal.reason }
}
