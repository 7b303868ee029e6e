//! The call desk: executes the tool calls of each agent, from the reply that contains them to their results.
//!
//! A call is admitted (known tool, valid arguments, granted, allowed, owned). It waits for hooks, a user, its workspace
//! and a slot. It is prepared, its intent is journalled, it acts, and its result is journalled. A call with a request
//! to the engine is returned to the driver.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`, `docs/decisions/engine-call-order.md`.

mod admission;
mod commands;
mod committed_files;
mod cut;
mod hook_call;
mod hooks;
mod in_flight;
mod results;
pub(crate) mod skills;
mod slot;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::SKILL_TOOL;
use posse_domain::message::ToolCall;

pub(crate) use self::admission::{Admission, asked_operation};
use self::commands::StepHooks;
pub(crate) use self::commands::{HookVerdicts, StepAdmission, admit_commands};
pub(crate) use self::committed_files::CommittedFiles;
pub(crate) use self::cut::time_is_up;
use self::hooks::PendingHooks;
pub(crate) use self::hooks::{HookEffect, HookOutcome, HookedMoment, wants_stop_hook, wants_stop_hook_again};
use self::in_flight::{CallInFlight, CallStage, Calls, SeenDuringCall};
pub(crate) use self::results::{Answer, CallEnd, OUTPUT_MAX_BYTES};
pub(crate) use self::task::CallEffect;
use super::files::FilesDesk;
use crate::driver::core::Core;
use crate::driver::session::TimeUp;
use crate::ports::{EngineRequest, Handler, SkillDirs, ToolFailure, ToolResult};

/// The call state of one agent.
#[derive(Default)]
struct AgentCalls {
    /// The calls of the reply that is being dispatched.
    reply: Option<Arc<[ToolCall]>>,
    /// Index of the first call of `reply` that is not dispatched yet.
    cursor: usize,
    calls: Calls,
    /// Calls that wait for the agent's workspace or its files, in the order of the reply.
    parked: Vec<Arc<str>>,
    /// The hooks that have not answered yet.
    hooks: Vec<PendingHooks>,
    /// Whether the start hooks of the agent were notified.
    start_hooks_started: bool,
    /// The file directories of the skills that the agent may use.
    skills: Arc<SkillDirs>,
}

/// The result of dispatching a call.
pub(crate) enum Dispatch {
    /// The call is answered, in flight, or waiting.
    Done,
    /// The driver must decide on the call's request to the engine.
    Request(Box<CallRequest>),
}

/// A call with a request to the engine.
pub(crate) struct CallRequest {
    pub(crate) call: ToolCall,
    pub(crate) request: EngineRequest,
    /// The verdicts of hooks about the call's commands.
    pub(crate) verdicts: HookVerdicts,
}

#[derive(Default)]
pub(crate) struct CallDesk {
    agents: HashMap<AgentId, AgentCalls>,
    /// Hooks about the commands of a plan's steps, by the call id of the step. They are notified again after a crash.
    step_hooks: BTreeMap<String, StepHooks>,
}

impl CallDesk {
    pub(crate) fn open(&mut self, id: &AgentId, skills: Arc<SkillDirs>) {
        self.agents.insert(id.clone(), AgentCalls { skills, ..AgentCalls::default() });
    }

    /// Resets the calls for a new attempt.
    pub(crate) fn open_attempt(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id) {
            (agent.reply, agent.cursor, agent.calls) = (None, 0, Calls::default());
        }
    }

    pub(crate) fn close(&mut self, id: &AgentId) {
        self.agents.remove(id);
    }

    fn call(&self, id: &AgentId, call_id: &str) -> Option<&CallInFlight> {
        self.agents.get(id)?.calls.get(call_id)
    }

    fn call_mut(&mut self, id: &AgentId, call_id: &str) -> Option<&mut CallInFlight> {
        self.agents.get_mut(id)?.calls.get_mut(call_id)
    }

    fn insert(&mut self, id: &AgentId, call_id: Arc<str>, call: CallInFlight) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.calls.insert(call_id, call);
        }
    }

    fn remove(&mut self, id: &AgentId, call_id: &str) -> Option<CallInFlight> {
        self.agents.get_mut(id)?.calls.remove(call_id)
    }

    pub(crate) fn is_in_flight(&self, id: &AgentId, call_id: &str) -> bool {
        self.call(id, call_id).is_some()
    }

    /// Ends the wait of a call that waited inside the engine.
    pub(crate) fn end_wait(&mut self, id: &AgentId, call_id: &str) {
        self.remove(id, call_id);
    }

    /// Whether a call of the agent waits inside the engine.
    pub(crate) fn waits_in_engine(&self, id: &AgentId) -> bool {
        let agent = self.agents.get(id);
        agent.is_some_and(|agent| agent.calls.values().any(|call| matches!(call.stage, CallStage::Waiting)))
    }

    /// Whether a call of the agent is under way that can end without a user's answer.
    pub(crate) fn has_calls_under_way(&self, id: &AgentId) -> bool {
        let agent = self.agents.get(id);
        agent.is_some_and(|agent| agent.calls.values().any(|call| !matches!(call.stage, CallStage::Asking)))
    }

    /// Whether all calls of the agent wait for a child, a status or a user.
    pub(crate) fn only_waits(&self, id: &AgentId) -> bool {
        let waits = |call: &CallInFlight| matches!(call.stage, CallStage::Waiting | CallStage::Asking);
        self.agents.get(id).is_none_or(|agent| agent.calls.values().all(waits))
    }

    /// Whether no call and no hook of the agent can still act outside the engine.
    pub(crate) fn is_quiet(&self, id: &AgentId) -> bool {
        let Some(agent) = self.agents.get(id) else { return true };
        let runs = |call: &CallInFlight| matches!(call.stage, CallStage::Running(_));
        agent.hooks.is_empty() && !agent.calls.values().any(runs)
    }

    /// Aborts every task of every agent, because the driver gives the run up. A write in progress completes by itself.
    pub(crate) fn abort_all(&self) {
        for agent in self.agents.values() {
            for task in agent.hooks.iter().filter_map(PendingHooks::task) {
                task.abort();
            }
            for call in agent.calls.values() {
                if let CallStage::Running(task) = &call.stage {
                    task.abort();
                }
            }
        }
    }

    /// Makes a call wait inside the engine, for a child or a status. It holds no slot and has no task.
    pub(crate) fn wait_in_engine(&mut self, id: &AgentId, call_id: &str) {
        let call = CallInFlight::new(EffectClass::Delegate, CallStage::Waiting, Arc::default());
        self.insert(id, call_id.into(), call);
    }

    /// Makes a call wait for a user. It keeps its position among the calls of its reply.
    pub(crate) fn wait_for_approver(&mut self, id: &AgentId, call_id: &str, class: EffectClass) {
        self.insert(id, call_id.into(), CallInFlight::new(class, CallStage::Asking, Arc::default()));
    }

    /// Dispatches the next call of the reply that may start now. Returns `None` if no call may.
    pub(crate) fn dispatch_next(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
    ) -> Option<Dispatch> {
        let session = core.sessions.get(id).filter(|session| !session.is_ending())?;
        let agent = self.agents.get_mut(id)?;
        // `None` after the last call was answered: the turn is over.
        let calls = session.machine.shared_calls()?;
        if agent.reply.as_ref().is_none_or(|reply| !Arc::ptr_eq(reply, &calls)) {
            (agent.reply, agent.cursor) = (Some(calls.clone()), 0);
        }
        loop {
            let call = calls.get(agent.cursor)?;
            if session.machine.is_answered(agent.cursor) || agent.calls.get(&call.id).is_some() {
                agent.cursor += 1;
                continue;
            }
            let class = core.tool(&call.name).map(|tool| tool.class);
            if class.is_some_and(|class| agent.blocks(core, id, call, class)) {
                return None;
            }
            agent.cursor += 1;
            return Some(self.dispatch_one(core, files, id, call));
        }
    }

    /// Dispatches a call again after a user has answered its question. Returns `None` if no such call waits.
    pub(crate) fn dispatch_answered(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &str,
    ) -> Option<Dispatch> {
        let session = core.sessions.get(id).filter(|session| !session.is_ending())?;
        let asks = self.call(id, call_id).is_some_and(|call| matches!(call.stage, CallStage::Asking));
        let call = session.machine.call_of(call_id).filter(|_| asks).cloned()?;
        self.remove(id, call_id);
        Some(self.dispatch_one(core, files, id, &call))
    }

    fn dispatch_one(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call: &ToolCall,
    ) -> Dispatch {
        if core.sessions.get(id).is_some_and(|session| session.time_up != TimeUp::No) {
            self.answer(core, files, id, &call.id, &call.name, Err(time_is_up()));
            return Dispatch::Done;
        }
        if self.hold_for_hooks(core, files, id, call) {
            return Dispatch::Done;
        }
        self.dispatch(core, files, id, call, HookVerdicts::default())
    }

    /// Dispatches a call for which no hook is pending.
    fn dispatch(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call: &ToolCall,
        mut verdicts: HookVerdicts,
    ) -> Dispatch {
        let admission = match admission::admit(core, files, id, call, verdicts.call.take()) {
            Ok(admission) => admission,
            Err(failure) => {
                self.answer(core, files, id, &call.id, &call.name, Err(failure));
                return Dispatch::Done;
            }
        };
        let Some(tool) = core.tool(&call.name).cloned() else { return Dispatch::Done };
        if let Admission::Asks = admission {
            self.ask_about_commands(core, files, id, call, tool.class, &verdicts);
            return Dispatch::Done;
        }
        match &tool.handler {
            Handler::Request(handler) => match handler.request(call.input.clone()) {
                Ok(request) => {
                    let call = call.clone();
                    return Dispatch::Request(Box::new(CallRequest { call, request, verdicts }));
                }
                Err(failure) => self.answer(core, files, id, &call.id, &call.name, Err(failure)),
            },
            Handler::Effect(_) => self.queue_call(core, files, id, call, tool.class),
        }
        Dispatch::Done
    }

    /// Answers a call that no task executed.
    pub(crate) fn answer(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call_id: &str,
        tool: &str,
        result: ToolResult,
    ) {
        let files_after = CommittedFiles::default();
        let answer = Answer {
            call_id,
            tool,
            result,
            child: None,
            seen: Vec::new(),
            files: files_after,
            elapsed_ms: 0,
        };
        self.finish(core, files, id, answer);
    }

    /// Answers a call of the current reply that is no longer in flight.
    pub(crate) fn answer_waiting(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call_id: &str,
        result: ToolResult,
    ) {
        self.remove(id, call_id);
        let call = core.sessions.get(id).and_then(|session| session.machine.call_of(call_id));
        let tool = call.map(|call| call.name.clone()).unwrap_or_default();
        self.answer(core, files, id, call_id, &tool, result);
    }
}

impl AgentCalls {
    /// Whether an unfinished call prevents a call of `class` from starting. A call that spawns also waits for the
    /// pending hooks of earlier calls that spawn. Children are therefore numbered in request order, whichever hook
    /// answers first.
    fn blocks(&self, core: &Core, id: &AgentId, call: &ToolCall, class: EffectClass) -> bool {
        // A skill may have to be forked.
        let spawns = |call: &ToolCall, class| class == EffectClass::Delegate || call.name == SKILL_TOOL;
        let machine = core.sessions.get(id).map(|session| &session.machine);
        let is_spawn = |call_id: &str| {
            let call = machine.and_then(|machine| machine.call_of(call_id)).zip(self.calls.get(call_id));
            call.is_some_and(|(call, in_flight)| spawns(call, in_flight.class))
        };
        let mut hooked = self.hooks.iter().filter_map(PendingHooks::before);
        self.calls.block(class) || (spawns(call, class) && hooked.any(is_spawn))
    }
}

impl Core {
    /// Marks the agent if its turn is over because the last call of its reply was answered at once. The turn machine
    /// then decides on the next step.
    pub(crate) fn mark_if_turn_over(&mut self, id: &AgentId) {
        if self.sessions.get(id).is_some_and(|session| session.machine.shared_calls().is_none()) {
            self.mark_ready(id);
        }
    }
}

fn not_open() -> ToolFailure {
    ToolFailure::failed("the agent is not open")
}
