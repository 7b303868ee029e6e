//! Permission of commands that a model wrote as success criteria of a child. The host will run them, so each is decided
//! like a `bash` call of the requesting agent before the child exists: its grant, every layer, hooks, and questions.
//!
//! The commands of a `task` call belong to that call. The commands of a plan that a model wrote belong to its steps,
//! and the root requests them. All questions are asked at once, because the verdicts of hooks are not stored.
//!
//! Why it is like this: `docs/decisions/criteria-permission.md`.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{OpenAgent, Refusal, SpawnFrom, SpawnRequest, call_of_command, command_calls};
use posse_domain::message::ToolCall;
use posse_domain::permission::{BASH, Decision, Operation, Verdict};

use super::CallDesk;
use super::admission::{Admission, ask, brief, emit_decision, resolve_answer};
use super::hooks::wants;
use crate::driver::core::Core;
use crate::driver::desks::files::FilesDesk;
use crate::ports::{EngineRequest, Handler, HookAnswer, HookedCall, Moment, ToolFailure};

/// Explains a refused command to a model that meant it as a description only.
const WHAT_IT_IS: &str =
    "a command in `success_criteria` is a `bash` call of yours: say the criterion in words, or leave it out";

/// The verdicts of hooks about a call and its commands. A plain allow is not stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookVerdicts {
    pub(super) call: Option<Verdict>,
    /// By command id.
    pub(super) commands: BTreeMap<String, Verdict>,
}

/// The hooks of the commands of one step.
#[derive(Debug, Default)]
pub(super) struct StepHooks {
    verdicts: HookVerdicts,
    /// Set if a hook denied a command.
    denied: Option<Refusal>,
    /// Whether all hooks have answered.
    done: bool,
}

/// A command with the verdict of rules and hooks.
struct JudgedCommand {
    command: ToolCall,
    /// The command as rules see it.
    specifier: Option<String>,
    verdict: Verdict,
}

impl JudgedCommand {
    fn operation(&self) -> Operation<'_> {
        Operation::new(BASH, self.specifier.as_deref())
    }
}

/// Whether the child of a step may be created.
pub(crate) enum StepAdmission {
    Goes,
    /// The step waits for a user or for hooks.
    Waits,
    Refused(Refusal),
}

/// Whether a user was asked about the call or about one of its commands.
pub(super) fn was_asked_about(agent: &OpenAgent, call_id: &str) -> bool {
    let of_call = |key: &String| key == call_id || call_of_command(key) == Some(call_id);
    !agent.questions.is_empty() && agent.questions.keys().any(of_call)
}

/// The spawn request of a call, if the child has commands as criteria.
pub(super) fn spawn_with_commands(core: &Core, call: &ToolCall) -> Option<Box<SpawnRequest>> {
    let Handler::Request(handler) = &core.tool(&call.name)?.handler else { return None };
    // Most calls have no criteria, so they are not parsed twice.
    call.input.get("success_criteria")?;
    match handler.request(call.input.clone()) {
        Ok(EngineRequest::Spawn(request)) if !command_calls(&call.id, &request).is_empty() => Some(request),
        _ => None,
    }
}

/// Whether a request could become a child if its commands were allowed.
fn could_spawn(core: &Core, from: SpawnFrom<'_>, request: &SpawnRequest) -> bool {
    let class_of = |name: &str| core.tool(name).map(|tool| tool.class);
    core.run.spawn(from, request, &class_of).is_ok()
}

/// Decides whether the host may run these commands for the agent. `call_id` is the call or step that they belong to.
pub(crate) fn admit_commands(
    core: &mut Core,
    id: &AgentId,
    call_id: &str,
    request: &SpawnRequest,
    verdicts: &HookVerdicts,
) -> Result<Admission, Refusal> {
    let commands = command_calls(call_id, request);
    let Some(agent) = core.run.open(id) else { return Ok(Admission::Goes) };
    let judge = |command: ToolCall| {
        let specifier = command_of(core, &command);
        let operation = Operation::new(BASH, specifier.as_deref());
        let verdict = agent.authority.decide(&core.run.terms.approvals, &operation);
        let verdict = match verdicts.commands.get(&command.id) {
            Some(hooks) => verdict.meet(hooks.clone()),
            None => verdict,
        };
        JudgedCommand { command, specifier, verdict }
    };
    let judged: Vec<JudgedCommand> = commands.into_iter().map(judge).collect();
    // The user is not asked about one command if another is denied anyway.
    if let Some(denied) = judged.iter().find(|judged| judged.verdict.decision == Decision::Deny) {
        return Err(deny_operation(core, id, call_id, &denied.operation(), &denied.verdict));
    }
    let mut waits = false;
    for judged in &judged {
        waits |= matches!(admit_command(core, id, call_id, judged)?, Admission::Asks);
    }
    if waits {
        return Ok(Admission::Asks);
    }
    // If a user answered a question about a command, the journal has the decision already.
    for judged in judged.iter().filter(|judged| judged.verdict.decision == Decision::Allow) {
        emit_decision(core, id, call_id, &judged.operation(), &judged.verdict);
    }
    Ok(Admission::Goes)
}

/// Decides whether a command that is not denied may run, or waits for a user.
fn admit_command(
    core: &mut Core,
    id: &AgentId,
    call_id: &str,
    judged: &JudgedCommand,
) -> Result<Admission, Refusal> {
    let JudgedCommand { command, verdict, .. } = judged;
    let was_asked = core.run.open(id).is_some_and(|agent| agent.questions.contains_key(&command.id));
    let admission = if was_asked {
        resolve_answer(core, id, command, &judged.operation(), verdict)
    } else if verdict.decision == Decision::Allow {
        return Ok(Admission::Goes);
    } else {
        ask(core, id, call_id, command, &judged.operation(), verdict)
    };
    admission
        .map_err(|failure| Refusal { code: failure.code, reason: format!("{}; {WHAT_IT_IS}", failure.text) })
}

/// Journals that a command is denied, and returns the reason.
pub(super) fn deny_command(
    core: &mut Core,
    id: &AgentId,
    call_id: &str,
    command: &ToolCall,
    verdict: &Verdict,
) -> Refusal {
    let specifier = command_of(core, command);
    deny_operation(core, id, call_id, &Operation::new(BASH, specifier.as_deref()), verdict)
}

fn deny_operation(
    core: &mut Core,
    id: &AgentId,
    call_id: &str,
    operation: &Operation<'_>,
    verdict: &Verdict,
) -> Refusal {
    emit_decision(core, id, call_id, operation, verdict);
    let reason = format!("`{}` is not allowed ({verdict}); {WHAT_IT_IS}", brief(operation));
    Refusal { code: Code::PermissionDenied, reason }
}

/// The command as rules see it.
fn command_of(core: &Core, command: &ToolCall) -> Option<String> {
    match core.tool(BASH) {
        Some(bash) => (bash.specifier)(&command.input),
        None => Some(command.input.get("command")?.as_str()?.trim().to_owned()),
    }
}

/// The commands of a call about which hooks want to be notified.
pub(super) fn commands_for_hooks(core: &Core, call: &ToolCall) -> Vec<ToolCall> {
    if !wants(core, Moment::PreToolUse, BASH) {
        return Vec::new();
    }
    spawn_with_commands(core, call).map(|request| command_calls(&call.id, &request)).unwrap_or_default()
}

/// The command in the form that hooks receive.
pub(super) fn hooked_command(command: &ToolCall) -> HookedCall {
    HookedCall {
        id: command.id.clone(),
        tool: BASH.to_owned(),
        input: command.input.clone(),
        output: None,
        spawns: false,
    }
}

/// The verdict of hooks. `None` for a plain allow.
pub(super) fn verdict_of(answer: HookAnswer) -> Option<Verdict> {
    match answer {
        HookAnswer::Goes => None,
        HookAnswer::Asks(reason) => Some(Verdict::of_hook(Decision::Ask, reason)),
        HookAnswer::Denied(reason) => Some(Verdict::of_hook(Decision::Deny, reason)),
    }
}

impl CallDesk {
    /// Asks a user about all commands of a waiting call at once.
    pub(super) fn ask_about_commands(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call: &ToolCall,
        class: EffectClass,
        verdicts: &HookVerdicts,
    ) {
        if let Some(request) = spawn_with_commands(core, call) {
            let message_id = core.message_id(id);
            let from = SpawnFrom { parent: id, call_id: &call.id, message_id: Some(&message_id), step: None };
            let admitted = if could_spawn(core, from, &request) {
                admit_commands(core, id, &call.id, &request, verdicts)
            } else {
                Ok(Admission::Asks)
            };
            if let Err(refusal) = admitted {
                return self.refuse_spawn(core, files, id, call, &request, &refusal);
            }
        }
        self.wait_for_approver(id, &call.id, class);
    }

    /// Journals that a call gets no child, and answers the call with the reason.
    pub(crate) fn refuse_spawn(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        call: &ToolCall,
        request: &SpawnRequest,
        refusal: &Refusal,
    ) {
        let named: String = request.skill.as_ref().unwrap_or(&request.definition).chars().take(64).collect();
        let from = SpawnFrom { parent: id, call_id: &call.id, message_id: None, step: None };
        let (parent, body) = core.run.refuse(from, &named, refusal);
        core.emit(parent, body);
        let failure = ToolFailure { code: refusal.code, text: refusal.reason.clone() };
        self.answer(core, files, id, &call.id, &call.name, Err(failure));
    }

    /// Decides whether the commands of a step allow it to start. Commands of a plan that a user wrote need no approval.
    pub(crate) fn admit_step(&mut self, core: &mut Core, files: &FilesDesk, step: usize) -> StepAdmission {
        let Some((call_id, request)) = core.run.step_request(step) else { return StepAdmission::Goes };
        let root = core.run.id.root();
        let from = core.run.step_from(&root, &call_id, step);
        let commands = command_calls(&call_id, &request);
        if commands.is_empty() || !core.run.is_asked_by_model(from) || !could_spawn(core, from, &request) {
            return StepAdmission::Goes;
        }
        let was_asked = core.run.open(&root).is_some_and(|agent| was_asked_about(agent, &call_id));
        let mut verdicts = HookVerdicts::default();
        if !was_asked && wants(core, Moment::PreToolUse, BASH) {
            let Some(hooks) = self.step_hooks.get(&call_id) else {
                self.step_hooks.insert(call_id, StepHooks::default());
                self.start_command_hooks(core, files, &root, &commands[0]);
                return StepAdmission::Waits;
            };
            if let Some(refusal) = &hooks.denied {
                return StepAdmission::Refused(refusal.clone());
            }
            if !hooks.done {
                return StepAdmission::Waits;
            }
            verdicts = hooks.verdicts.clone();
        }
        match admit_commands(core, &root, &call_id, &request, &verdicts) {
            Ok(Admission::Goes) => StepAdmission::Goes,
            Ok(Admission::Asks) => StepAdmission::Waits,
            Err(refusal) => StepAdmission::Refused(refusal),
        }
    }

    /// Takes the answer of the hooks about a step's command.
    pub(super) fn step_command_hooked(
        &mut self,
        core: &mut Core,
        files: &FilesDesk,
        id: &AgentId,
        command_id: &str,
        answer: HookAnswer,
    ) {
        let Some(call_id) = call_of_command(command_id).map(str::to_owned) else { return };
        let Some((_, request)) = core.run.step_called(&call_id).and_then(|step| core.run.step_request(step))
        else {
            return;
        };
        let commands = command_calls(&call_id, &request);
        let Some(at) = commands.iter().position(|command| command.id == command_id) else { return };
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            let refusal = deny_command(core, id, &call_id, &commands[at], verdict);
            if let Some(hooks) = self.step_hooks.get_mut(&call_id) {
                hooks.denied = Some(refusal);
            }
        } else if let Some(hooks) = self.step_hooks.get_mut(&call_id) {
            hooks.verdicts.commands.extend(verdict.map(|verdict| (command_id.to_owned(), verdict)));
            hooks.done = at + 1 == commands.len();
            if let Some(next) = commands.get(at + 1) {
                self.start_command_hooks(core, files, id, next);
            }
        }
        core.mark_plan();
    }

    /// Removes the hook verdicts about a step's commands. The step has a child or was refused.
    pub(crate) fn forget_step_hooks(&mut self, core: &Core, step: usize) {
        self.step_hooks.retain(|call_id, _| core.run.step_called(call_id) != Some(step));
    }

    /// Journals that a step gets no child.
    pub(crate) fn refuse_step(&mut self, core: &mut Core, step: usize, refusal: &Refusal) {
        self.forget_step_hooks(core, step);
        let (parent, body) = core.run.refuse_step(step, refusal);
        core.emit(parent, body);
    }

    /// Refuses the steps with open questions, because the run ends before they can start.
    pub(crate) fn withdraw_steps(&mut self, core: &mut Core, refusal: &Refusal) {
        let root = core.run.id.root();
        let asked = core.run.open(&root).into_iter().flat_map(|agent| agent.questions.keys());
        let calls = asked.filter_map(|key| call_of_command(key));
        let steps: BTreeSet<usize> = calls.filter_map(|call_id| core.run.step_called(call_id)).collect();
        for step in steps {
            self.refuse_step(core, step, refusal);
        }
    }
}
