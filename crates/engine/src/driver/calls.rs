//! Tool calls: decide -> journal the intent -> run -> journal the result.
//!
//! Why it is like this: `docs/decisions/engine-call-order.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{EffectClass, PermissionDecided, ToolIntended};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{BASH, DELEGATE_TO_AGENT, SKILL_TOOL};
use posse_domain::message::ToolCall;
use posse_domain::ownership;
use posse_domain::permission::{Decision, DecisionReason, Doubt, Operation, Verdict};
use serde_json::Value;

use super::Driver;
use super::acting::Limit;
use super::asking::{Admission, consented};
use super::commands::HookVerdicts;
use super::effects::Effect;
use super::place::WorkspaceState;
use super::session::{CallInFlight, CallStage, SeenDuringCall, TimeUp};
use super::skills::{TASK, skill_of};
use super::winding::too_late;
use crate::ports::{
    CallContext, EffectTool, EngineRequest, Handler, PreparedEffect, ToolFailure, WORKSPACE_SHOWN_AT,
};

/// Longest part of an operation that an answer repeats.
const OPERATION_SHOWN_MAX_CHARS: usize = 400;

impl Driver {
    /// Starts the calls of the reply that may start now, in their order.
    pub(super) fn dispatch_calls(&mut self, id: &AgentId) {
        let Some(calls) = self.sessions.get(id).and_then(|session| session.machine.shared_calls()) else {
            return;
        };
        loop {
            let Some(session) = self.sessions.get_mut(id) else { return };
            // The call before was the last without a result: its turn is over, and these calls are of the past.
            if session.machine.shared_calls().is_none_or(|open| !Arc::ptr_eq(&open, &calls)) {
                return;
            }
            let Some(call) = calls.get(session.cursor) else { return };
            if session.machine.is_answered(session.cursor) || session.calls.get(&call.id).is_some() {
                session.cursor += 1;
                continue;
            }
            let class = self.rt.tools.get(call.name.as_str()).map(|tool| tool.class);
            let Some(session) = self.sessions.get_mut(id) else { return };
            if class.is_some_and(|class| session.blocks(call, class)) {
                return;
            }
            session.cursor += 1;
            self.dispatch_one(id, call);
            if self.poisoned.is_some() || self.sessions.get(id).is_none_or(|session| session.ending.is_some())
            {
                return;
            }
        }
    }

    pub(super) fn dispatch_one(&mut self, id: &AgentId, call: &ToolCall) {
        if self.winds_up(id) {
            self.answer(id, &call.id, &call.name, Err(too_late()));
            return self.mark_if_turn_over(id);
        }
        if !self.hold_for_hooks(id, call) {
            self.dispatch_hooked(id, call, HookVerdicts::default());
        }
    }

    /// Dispatches a call whose hooks have answered.
    pub(super) fn dispatch_hooked(&mut self, id: &AgentId, call: &ToolCall, heard: HookVerdicts) {
        self.dispatch(id, call, heard);
        self.submit_if_full();
    }

    fn dispatch(&mut self, id: &AgentId, call: &ToolCall, mut heard: HookVerdicts) {
        let admitted = self.admit(id, call, heard.call.take());
        if let Err(failure) = admitted {
            self.answer(id, &call.id, &call.name, Err(failure));
            return self.mark_if_turn_over(id);
        }
        let Some(tool) = self.tool(&call.name).cloned() else { return };
        if let Ok(Admission::Asks) = admitted {
            return self.ask_about_commands(id, call, tool.class, &heard);
        }
        match &tool.handler {
            Handler::Request(handler) => match handler.request(call.input.clone()) {
                Ok(EngineRequest::Spawn(request)) => self.spawn(id, call, &request, &heard),
                Ok(request) => self.request(id, call, tool.class, request),
                Err(failure) => self.answer(id, &call.id, &call.name, Err(failure)),
            },
            Handler::Effect(_) => self.queue_call(id, call, tool.class),
        }
        self.mark_if_turn_over(id);
    }

    /// The last call of a reply was answered on the spot: the turn is over, so the machine goes on.
    fn mark_if_turn_over(&mut self, id: &AgentId) {
        let over = self.sessions.get(id).is_some_and(|session| session.machine.shared_calls().is_none());
        if over {
            self.mark_ready(id);
        }
    }

    /// Whether a call may run at all. Any doubt is a no, with a reason the model can act on.
    fn admit(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        hooks: Option<Verdict>,
    ) -> Result<Admission, ToolFailure> {
        let Some(agent) = self.run.open(id) else { return Err(ToolFailure::failed("the agent is not open")) };
        let Some(tool) = self.rt.tools.get(call.name.as_str()) else {
            let known =
                agent.authority.grant().allowed_tools.iter().map(ToString::to_string).collect::<Vec<_>>();
            let name: String = call.name.chars().take(64).collect();
            let text = format!("there is no tool `{name}`; you have: {}", known.join(", "));
            return Err(ToolFailure { code: Code::UnknownTool, text });
        };
        if let Value::String(raw) = &call.input {
            let reason =
                serde_json::from_str::<Value>(raw).err().map_or("not an object".into(), |e| e.to_string());
            return Err(ToolFailure::invalid(format!("the arguments are not valid JSON: {reason}")));
        }
        if !call.input.is_object() {
            return Err(ToolFailure::invalid("the arguments must be a JSON object"));
        }
        // The right to spawn has codes of its own, the same whether or not the tool was offered.
        if tool.class == EffectClass::Delegate && !agent.authority.grant().covers(tool.name) {
            if [TASK, DELEGATE_TO_AGENT].contains(&tool.name) {
                return Ok(Admission::Goes);
            }
            let text = "this agent may not have children, so it has no tasks".to_owned();
            return Err(ToolFailure { code: Code::SpawnNotAllowed, text });
        }
        let specifier = (tool.specifier)(&call.input);
        let class = tool.class;
        let mut operation = Operation::new(tool.name, specifier.as_deref()).in_dir(starts_in(call));
        let mut verdict = agent.authority.decide(&self.run.terms.approvals, &operation);
        // A rule about a skill binds every way to it.
        let in_hand = self.run.skill_in_hand(agent);
        let skill = skill_of(tool.name, specifier.as_deref(), &call.input, in_hand);
        let skill = skill.or_else(|| self.continued_skill(id, call));
        if let Some(name) = &skill
            && let Some(ruling) = self.run.skill_ruling(agent, name)
            && ruling.decision != Decision::Allow
            && ruling.decision <= verdict.decision
        {
            operation = Operation::new(SKILL_TOOL, Some(name));
            verdict = ruling;
        }
        let verdict = match hooks {
            Some(hooks) => verdict.meet(hooks),
            None => verdict,
        };
        let owns = &agent.contract.step.owns;
        let outside = class == EffectClass::Write
            && !owns.is_empty()
            && specifier
                .as_deref()
                .is_some_and(|path| !owns.iter().any(|owned| ownership::holds(owned, path)));
        if verdict.decision != Decision::Deny && outside {
            // Nobody is asked about what could not be done anyway.
            let text = format!("this agent may only change {}", owns.join(", "));
            return Err(ToolFailure { code: Code::OwnershipViolation, text });
        }
        if !agent.requests.is_empty() && agent.requests.contains_key(&call.id) {
            return self.resolve_answer(id, call, &operation, &verdict);
        }
        match verdict.decision {
            Decision::Allow => return Ok(Admission::Goes),
            Decision::Ask => return self.ask(id, &call.id, call, &operation, &verdict),
            Decision::Deny => {}
        }
        let mut text = format!("`{}` is not allowed ({verdict})", brief(&operation));
        if verdict.because == DecisionReason::Doubt(Doubt::NotBeneath) {
            // Models like to write whole paths; tell them the one that would have been right.
            let inside = specifier.as_deref().and_then(|path| self.inside(id, Path::new(path)));
            if let Some(inside) = inside.filter(|inside| !inside.as_os_str().is_empty()) {
                let _ = write!(text, "; write it as `{}`", inside.display());
            }
        }
        self.emit_decision(id, &call.id, &operation, &verdict);
        Err(ToolFailure { code: Code::PermissionDenied, text })
    }

    /// Journals what the rules said, where that was not simply yes.
    pub(super) fn emit_decision(
        &mut self,
        id: &AgentId,
        call_id: &str,
        operation: &Operation<'_>,
        verdict: &Verdict,
    ) {
        let decided = PermissionDecided {
            call_id: call_id.to_owned(),
            operation: operation.to_string(),
            decision: verdict.decision,
            layer: verdict.by().map(ToString::to_string),
            rule: verdict.rule().cloned(),
        };
        self.emit(id.clone(), decided);
    }

    fn queue_call(&mut self, id: &AgentId, call: &ToolCall, class: EffectClass) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let call_id: Arc<str> = call.id.as_str().into();
        let seen = Arc::new(SeenDuringCall::new(session.machine.seen_files().clone()));
        session.calls.insert(call_id.clone(), CallInFlight::new(class, CallStage::Queued, seen));
        self.queue_or_park(id, &call_id, class);
    }

    /// A queued call has its slot.
    pub(super) fn run_call(&mut self, id: &AgentId, call_id: &Arc<str>, kind: &Arc<str>) {
        let Some((context, tool, input, limit)) = self.effect_of(id, call_id) else {
            return self.scheduler.release(kind);
        };
        let Some(flight) = self.sessions.get_mut(id).and_then(|session| session.calls.get_mut(call_id))
        else {
            return self.scheduler.release(kind);
        };
        if !matches!(flight.stage, CallStage::Queued) {
            return self.scheduler.release(kind);
        }
        flight.stage = CallStage::Committing;
        let effect = if flight.class == EffectClass::Read {
            Effect::Look { call: context, tool, input, limit }
        } else {
            Effect::Prepare { call: context, tool, input, limit }
        };
        self.after_commit(effect);
    }

    /// Everything a task needs to carry a call out.
    pub(super) fn effect_of(
        &self,
        id: &AgentId,
        call_id: &Arc<str>,
    ) -> Option<(CallContext, Arc<dyn EffectTool>, Value, Limit)> {
        let agent = self.run.open(id)?;
        let session = self.sessions.get(id).filter(|session| session.ending.is_none())?;
        let call = session.machine.call_of(call_id)?;
        let flight = session.calls.get(call_id)?;
        let Handler::Effect(tool) = &self.tool(&call.name)?.handler else { return None };
        let execution = &agent.contract.execution;
        let left = session.time_left_ms(execution);
        let own = tool.timeout(&call.input);
        // A call that gives no sign of life before it ends is idle for all of its time.
        let mut time = Duration::from_millis(left.unwrap_or(u64::MAX).min(execution.idle_timeout_ms));
        if let Some(own) = own {
            time = left.map_or(own, |left| own.min(Duration::from_millis(left)));
        }
        let context = self.context_of(id, call_id, time)?;
        Some((context, tool.clone(), call.input.clone(), Limit { time, class: flight.class }))
    }

    /// Where and for whom a call runs.
    pub(super) fn context_of(
        &self,
        id: &AgentId,
        call_id: &Arc<str>,
        limit: Duration,
    ) -> Option<CallContext> {
        let agent = self.run.open(id)?;
        let flight = self.sessions.get(id)?.calls.get(call_id)?;
        let approvals = &self.run.terms.approvals;
        Some(CallContext {
            agent: id.clone(),
            context: Arc::new(agent.contract.context.clone()),
            call_id: call_id.clone(),
            workspace: self.call_dir(id),
            isolated: self.run.is_isolated(),
            seen: flight.seen.clone(),
            rules: agent.authority.path_rules(approvals, consented(agent, call_id).as_ref()),
            approvals: approvals.clone(),
            network: flight.class == EffectClass::Exec && agent.authority.allows_network(approvals),
            limit,
            idle: Duration::from_millis(agent.contract.execution.idle_timeout_ms),
            stop: flight.signal(),
            skills: self.sessions.get(id)?.preamble.skill_dirs.clone(),
        })
    }

    /// A call has looked and is ready to act: its intent is journalled, and it acts once that is durable.
    pub(super) fn prepared(
        &mut self,
        id: &AgentId,
        call_id: &Arc<str>,
        result: Result<PreparedEffect, ToolFailure>,
    ) {
        let prepared = match result {
            Ok(prepared) => prepared,
            Err(failure) => return self.tool_done(id, call_id, Err(failure), Duration::ZERO, false),
        };
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.ending.is_some() {
            // It only looked; the agent ends before it acts.
            return self.forget_call(id, call_id);
        }
        if session.winding != TimeUp::No {
            return self.tool_done(id, call_id, Err(too_late()), Duration::ZERO, false);
        }
        let Some(flight) = session.calls.get_mut(call_id) else { return };
        flight.stage = CallStage::Committing;
        let Some((context, _, input, limit)) = self.effect_of(id, call_id) else { return };
        self.intend(id, call_id, &input, prepared.write.clone(), prepared.sandbox.clone());
        self.after_commit(Effect::Run { call: context, prepared, limit });
    }

    /// Where an agent's calls run; a call that touches no file may run before that is known.
    fn call_dir(&self, id: &AgentId) -> Arc<PathBuf> {
        match self.sessions.get(id).map(|session| &session.place) {
            Some(WorkspaceState::At(dir)) => dir.clone(),
            _ => self.run_dir.clone(),
        }
    }

    /// The part of a whole path that is beneath the agent's workspace, by any name that an agent can know it by.
    fn inside(&self, id: &AgentId, path: &Path) -> Option<PathBuf> {
        let place = self.call_dir(id);
        let beneath = |dir: &Path| path.strip_prefix(dir).ok().map(Path::to_owned);
        beneath(&place).or_else(|| beneath(Path::new(WORKSPACE_SHOWN_AT))).or_else(|| beneath(&self.run_dir))
    }

    /// A call of an ending agent that does not go on: its slot is free, and the agent may be able to end.
    pub(super) fn forget_call(&mut self, id: &AgentId, call_id: &str) {
        if let Some(session) = self.sessions.get_mut(id) {
            let kind = session.kind.clone();
            if let Some(call) = session.calls.remove(call_id) {
                self.scheduler.release(&kind);
                self.change_ended(id, call.holds);
            }
        }
        self.mark_ready(id);
    }

    pub(super) fn intend(
        &mut self,
        id: &AgentId,
        call_id: &Arc<str>,
        input: &Value,
        write: Option<posse_domain::event::WriteIntent>,
        sandbox: Option<String>,
    ) {
        let Some(call) = self.sessions.get(id).and_then(|session| session.machine.call_of(call_id)) else {
            return;
        };
        let Some(tool) = self.tool(&call.name) else { return };
        let intended = ToolIntended {
            call_id: call_id.to_string(),
            tool: tool.name.to_owned(),
            class: tool.class,
            specifier: (tool.specifier)(input),
            write,
            sandbox,
        };
        self.emit(id.clone(), intended);
    }
}

/// The directory of the workspace that a command starts in, as rules and approvals name it.
fn starts_in(call: &ToolCall) -> Option<&str> {
    let dir = call.input.get("workdir").filter(|_| call.name == BASH)?.as_str()?;
    // What `pwd` says is understood as well.
    let inside = dir.strip_prefix(WORKSPACE_SHOWN_AT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    Some(inside.map_or(dir, |rest| rest.trim_start_matches('/')))
}

/// An operation as an answer repeats it: a command may be a hundred kilobytes.
pub(super) fn brief(operation: &Operation<'_>) -> String {
    let text = operation.to_string();
    match text.char_indices().nth(OPERATION_SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}[…]", &text[..end]),
        None => text,
    }
}
