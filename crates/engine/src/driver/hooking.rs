//! Hooks: programs of a person that hear of what agents do, and may object.
//!
//! Whatever they hear of waits for them inside the engine, without a slot, in its place: a call before it is admitted,
//! the next turn after a call's result, a child before its first turn and before it is integrated. Their answer is not
//! journalled, what follows from it is; so after a crash those whose answer had no consequence yet are asked again. An
//! ending agent ends its hooks, and is over only when they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::notes;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, HostNote};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState, call_of_command};
use posse_domain::message::ToolCall;
use posse_domain::permission::{Decision, Operation, PathRules};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Driver;
use super::acting::made_ready;
use super::commands::{HookVerdicts, verdict_of, was_asked_about};
use super::effects::{Effect, Input};
use super::place::WorkspaceState;
use super::results::Answer;
use super::session::{CallInFlight, CallStage, SeenDuringCall, Start};
use super::skills::TASK;
use crate::integrate::Fact;
use crate::ports::{
    CallContext, HookAnswer, HookCall, HookedCall, Moment, Reach, StopSignal, ToolFailure, Urgency,
};

/// What of an agent waits for hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookedMoment {
    /// A call, before it is admitted.
    Before(Arc<str>),
    /// A command that a call, or a step of a plan, wants run as a criterion, before that is admitted.
    Command(Arc<str>),
    /// A call's result, before the model reads it.
    After(Arc<str>),
    /// Its first turn.
    Start,
    /// Its integration.
    Stop,
}

/// Hooks that were told and have not answered.
#[derive(Debug)]
pub(crate) struct PendingHooks {
    about: HookedMoment,
    stop: watch::Sender<Urgency>,
    /// Their task, once it has begun.
    pub(super) task: Option<AbortHandle>,
}

impl PendingHooks {
    pub(super) fn hurry(&self, urgency: Urgency) {
        self.stop.send_if_modified(|now| std::mem::replace(now, urgency.max(*now)) < urgency);
    }

    /// The call that waits for them before it is admitted.
    pub(crate) fn before(&self) -> Option<&str> {
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

impl Driver {
    /// Whether hooks want to hear of it. A run without hooks pays this one look.
    pub(super) fn wants(&self, moment: Moment, about: &str) -> bool {
        self.rt.parts.hooks.as_ref().is_some_and(|hooks| hooks.wants(moment, about))
    }

    /// Whether hooks want to hear of a call. Every way to start a sub-agent is heard of as `task` too.
    fn wants_call(&self, moment: Moment, id: &AgentId, call: &ToolCall) -> bool {
        self.wants(moment, &call.name) || self.wants(moment, TASK) && self.starts_child(id, call)
    }

    fn hooked_call(&self, id: &AgentId, call: &ToolCall, output: Option<String>) -> HookedCall {
        let spawns = self.starts_child(id, call);
        HookedCall { id: call.id.clone(), tool: call.name.clone(), input: call.input.clone(), output, spawns }
    }

    /// Lets a call wait for the hooks that hear of it first; whether it does. Those of a call that a person was asked
    /// about have answered.
    pub(super) fn hold_for_hooks(&mut self, id: &AgentId, call: &ToolCall) -> bool {
        if self.rt.parts.hooks.is_none() || !call.input.is_object() {
            return false;
        }
        let hears_call = self.wants_call(Moment::PreToolUse, id, call);
        let commands = self.commands_for_hooks(call);
        if !hears_call && commands.is_empty() {
            return false;
        }
        let Some(class) = self.tool(&call.name).map(|tool| tool.class) else { return false };
        if self.run.open(id).is_none_or(|agent| was_asked_about(agent, &call.id)) {
            return false;
        }
        let Some(session) = self.sessions.get_mut(id) else { return false };
        let call_id: Arc<str> = call.id.as_str().into();
        let flight = CallInFlight::new(class, CallStage::Hooking, Arc::default());
        session.calls.insert(call_id.clone(), flight);
        match commands.first() {
            Some(command) if !hears_call => self.start_command_hooks(id, command),
            _ => self.start_pre_tool_hooks(id, &call_id),
        }
        true
    }

    /// Tells the hooks of a command that somebody wants run as a criterion.
    pub(super) fn start_command_hooks(&mut self, id: &AgentId, command: &ToolCall) {
        let about = HookedMoment::Command(command.id.as_str().into());
        self.notify_hooks(id, about, Some(Self::hooked_command(command)), None);
    }

    /// Tells the hooks of a call, once the files are there that it is about.
    pub(super) fn start_pre_tool_hooks(&mut self, id: &AgentId, call_id: &Arc<str>) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(class) = session.calls.get(call_id).map(|call| call.class) else { return };
        let placed = |driver: &Self| {
            driver.sessions.get(id).is_some_and(|session| matches!(session.place, WorkspaceState::At(_)))
        };
        if class.touches_files() && !placed(self) {
            self.request_workspace(id);
            if !placed(self) {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.parked.push(call_id.clone());
                }
                return;
            }
        }
        let call = self.sessions.get(id).and_then(|session| session.machine.call_of(call_id));
        let Some(call) = call.map(|call| self.hooked_call(id, call, None)) else { return };
        self.notify_hooks(id, HookedMoment::Before(call_id.clone()), Some(call), None);
    }

    /// The call whose result hooks want to hear of: one that went well, of an agent that goes on.
    pub(super) fn post_tool_hooks_answered(&self, id: &AgentId, answer: &Answer<'_>) -> Option<HookedCall> {
        let output = self.rt.parts.hooks.as_ref().and(answer.result.as_ref().ok())?;
        let session = self.sessions.get(id).filter(|session| session.ending.is_none())?;
        let call = session.machine.call_of(answer.call_id)?;
        let wanted = self.wants_call(Moment::PostToolUse, id, call);
        wanted.then(|| self.hooked_call(id, call, Some(output.text.clone())))
    }

    /// Tells the hooks of a result that is in the journal. The call keeps its place, and its files, until they answer.
    pub(super) fn start_post_tool_hooks(&mut self, id: &AgentId, call: HookedCall) {
        let Some(class) = self.tool(&call.tool).map(|tool| tool.class) else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let call_id: Arc<str> = call.id.as_str().into();
        let flight = CallInFlight::new(class, CallStage::Hooking, Arc::default());
        session.calls.insert(call_id.clone(), flight);
        self.notify_hooks(id, HookedMoment::After(call_id), Some(call), None);
    }

    /// A call that has its result gives its files back, unless its hooks still have them.
    pub(super) fn call_over(&mut self, id: &AgentId, call_id: &str, held: bool) {
        match self.sessions.get_mut(id).and_then(|session| session.calls.get_mut(call_id)) {
            Some(flight) => flight.holds = held,
            None => self.change_ended(id, held),
        }
    }

    /// Tells the hooks that a child is about to have its first turn; whether that waits for them.
    pub(super) fn start_agent_hooks(&mut self, id: &AgentId) -> bool {
        if self.rt.parts.hooks.is_none() || id.is_root() {
            return false;
        }
        let Some(agent) = self.run.open(id) else { return false };
        let created = matches!(agent.state, OpenState::Created { .. });
        if !created || !self.wants(Moment::SubagentStart, &agent.kind.definition.name) {
            return false;
        }
        let Some(session) = self.sessions.get_mut(id) else { return false };
        let told = std::mem::replace(&mut session.start, Start::Told);
        told == Start::Untold && self.notify_hooks(id, HookedMoment::Start, None, None)
    }

    /// Whether hooks hear of a child's end before it is integrated.
    pub(super) fn wants_stop_hook(&self, id: &AgentId) -> bool {
        if self.rt.parts.hooks.is_none() || id.is_root() {
            return false;
        }
        let definition = self.run.open(id).map(|agent| agent.kind.definition.name.as_str());
        definition.is_some_and(|definition| self.wants(Moment::SubagentStop, definition))
    }

    /// Ends the hooks of a child whose work is refused; whether there are any. It is refused again once they have ended.
    pub(super) fn ends_hooks_first(
        &mut self,
        id: &AgentId,
        kind: FailKind,
        code: Code,
        reason: &str,
    ) -> bool {
        let session = self.sessions.get_mut(id).filter(|session| !session.hooks.is_empty());
        let Some(session) = session else { return false };
        for hooked in &session.hooks {
            hooked.hurry(Urgency::AtOnce);
        }
        session.ending = Some(Failure { kind, code, reason: reason.to_owned(), report: None });
        true
    }

    /// After a crash: whether a child that waits for its merge waits for hooks first, or did and has nothing to merge.
    pub(super) fn wants_stop_hook_again(&self, id: &AgentId) -> bool {
        let merging = self.run.open(id).is_some_and(|agent| agent.files.merging.is_some());
        !merging && (self.run.has_nothing_to_merge(id) || self.wants_stop_hook(id))
    }

    /// Tells hooks; whether they were told.
    fn notify_hooks(
        &mut self,
        id: &AgentId,
        about: HookedMoment,
        call: Option<HookedCall>,
        report: Option<String>,
    ) -> bool {
        let (stop, signal) = StopSignal::new();
        let Some(call) = self.hook_call(id, &about, call, report, signal) else { return false };
        let Some(session) = self.sessions.get_mut(id) else { return false };
        session.hooks.push(PendingHooks { about: about.clone(), stop, task: None });
        self.after_commit(Effect::Hook { about, call: Box::new(call) });
        true
    }

    /// All that hooks are told.
    fn hook_call(
        &self,
        id: &AgentId,
        about: &HookedMoment,
        call: Option<HookedCall>,
        report: Option<String>,
        stop: StopSignal,
    ) -> Option<HookCall> {
        let agent = self.run.open(id)?;
        let (moment, call_id) = match about {
            HookedMoment::Before(call_id) | HookedMoment::Command(call_id) => {
                (Moment::PreToolUse, call_id.clone())
            }
            HookedMoment::After(call_id) => (Moment::PostToolUse, call_id.clone()),
            HookedMoment::Start => (Moment::SubagentStart, "start".into()),
            HookedMoment::Stop => (Moment::SubagentStop, "stop".into()),
        };
        let (workspace, isolated, own) = self.workspace_for_hooks(id);
        let class = call.as_ref().and_then(|call| self.tool(&call.tool)).map(|tool| tool.class);
        let changes = moment == Moment::PostToolUse && class.is_some_and(EffectClass::changes_workspace);
        let reach = match (own, changes) {
            (false, _) => Reach::Borrowed,
            (true, true) => Reach::Change,
            (true, false) => Reach::Look,
        };
        let approvals = &self.run.terms.approvals;
        let at = CallContext {
            agent: id.clone(),
            context: Arc::new(agent.contract.context.clone()),
            call_id,
            workspace,
            isolated,
            seen: Arc::new(SeenDuringCall::default()),
            skills: Arc::default(),
            rules: PathRules::default(),
            approvals: approvals.clone(),
            network: agent.authority.allows_network(approvals),
            // Each hook has a limit of its own.
            limit: Duration::MAX,
            idle: Duration::MAX,
            stop,
        };
        let definition = agent.kind.definition.name.clone();
        Some(HookCall {
            moment,
            at,
            reach,
            definition,
            skill: agent.contract.execution.skill.clone(),
            call,
            report,
        })
    }

    /// Where the hooks of an agent run, whether that is a workspace of Posse's, and whether it is the agent's own. One
    /// without files has those of the nearest agent above it, or else the person's folder.
    fn workspace_for_hooks(&self, id: &AgentId) -> (Arc<PathBuf>, bool, bool) {
        let isolated = self.run.is_isolated();
        let mut at = Some(id.clone());
        while let Some(agent) = at {
            if let Some(WorkspaceState::At(dir)) = self.sessions.get(&agent).map(|session| &session.place) {
                let made = self.run.open(&agent).is_some_and(|agent| agent.files.made);
                return (dir.clone(), isolated, agent == *id && (made || !isolated));
            }
            at = agent.parent();
        }
        (self.run_dir.clone(), false, false)
    }

    /// Starts the hooks that were told. Those of an agent that ends meanwhile are not.
    pub(super) fn start_hooks(&mut self, about: HookedMoment, call: HookCall) {
        let agent = call.at.agent.clone();
        let sender = self.sender.clone();
        let Some(hooks) = self.rt.parts.hooks.clone() else { return };
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        if session.ending.is_some() {
            return drop(sender.send(Input::Hooked { agent, about, answer: Ok(HookAnswer::Goes) }));
        }
        let workspaces = self.rt.parts.workspaces.clone();
        let Some(told) = session.hooks.iter_mut().find(|told| told.about == about) else { return };
        let task = tokio::spawn(async move {
            let answer = match made_ready(workspaces.as_deref(), &call.at).await {
                Err(problem) if problem.passing && call.at.stop.now() == Urgency::None => Err(problem),
                // Whatever else is wrong is told by the hooks themselves: they cannot be heard.
                _ => Ok(hooks.run(call).await),
            };
            drop(sender.send(Input::Hooked { agent, about, answer }));
        });
        told.task = Some(task.abort_handle());
    }

    /// Hooks have answered, and nothing of them is alive.
    pub(super) fn hooked(&mut self, id: &AgentId, about: &HookedMoment, answer: HookAnswer) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(at) = session.hooks.iter().position(|told| told.about == *about) else { return };
        session.hooks.swap_remove(at);
        let ending = session.ending.is_some();
        match about {
            HookedMoment::Before(call_id) if !ending => self.pre_tool_hooks_answered(id, call_id, answer),
            HookedMoment::Command(command) if !ending => self.command_hooks_answered(id, command, answer),
            HookedMoment::Command(command) => {
                if let Some(call_id) = call_of_command(command) {
                    session.calls.remove(call_id);
                }
            }
            HookedMoment::Before(call_id) | HookedMoment::After(call_id) => {
                let flight = session.calls.remove(call_id);
                if let (Some(reason), false) = (objection(answer), ending) {
                    self.object(id, call_id, &reason);
                }
                self.change_ended(id, flight.is_some_and(|flight| flight.holds));
            }
            HookedMoment::Start | HookedMoment::Stop if ending => {}
            HookedMoment::Start => {
                if let Some(reason) = objection(answer) {
                    return self.end_attempt(id, not_started(&reason));
                }
            }
            HookedMoment::Stop => {
                return match objection(answer) {
                    Some(reason) => {
                        self.reject(id, Code::ChecksFailed, format!("a hook objects to its work: {reason}"));
                    }
                    None => self.integrate_child(id),
                };
            }
        }
        // What is ending is concluded there.
        self.mark_ready(id);
    }

    /// The hooks of a call have answered: those of its commands are next, or it goes on as if for the first time, or it
    /// is refused.
    fn pre_tool_hooks_answered(&mut self, id: &AgentId, call_id: &Arc<str>, answer: HookAnswer) {
        let Some(call) = self.sessions.get(id).and_then(|session| session.machine.call_of(call_id)) else {
            return;
        };
        let call = call.clone();
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            self.forget_hooking(id, call_id);
            let specifier = self.tool(&call.name).and_then(|tool| (tool.specifier)(&call.input));
            let operation = Operation::new(&call.name, specifier.as_deref());
            self.emit_decision(id, &call.id, &operation, verdict);
            let text = format!("`{}` is not allowed ({verdict})", super::calls::brief(&operation));
            let failure = ToolFailure { code: Code::PermissionDenied, text };
            return self.answer(id, &call.id, &call.name, Err(failure));
        }
        let commands = self.commands_for_hooks(&call);
        if let Some(flight) = self.sessions.get_mut(id).and_then(|session| session.calls.get_mut(call_id)) {
            flight.heard.get_or_insert_default().call = verdict;
        }
        self.next_hook(id, &call, commands.first());
    }

    /// The hooks of a command have answered: the next command, or what it belongs to, goes on; or that is refused.
    fn command_hooks_answered(&mut self, id: &AgentId, command_id: &Arc<str>, answer: HookAnswer) {
        let Some(call_id) = call_of_command(command_id) else { return };
        let session = self.sessions.get(id);
        let Some(call) = session.and_then(|session| session.machine.call_of(call_id)).cloned() else {
            return self.step_command_hooked(id, command_id, answer);
        };
        let commands = self.commands_for_hooks(&call);
        let Some(at) = commands.iter().position(|command| *command.id == **command_id) else { return };
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            self.forget_hooking(id, call_id);
            let refusal = self.deny_command(id, call_id, &commands[at], verdict);
            if let Some(request) = self.commanding(&call) {
                self.refuse_spawn(id, &call, &request, &refusal);
            }
            return;
        }
        if let Some(flight) = self.sessions.get_mut(id).and_then(|session| session.calls.get_mut(call_id)) {
            let heard = flight.heard.get_or_insert_default();
            heard.commands.extend(verdict.map(|verdict| (command_id.to_string(), verdict)));
        }
        self.next_hook(id, &call, commands.get(at + 1));
    }

    fn next_hook(&mut self, id: &AgentId, call: &ToolCall, command: Option<&ToolCall>) {
        if let Some(command) = command {
            return self.start_command_hooks(id, command);
        }
        let heard = self.forget_hooking(id, &call.id);
        self.dispatch_hooked(id, call, heard);
    }

    /// A call waits for no hook any more; what they said of it.
    fn forget_hooking(&mut self, id: &AgentId, call_id: &str) -> HookVerdicts {
        let flight = self.sessions.get_mut(id).and_then(|session| session.calls.remove(call_id));
        flight.and_then(|flight| flight.heard).map(|heard| *heard).unwrap_or_default()
    }

    /// Tells the model that a hook objects to what a call did.
    fn object(&mut self, id: &AgentId, call_id: &str, reason: &str) {
        let results = self.sessions.get(id).map(|session| session.machine.unread_results());
        let tool = results.into_iter().flatten().find(|(call, _)| call.id == call_id);
        let Some(tool) = tool.map(|(call, _)| call.name.clone()) else { return };
        self.emit_note(id, HostNote::Hook, format!("{}{reason}", notes::hook_objects(&tool, call_id)));
    }

    /// After a crash: the hooks whose objection would be in the journal are asked again.
    pub(super) fn resume_hooks(&mut self, id: &AgentId) {
        if self.rt.parts.hooks.is_none() || self.run.is_cancelled(id) || self.run.attempt_of(id).is_none() {
            return;
        }
        let Some(session) = self.sessions.get(id) else { return };
        let unread = session
            .machine
            .unread_results()
            .into_iter()
            .filter(|(call, result)| result.ok && self.wants_call(Moment::PostToolUse, id, call));
        let unread: Vec<HookedCall> =
            unread.map(|(call, result)| self.hooked_call(id, call, Some(result.text.to_string()))).collect();
        for call in unread {
            let call_id = call.id.clone();
            self.start_post_tool_hooks(id, call);
            let Some(session) = self.sessions.get_mut(id) else { return };
            let Some(flight) = session.calls.get_mut(&call_id) else { continue };
            flight.holds = flight.class.changes_workspace() && self.run.is_isolated();
            if flight.holds {
                self.merge_queue(id).apply(Fact::ChangeBegan);
            }
        }
    }

    /// Starts the hooks that hear of a child's end before it is integrated; whether there are any. Those of a child whose
    /// merge is journalled have answered before that.
    pub(super) fn start_stop_hooks(&mut self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return false };
        let OpenState::WaitingForMerge { report, .. } = &agent.state else { return false };
        if agent.files.merging.is_some() || !self.wants_stop_hook(id) {
            return false;
        }
        let report = report.to_shared().to_string();
        self.notify_hooks(id, HookedMoment::Stop, None, Some(report))
    }
}

/// Why hooks object, where a person cannot be asked.
fn objection(answer: HookAnswer) -> Option<String> {
    match answer {
        HookAnswer::Goes => None,
        HookAnswer::Asks(reason) | HookAnswer::Denied(reason) => Some(reason),
    }
}

fn not_started(reason: &str) -> Failure {
    let reason = format!("a hook does not let it start: {reason}");
    Failure { kind: FailKind::Policy, code: Code::PermissionDenied, reason, report: None }
}
