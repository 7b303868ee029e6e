//! Hooks for the call desk: programs of a user that are notified of the operations of agents and may object.
//!
//! A call waits for its hooks before it is admitted, the next turn waits for the hooks of a result, and a child waits
//! for hooks before its first turn and before its integration. Each waits inside the engine, without a slot, and keeps
//! its position. The answer of a hook is not journalled, but the events that follow from it are. After a crash, hooks
//! are therefore notified again if no event follows from their answer. An ending agent stops its hooks, and ends only
//! when they have ended.

use std::sync::Arc;

use posse_agent::notes;
use posse_domain::code::Code;
use posse_domain::event::HostNote;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState, TASK_TOOL, call_of_command};
use posse_domain::message::ToolCall;
use posse_domain::permission::{Decision, Operation};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::admission::{brief, denied, emit_decision};
use super::commands::{
    HookVerdicts, commands_for_hooks, deny_command, hooked_command, spawn_with_commands, verdict_of,
    was_asked_about,
};
use super::hook_call::hook_call;
use super::results::Answer;
use super::skills::starts_child;
use super::task::made_ready;
use super::{CallDesk, CallInFlight, CallStage, Dispatch};
use crate::driver::core::Core;
use crate::driver::desks::files::FilesDesk;
use crate::driver::effects::{Effect, Input};
use crate::driver::session::Session;
use crate::ports::{HookAnswer, HookCall, HookedCall, Moment, StopSignal, Urgency};

/// The part of an agent's work that waits for hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookedMoment {
    /// A call, before it is admitted.
    Before(Arc<str>),
    /// A command criterion of a call or a plan step, before the call or step is admitted.
    Command(Arc<str>),
    /// A call's result, before the model reads it.
    After(Arc<str>),
    /// The first turn of the agent.
    Start,
    /// The integration of the agent's work.
    Stop,
}

/// Hooks that were notified and have not answered.
#[derive(Debug)]
pub(super) struct PendingHooks {
    about: HookedMoment,
    stop: watch::Sender<Urgency>,
    /// Set when the task has started.
    task: Option<AbortHandle>,
}

impl PendingHooks {
    pub(super) fn task(&self) -> Option<&AbortHandle> {
        self.task.as_ref()
    }

    pub(super) fn hurry(&self, urgency: Urgency) {
        self.stop.send_if_modified(|now| std::mem::replace(now, urgency.max(*now)) < urgency);
    }

    /// The call that these hooks delay before it is admitted.
    pub(super) fn before(&self) -> Option<&str> {
        match &self.about {
            HookedMoment::Before(call) => Some(call),
            HookedMoment::Command(command) => call_of_command(command),
            HookedMoment::After(_) | HookedMoment::Start | HookedMoment::Stop => None,
        }
    }

    pub(super) fn is_about_call(&self, id: &str) -> bool {
        match &self.about {
            HookedMoment::Before(call) | HookedMoment::After(call) => **call == *id,
            HookedMoment::Command(command) => call_of_command(command) == Some(id),
            HookedMoment::Start | HookedMoment::Stop => false,
        }
    }
}

/// Hooks that start when the fact they are notified of is durable.
pub(crate) struct HookEffect {
    about: HookedMoment,
    call: HookCall,
}

/// How the agent continues after the answer of hooks.
pub(crate) enum HookOutcome {
    /// The answer is not needed any more.
    Stale,
    /// The agent may be able to continue or to end.
    Ready,
    Dispatched(Dispatch),
    StartRefused(Failure),
    WorkAllowed,
    /// The agent's work must not be integrated, for this reason.
    WorkRefused(String),
}

/// Whether hooks want to be notified. A run without hooks only pays for this check.
pub(super) fn wants(core: &Core, moment: Moment, about: &str) -> bool {
    core.rt.parts.hooks.as_ref().is_some_and(|hooks| hooks.wants(moment, about))
}

/// Whether hooks want to be notified of a call. Every way to start a sub-agent also counts as `task`.
fn wants_call(core: &Core, moment: Moment, id: &AgentId, call: &ToolCall) -> bool {
    wants(core, moment, &call.name) || wants(core, moment, TASK_TOOL) && starts_child(core, id, call)
}

/// Whether hooks want to be notified when a child ends, before its integration.
pub(crate) fn wants_stop_hook(core: &Core, id: &AgentId) -> bool {
    if core.rt.parts.hooks.is_none() || id.is_root() {
        return false;
    }
    let definition = core.run.open(id).map(|agent| agent.prepared.definition.name.as_str());
    definition.is_some_and(|definition| wants(core, Moment::SubagentStop, definition))
}

/// After a crash: whether a child that waits for its merge first waits for hooks. Also true if it has nothing to merge,
/// because then it can only have waited for hooks.
pub(crate) fn wants_stop_hook_again(core: &Core, id: &AgentId) -> bool {
    let merging = core.run.open(id).is_some_and(|agent| agent.files.merging.is_some());
    !merging && (core.run.has_nothing_to_merge(id) || wants_stop_hook(core, id))
}

fn hooked_call(core: &Core, id: &AgentId, call: &ToolCall, output: Option<String>) -> HookedCall {
    let spawns = starts_child(core, id, call);
    HookedCall { id: call.id.clone(), tool: call.name.clone(), input: call.input.clone(), output, spawns }
}

impl CallDesk {
    /// Whether hooks of the agent have not answered yet.
    pub(crate) fn waits_for_hooks(&self, id: &AgentId) -> bool {
        self.agents.get(id).is_some_and(|agent| !agent.hooks.is_empty())
    }

    /// Asks the hooks of an agent to end at once.
    pub(crate) fn hurry_hooks(&self, id: &AgentId) {
        for hooked in self.agents.get(id).iter().flat_map(|agent| &agent.hooks) {
            hooked.hurry(Urgency::AtOnce);
        }
    }

    /// Makes a call wait for its hooks, and returns whether it waits. If a user was asked about the call, its hooks
    /// have answered before.
    pub(super) fn hold_for_hooks(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call: &ToolCall,
    ) -> bool {
        if core.rt.parts.hooks.is_none() || !call.input.is_object() {
            return false;
        }
        let wants_call = wants_call(core, Moment::PreToolUse, id, call);
        let commands = commands_for_hooks(core, call);
        if !wants_call && commands.is_empty() {
            return false;
        }
        let Some(class) = core.tool(&call.name).map(|tool| tool.class) else { return false };
        if core.run.open(id).is_none_or(|agent| was_asked_about(agent, &call.id)) {
            return false;
        }
        if !self.agents.contains_key(id) {
            return false;
        }
        let call_id: Arc<str> = call.id.as_str().into();
        self.insert(id, call_id.clone(), CallInFlight::new(class, CallStage::Hooking, Arc::default()));
        match commands.first() {
            Some(command) if !wants_call => self.start_command_hooks(core, files, id, command),
            _ => self.start_pre_tool_hooks(core, files, id, &call_id),
        }
        true
    }

    /// Notifies hooks of a command that the host is to run as a criterion.
    pub(super) fn start_command_hooks(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        command: &ToolCall,
    ) {
        let about = HookedMoment::Command(command.id.as_str().into());
        self.notify_hooks(core, files, id, about, Some(hooked_command(command)), None);
    }

    /// Notifies hooks of a call when the files that the call needs exist.
    pub(super) fn start_pre_tool_hooks(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
    ) {
        let Some(class) = self.call(id, call_id).map(|call| call.class) else { return };
        if class.touches_files() && files.dir_of(id).is_none() {
            files.request_workspace(core, id);
            if files.dir_of(id).is_none() {
                if let Some(agent) = self.agents.get_mut(id) {
                    agent.parked.push(call_id.clone());
                }
                return;
            }
        }
        let call = core.sessions.get(id).and_then(|session| session.machine.call_of(call_id));
        let Some(call) = call.map(|call| hooked_call(core, id, call, None)) else { return };
        self.notify_hooks(core, files, id, HookedMoment::Before(call_id.clone()), Some(call), None);
    }

    /// The input for hooks that want a call's result. `None` if the call failed or its agent is ending.
    pub(super) fn post_tool_hook_input(core: &Core, id: &AgentId, answer: &Answer<'_>) -> Option<HookedCall> {
        let output = core.rt.parts.hooks.as_ref().and(answer.result.as_ref().ok())?;
        let session = core.sessions.get(id).filter(|session| !session.is_ending())?;
        let call = session.machine.call_of(answer.call_id)?;
        let wanted = wants_call(core, Moment::PostToolUse, id, call);
        wanted.then(|| hooked_call(core, id, call, Some(output.text.clone())))
    }

    /// Notifies hooks of a journalled result. The call keeps its position and its files until they answer.
    pub(super) fn start_post_tool_hooks(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call: HookedCall,
    ) {
        let Some(class) = core.tool(&call.tool).map(|tool| tool.class) else { return };
        let call_id: Arc<str> = call.id.as_str().into();
        self.insert(id, call_id.clone(), CallInFlight::new(class, CallStage::Hooking, Arc::default()));
        self.notify_hooks(core, files, id, HookedMoment::After(call_id), Some(call), None);
    }

    /// Notifies hooks before the first turn of a child. Returns whether the turn must wait for them.
    pub(crate) fn start_agent_hooks(&mut self, core: &mut Core, files: &FilesDesk, id: &AgentId) -> bool {
        if core.rt.parts.hooks.is_none() || id.is_root() {
            return false;
        }
        let Some(agent) = core.run.open(id) else { return false };
        let created = matches!(agent.state, OpenState::Created { .. });
        if !created || !wants(core, Moment::SubagentStart, &agent.prepared.definition.name) {
            return false;
        }
        let Some(agent) = self.agents.get_mut(id) else { return false };
        let started = std::mem::replace(&mut agent.start_hooks_started, true);
        !started && self.notify_hooks(core, files, id, HookedMoment::Start, None, None)
    }

    /// Notifies hooks of a child's end before its integration. Returns whether any hook was notified. If the merge is
    /// journalled, the hooks have answered before.
    pub(crate) fn start_stop_hooks(&mut self, core: &mut Core, files: &FilesDesk, id: &AgentId) -> bool {
        let Some(agent) = core.run.open(id) else { return false };
        let OpenState::WaitingForMerge { report, .. } = &agent.state else { return false };
        if agent.files.merging.is_some() || !wants_stop_hook(core, id) {
            return false;
        }
        let report = report.to_shared().to_string();
        self.notify_hooks(core, files, id, HookedMoment::Stop, None, Some(report))
    }

    /// Notifies hooks. Returns whether any hook was notified.
    fn notify_hooks(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        about: HookedMoment,
        call: Option<HookedCall>,
        report: Option<String>,
    ) -> bool {
        let (stop, signal) = StopSignal::new();
        let Some(call) = hook_call(core, files, id, &about, call, report, signal) else { return false };
        let Some(agent) = self.agents.get_mut(id) else { return false };
        agent.hooks.push(PendingHooks { about: about.clone(), stop, task: None });
        core.after_commit(Effect::Hook(Box::new(HookEffect { about, call })));
        true
    }

    /// Starts hooks that were notified, unless their agent is ending.
    pub(crate) fn start_hooks(&mut self, core: &Core, effect: HookEffect) {
        let HookEffect { about, call } = effect;
        let agent = call.at.agent.clone();
        let sender = core.sender.clone();
        let Some(hooks) = core.rt.parts.hooks.clone() else { return };
        let Some(session) = core.sessions.get(&agent) else { return };
        if session.is_ending() {
            return drop(sender.send(Input::Hooked { agent, about, answer: Ok(HookAnswer::Goes) }));
        }
        let workspaces = core.rt.parts.workspaces.clone();
        let pending = self.agents.get_mut(&agent).map(|agent| &mut agent.hooks);
        let Some(pending) = pending.and_then(|hooks| hooks.iter_mut().find(|hooks| hooks.about == about))
        else {
            return;
        };
        let task = tokio::spawn(async move {
            let answer = match made_ready(workspaces.as_deref(), &call.at).await {
                Err(problem) if problem.is_of_machine() && call.at.stop.now() == Urgency::None => {
                    Err(problem)
                }
                // The hooks report any other problem themselves: their output is unreadable.
                _ => Ok(hooks.run(call).await),
            };
            drop(sender.send(Input::Hooked { agent, about, answer }));
        });
        pending.task = Some(task.abort_handle());
    }

    /// Takes the answer of hooks. None of their processes is alive any more.
    pub(crate) fn hooked(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        about: &HookedMoment,
        answer: HookAnswer,
    ) -> HookOutcome {
        let Some(ending) = core.sessions.get(id).map(Session::is_ending) else {
            return HookOutcome::Stale;
        };
        let Some(agent) = self.agents.get_mut(id) else { return HookOutcome::Stale };
        let Some(at) = agent.hooks.iter().position(|hooks| hooks.about == *about) else {
            return HookOutcome::Stale;
        };
        agent.hooks.swap_remove(at);
        match about {
            HookedMoment::Before(call_id) if !ending => {
                return self.pre_tool_hooks_answered(core, files, id, call_id, answer);
            }
            HookedMoment::Command(command) if !ending => {
                return self.command_hooks_answered(core, files, id, command, answer);
            }
            HookedMoment::Command(command) => {
                if let Some(call_id) = call_of_command(command) {
                    agent.calls.remove(call_id);
                }
            }
            HookedMoment::Before(call_id) | HookedMoment::After(call_id) => {
                let call = agent.calls.remove(call_id);
                if let (Some(reason), false) = (objection(answer), ending) {
                    emit_objection(core, id, call_id, &reason);
                }
                files.end_change(core, id, call.is_some_and(|call| call.holds));
            }
            HookedMoment::Start | HookedMoment::Stop if ending => {}
            HookedMoment::Start => {
                if let Some(reason) = objection(answer) {
                    return HookOutcome::StartRefused(not_started(&reason));
                }
            }
            HookedMoment::Stop => {
                return match objection(answer) {
                    Some(reason) => HookOutcome::WorkRefused(reason),
                    None => HookOutcome::WorkAllowed,
                };
            }
        }
        HookOutcome::Ready
    }

    /// Takes the answer of a call's hooks. The hooks of its commands are next, or the call is dispatched again from the
    /// start, or it is refused.
    fn pre_tool_hooks_answered(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        answer: HookAnswer,
    ) -> HookOutcome {
        let call = core.sessions.get(id).and_then(|session| session.machine.call_of(call_id));
        let Some(call) = call.cloned() else { return HookOutcome::Ready };
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            self.take_verdicts(id, call_id);
            let specifier = core.tool(&call.name).and_then(|tool| (tool.specifier)(&call.input));
            let operation = Operation::new(&call.name, specifier.as_deref());
            emit_decision(core, id, &call.id, &operation, verdict);
            let failure = denied(format!("`{}` is not allowed ({verdict})", brief(&operation)));
            self.answer(core, files, id, &call.id, &call.name, Err(failure));
            return HookOutcome::Ready;
        }
        let commands = commands_for_hooks(core, &call);
        if let Some(call) = self.call_mut(id, call_id) {
            call.verdicts.get_or_insert_default().call = verdict;
        }
        self.next_hook(core, files, id, &call, commands.first())
    }

    /// Takes the answer of a command's hooks. The hooks of the next command are next, or the call or step continues or
    /// is refused.
    fn command_hooks_answered(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        command_id: &Arc<str>,
        answer: HookAnswer,
    ) -> HookOutcome {
        let Some(call_id) = call_of_command(command_id) else { return HookOutcome::Ready };
        let session = core.sessions.get(id);
        let Some(call) = session.and_then(|session| session.machine.call_of(call_id)).cloned() else {
            self.step_command_hooked(core, files, id, command_id, answer);
            return HookOutcome::Ready;
        };
        let commands = commands_for_hooks(core, &call);
        let Some(at) = commands.iter().position(|command| *command.id == **command_id) else {
            return HookOutcome::Ready;
        };
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            self.take_verdicts(id, call_id);
            let refusal = deny_command(core, id, call_id, &commands[at], verdict);
            if let Some(request) = spawn_with_commands(core, &call) {
                self.refuse_spawn(core, files, id, &call, &request, &refusal);
            }
            return HookOutcome::Ready;
        }
        if let Some(call) = self.call_mut(id, call_id) {
            let verdicts = call.verdicts.get_or_insert_default();
            verdicts.commands.extend(verdict.map(|verdict| (command_id.to_string(), verdict)));
        }
        self.next_hook(core, files, id, &call, commands.get(at + 1))
    }

    fn next_hook(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call: &ToolCall,
        command: Option<&ToolCall>,
    ) -> HookOutcome {
        if let Some(command) = command {
            self.start_command_hooks(core, files, id, command);
            return HookOutcome::Ready;
        }
        let verdicts = self.take_verdicts(id, &call.id);
        HookOutcome::Dispatched(self.dispatch(core, files, id, call, verdicts))
    }

    /// Removes and returns the hook verdicts of a call for which no hook is pending any more.
    fn take_verdicts(&mut self, id: &AgentId, call_id: &str) -> HookVerdicts {
        let call = self.remove(id, call_id);
        call.and_then(|call| call.verdicts).map(|verdicts| *verdicts).unwrap_or_default()
    }

    /// After a crash: notifies the hooks again whose answer may be lost.
    pub(crate) fn resume_hooks(&mut self, core: &mut Core, files: &mut FilesDesk, id: &AgentId) {
        if core.rt.parts.hooks.is_none() || core.run.is_cancelled(id) || core.run.attempt_of(id).is_none() {
            return;
        }
        let Some(session) = core.sessions.get(id) else { return };
        let unread = session
            .machine
            .unread_results()
            .into_iter()
            .filter(|(call, result)| result.ok && wants_call(core, Moment::PostToolUse, id, call));
        let unread: Vec<HookedCall> =
            unread.map(|(call, result)| hooked_call(core, id, call, Some(result.text.to_string()))).collect();
        for call in unread {
            let call_id = call.id.clone();
            self.start_post_tool_hooks(core, files, id, call);
            let isolated = core.run.is_isolated();
            let Some(call) = self.call_mut(id, &call_id) else { continue };
            call.holds = call.class.changes_workspace() && isolated;
            if call.holds {
                files.begin_change(core, id);
            }
        }
    }
}

/// Sends the model a hook's objection to a call that has already run.
fn emit_objection(core: &mut Core, id: &AgentId, call_id: &str, reason: &str) {
    let results = core.sessions.get(id).map(|session| session.machine.unread_results());
    let tool = results.into_iter().flatten().find(|(call, _)| call.id == call_id);
    let Some(tool) = tool.map(|(call, _)| call.name.clone()) else { return };
    core.emit_note(id, HostNote::Hook, format!("{}{reason}", notes::hook_objects(&tool, call_id)));
}

/// The objection of hooks at a moment at which no user can be asked.
fn objection(answer: HookAnswer) -> Option<String> {
    match answer {
        HookAnswer::Goes => None,
        HookAnswer::Asks(reason) | HookAnswer::Denied(reason) => Some(reason),
    }
}

fn not_started(reason: &str) -> Failure {
    let reason = format!("a hook blocked it: {reason}");
    Failure { kind: FailKind::Policy, code: Code::PermissionDenied, reason, report: None }
}
