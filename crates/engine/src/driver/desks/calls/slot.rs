//! How a call gets and uses its slot: it waits for its workspace, queues for a slot, is prepared, and acts when its
//! intent is durable.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::{EffectClass, ToolIntended, WriteIntent};
use posse_domain::id::AgentId;
use posse_domain::message::ToolCall;
use serde_json::Value;

use super::admission::consented;
use super::cut::time_is_up;
use super::task::{CallEffect, Limit};
use super::{CallDesk, CallEnd, CallInFlight, CallStage, SeenDuringCall};
use crate::driver::core::Core;
use crate::driver::desks::files::{FilesDesk, files_of};
use crate::driver::effects::Effect;
use crate::driver::session::TimeUp;
use crate::ports::{CallContext, EffectTool, Handler, PreparedEffect, ToolFailure};
use crate::scheduler::{SlotRequest, SlotUse};

impl CallDesk {
    pub(super) fn queue_call(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call: &ToolCall,
        class: EffectClass,
    ) {
        let Some(session) = core.sessions.get(id) else { return };
        let call_id: Arc<str> = call.id.as_str().into();
        let seen = Arc::new(SeenDuringCall::new(session.machine.seen_files().clone()));
        self.insert(id, call_id.clone(), CallInFlight::new(class, CallStage::Queued, seen));
        self.queue_or_park(core, files, id, &call_id, class);
    }

    /// Queues a call for a slot, or parks it until its workspace or its files are free.
    fn queue_or_park(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        class: EffectClass,
    ) {
        let parked = files.hold_call(core, id, class);
        let holds = !parked && class.changes_workspace() && core.run.is_isolated();
        if holds {
            files.begin_change(core, id);
        }
        let (Some(session), Some(agent)) = (core.sessions.get(id), self.agents.get_mut(id)) else { return };
        let Some(call) = agent.calls.get_mut(call_id) else { return };
        call.holds = holds;
        if parked {
            call.stage = CallStage::Parked;
            if !agent.parked.contains(call_id) {
                agent.parked.push(call_id.clone());
            }
            return;
        }
        call.stage = CallStage::Queued;
        let definition = session.definition.clone();
        let what = SlotUse::Call(call_id.clone());
        core.scheduler.request(SlotRequest { agent: id.clone(), definition, what });
    }

    /// Requests the agent's workspace if it has parked calls, and tries these calls again.
    pub(crate) fn advance_parked(&mut self, core: &mut Core, files: &mut FilesDesk, id: &AgentId) {
        if self.agents.get(id).is_some_and(|agent| !agent.parked.is_empty()) {
            files.request_workspace(core, id);
            self.retry_parked(core, files, id);
        }
    }

    /// Tries the parked calls of an agent again, in their order.
    pub(crate) fn retry_parked(&mut self, core: &mut Core, files: &mut FilesDesk, id: &AgentId) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        if agent.parked.is_empty() || !core.is_active(id) {
            return;
        }
        for call_id in std::mem::take(&mut agent.parked) {
            match self.call(id, &call_id).map(|call| (&call.stage, call.class)) {
                Some((CallStage::Hooking, _)) => self.start_pre_tool_hooks(core, files, id, &call_id),
                Some((_, class)) => self.queue_or_park(core, files, id, &call_id, class),
                None => {}
            }
        }
    }

    /// Uses the slot that a queued call was granted.
    pub(crate) fn take_slot(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        definition: &Arc<str>,
    ) {
        let effect = self.effect_of(core, files, id, call_id);
        let call = self.call_mut(id, call_id).filter(|call| matches!(call.stage, CallStage::Queued));
        let (Some((context, tool, input, limit)), Some(call)) = (effect, call) else {
            return core.scheduler.release(definition);
        };
        call.stage = CallStage::Committing;
        let effect = if call.class == EffectClass::Read {
            CallEffect::Read { call: context, tool, input, limit }
        } else {
            CallEffect::Prepare { call: context, tool, input, limit }
        };
        core.after_commit(Effect::Call(Box::new(effect)));
    }

    /// The context, tool, input and limit for the task of a call.
    pub(super) fn effect_of(
        &self,
        core: &Core,
        files: &FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
    ) -> Option<(CallContext, Arc<dyn EffectTool>, Value, Limit)> {
        let agent = core.run.open(id)?;
        let session = core.sessions.get(id).filter(|session| !session.is_ending())?;
        let call = session.machine.call_of(call_id)?;
        let class = self.call(id, call_id)?.class;
        let Handler::Effect(tool) = &core.tool(&call.name)?.handler else { return None };
        let execution = &agent.contract.execution;
        let left = session.time_left_ms(execution);
        let own = tool.timeout(&call.input);
        // A call shows no activity before it ends, so its idle time is all of its time.
        let mut time = Duration::from_millis(left.unwrap_or(u64::MAX).min(execution.idle_timeout_ms));
        if let Some(own) = own {
            time = left.map_or(own, |left| own.min(Duration::from_millis(left)));
        }
        let context = self.context_of(core, files, id, call_id, time)?;
        Some((context, tool.clone(), call.input.clone(), Limit { time, class }))
    }

    /// The agent, directory and limits with which a call runs.
    fn context_of(
        &self,
        core: &Core,
        files: &FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        limit: Duration,
    ) -> Option<CallContext> {
        let agent = core.run.open(id)?;
        let calls = self.agents.get(id)?;
        let call = calls.calls.get(call_id)?;
        let approvals = &core.run.terms.approvals;
        Some(CallContext {
            agent: id.clone(),
            context: Arc::new(agent.contract.context.clone()),
            call_id: call_id.clone(),
            workspace: call_dir(core, files, id),
            files: files_of(core, id),
            seen: call.seen.clone(),
            rules: agent.authority.path_rules(approvals, consented(agent, call_id).as_ref()),
            approvals: approvals.clone(),
            network: call.class == EffectClass::Exec && agent.authority.allows_network(approvals),
            limit,
            idle: Duration::from_millis(agent.contract.execution.idle_timeout_ms),
            stop: call.signal(),
            skills: calls.skills.clone(),
        })
    }

    /// Journals the intent of a prepared call. The call acts when the intent is durable.
    pub(crate) fn prepared(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        result: Result<PreparedEffect, ToolFailure>,
    ) {
        let prepared = match result {
            Ok(prepared) => prepared,
            Err(failure) => {
                return self.ended(core, files, id, call_id, CallEnd::unchanged(Err(failure)));
            }
        };
        let Some(session) = core.sessions.get(id) else { return };
        if session.is_ending() {
            // The agent is ending, and the call has changed nothing yet.
            return self.forget_call(core, files, id, call_id);
        }
        if session.time_up != TimeUp::No {
            return self.ended(core, files, id, call_id, CallEnd::unchanged(Err(time_is_up())));
        }
        let Some(call) = self.call_mut(id, call_id) else { return };
        call.stage = CallStage::Committing;
        let Some((context, _, input, limit)) = self.effect_of(core, files, id, call_id) else { return };
        intend(core, id, call_id, &input, prepared.write.clone(), prepared.sandbox.clone());
        core.after_commit(Effect::Call(Box::new(CallEffect::Run { call: context, prepared, limit })));
    }

    /// Drops a call of an ending agent. Its slot is free, and the agent may be able to end.
    pub(super) fn forget_call(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &str,
    ) {
        if let Some(call) = self.remove(id, call_id) {
            core.release_slot(id);
            files.end_change(core, id, call.holds);
        }
        core.mark_ready(id);
    }

    /// After a crash: finds out whether an interrupted write happened. Returns false if the tool no longer exists.
    pub(crate) fn recover_write(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        tool: &str,
        intent: WriteIntent,
    ) -> bool {
        let handler = core.tool(tool).map(|tool| tool.handler.clone());
        let Some(Handler::Effect(tool)) = handler else { return false };
        let Some(session) = core.sessions.get(id) else { return true };
        let seen = Arc::new(SeenDuringCall::new(session.machine.seen_files().clone()));
        let input = session.machine.call_of(call_id).map(|call| call.input.clone());
        let definition = session.definition.clone();
        let mut call = CallInFlight::new(EffectClass::Write, CallStage::Committing, seen);
        call.holds = core.run.is_isolated();
        self.insert(id, call_id.clone(), call);
        let Some(input) = input else { return true };
        let Some(call) = self.context_of(core, files, id, call_id, Duration::MAX) else { return true };
        // The recovery takes a slot without waiting for it, so it may exceed the limit for a short time.
        core.scheduler.force(&definition);
        if core.run.is_isolated() {
            files.begin_change(core, id);
        }
        core.after_commit(Effect::Call(Box::new(CallEffect::Recover { call, tool, input, intent })));
        true
    }
}

/// The directory of an agent's calls. A call that touches no file may run before the workspace is known.
pub(super) fn call_dir(core: &Core, files: &FilesDesk, id: &AgentId) -> Arc<PathBuf> {
    files.dir_of(id).unwrap_or(&core.run_dir).clone()
}

fn intend(
    core: &mut Core,
    id: &AgentId,
    call_id: &Arc<str>,
    input: &Value,
    write: Option<WriteIntent>,
    sandbox: Option<String>,
) {
    let Some(call) = core.sessions.get(id).and_then(|session| session.machine.call_of(call_id)) else {
        return;
    };
    let Some(tool) = core.tool(&call.name) else { return };
    let intended = ToolIntended {
        call_id: call_id.to_string(),
        tool: tool.name.to_owned(),
        class: tool.class,
        specifier: (tool.specifier)(input),
        write,
        sandbox,
    };
    core.emit(id.clone(), intended);
}
