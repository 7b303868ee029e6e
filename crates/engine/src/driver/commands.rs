//! Commands that a model wrote as success criteria of a child. The host will run them, so each is decided as a `bash`
//! call of the agent that asks for the child, before the child exists: its grant, every layer, hooks, and questions.
//!
//! The commands of a `task` call belong to that call. Those of a plan that a model wrote belong to its steps, and the
//! root asks for them. All that a person has to answer is asked at once: what hooks said is not kept beyond that.
//!
//! Why it is like this: `docs/decisions/criteria-permission.md`.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    BASH, OpenAgent, Refusal, SpawnFrom, SpawnRequest, call_of_command, command_calls,
};
use posse_domain::message::ToolCall;
use posse_domain::permission::{Decision, Operation, Verdict};

use super::Driver;
use super::asking::Admission;
use super::calls::brief;
use crate::ports::{EngineRequest, Handler, HookAnswer, HookedCall, Moment};

/// What a refused command is, for a model that took it for a mere description.
const WHAT_IT_IS: &str =
    "a command in `success_criteria` is a `bash` call of yours: say the criterion in words, or leave it out";

/// What hooks said of a call and of its commands, where that was not simply yes.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookVerdicts {
    /// Of the call itself.
    pub(crate) call: Option<Verdict>,
    /// Of its commands, by their ids.
    pub(crate) commands: BTreeMap<String, Verdict>,
}

/// The hooks of a step's commands.
#[derive(Debug, Default)]
pub(super) struct StepHooks {
    heard: HookVerdicts,
    /// Why one of them denies.
    denied: Option<Refusal>,
    /// Whether all have answered.
    done: bool,
}

/// A command with what rules and hooks say of it.
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

/// What comes of a step that may start.
pub(super) enum StepAdmission {
    /// Its child may be created.
    Goes,
    /// It waits for a person, or for hooks.
    Waits,
    /// It may not run.
    Refused(Refusal),
}

/// Whether a person was asked about the call or about one of its commands.
pub(super) fn was_asked_about(agent: &OpenAgent, call_id: &str) -> bool {
    let of_call = |key: &String| key == call_id || call_of_command(key) == Some(call_id);
    !agent.requests.is_empty() && agent.requests.keys().any(of_call)
}

impl Driver {
    /// The request of a call that asks for a child with commands.
    pub(super) fn commanding(&self, call: &ToolCall) -> Option<Box<SpawnRequest>> {
        let Handler::Request(handler) = &self.tool(&call.name)?.handler else { return None };
        // Most calls say nothing of the kind, and need not be read twice.
        call.input.get("success_criteria")?;
        match handler.request(call.input.clone()) {
            Ok(EngineRequest::Spawn(request)) if !command_calls(&call.id, &request).is_empty() => {
                Some(request)
            }
            _ => None,
        }
    }

    /// Whether a request could become a child, but for its commands.
    pub(super) fn could_spawn(&self, from: SpawnFrom<'_>, request: &SpawnRequest) -> bool {
        let class_of = |name: &str| self.rt.tools.get(name).map(|tool| tool.class);
        self.run.spawn(from, request, &class_of).is_ok()
    }

    /// Whether the agent may have these commands run. `call_id` is the call, or the step, they belong to.
    pub(super) fn admit_commands(
        &mut self,
        id: &AgentId,
        call_id: &str,
        request: &SpawnRequest,
        heard: &HookVerdicts,
    ) -> Result<Admission, Refusal> {
        let commands = command_calls(call_id, request);
        let Some(agent) = self.run.open(id) else { return Ok(Admission::Goes) };
        let judge = |command: ToolCall| {
            let specifier = self.command_of(&command);
            let operation = Operation::new(BASH, specifier.as_deref());
            let verdict = agent.authority.decide(&self.run.terms.approvals, &operation);
            let verdict = match heard.commands.get(&command.id) {
                Some(hooks) => verdict.meet(hooks.clone()),
                None => verdict,
            };
            JudgedCommand { command, specifier, verdict }
        };
        let judged: Vec<JudgedCommand> = commands.into_iter().map(judge).collect();
        // Nobody is asked about one command if another could not be run anyway.
        if let Some(denied) = judged.iter().find(|judged| judged.verdict.decision == Decision::Deny) {
            return Err(self.deny_operation(id, call_id, &denied.operation(), &denied.verdict));
        }
        let mut waits = false;
        for judged in &judged {
            waits |= matches!(self.admit_command(id, call_id, judged)?, Admission::Asks);
        }
        if waits {
            return Ok(Admission::Asks);
        }
        // One that a person answered has its decision in the journal.
        for judged in judged.iter().filter(|judged| judged.verdict.decision == Decision::Allow) {
            self.emit_decision(id, call_id, &judged.operation(), &judged.verdict);
        }
        Ok(Admission::Goes)
    }

    /// Whether a command that is not denied goes on, or waits for a person.
    fn admit_command(
        &mut self,
        id: &AgentId,
        call_id: &str,
        judged: &JudgedCommand,
    ) -> Result<Admission, Refusal> {
        let JudgedCommand { command, verdict, .. } = judged;
        let was_asked = self.run.open(id).is_some_and(|agent| agent.requests.contains_key(&command.id));
        let admission = if was_asked {
            self.resolve_answer(id, command, &judged.operation(), verdict)
        } else if verdict.decision == Decision::Allow {
            return Ok(Admission::Goes);
        } else {
            self.ask(id, call_id, command, &judged.operation(), verdict)
        };
        admission.map_err(|failure| Refusal {
            code: failure.code,
            reason: format!("{}; {WHAT_IT_IS}", failure.text),
        })
    }

    /// Journals that a command is denied, and says why.
    pub(super) fn deny_command(
        &mut self,
        id: &AgentId,
        call_id: &str,
        command: &ToolCall,
        verdict: &Verdict,
    ) -> Refusal {
        let specifier = self.command_of(command);
        self.deny_operation(id, call_id, &Operation::new(BASH, specifier.as_deref()), verdict)
    }

    fn deny_operation(
        &mut self,
        id: &AgentId,
        call_id: &str,
        operation: &Operation<'_>,
        verdict: &Verdict,
    ) -> Refusal {
        self.emit_decision(id, call_id, operation, verdict);
        let reason = format!("`{}` is not allowed ({verdict}); {WHAT_IT_IS}", brief(operation));
        Refusal { code: posse_domain::code::Code::PermissionDenied, reason }
    }

    /// The command as rules see it.
    fn command_of(&self, command: &ToolCall) -> Option<String> {
        match self.tool(BASH) {
            Some(bash) => (bash.specifier)(&command.input),
            None => Some(command.input.get("command")?.as_str()?.trim().to_owned()),
        }
    }

    /// The commands of a call that hooks want to hear of.
    pub(super) fn commands_for_hooks(&self, call: &ToolCall) -> Vec<ToolCall> {
        if !self.wants(Moment::PreToolUse, BASH) {
            return Vec::new();
        }
        self.commanding(call).map(|request| command_calls(&call.id, &request)).unwrap_or_default()
    }

    /// What hooks hear of a command.
    pub(super) fn hooked_command(command: &ToolCall) -> HookedCall {
        HookedCall {
            id: command.id.clone(),
            tool: BASH.to_owned(),
            input: command.input.clone(),
            output: None,
            spawns: false,
        }
    }

    /// Whether a step of a plan may start, as far as its commands go. Those of a person's plan need no leave.
    pub(super) fn admit_step(&mut self, step: usize) -> StepAdmission {
        let Some((call_id, request)) = self.run.step_request(step) else { return StepAdmission::Goes };
        let root = self.run.id.root();
        let from = self.run.step_from(&root, &call_id, step);
        let commands = command_calls(&call_id, &request);
        if commands.is_empty() || !self.run.is_asked_by_model(from) || !self.could_spawn(from, &request) {
            return StepAdmission::Goes;
        }
        let was_asked = self.run.open(&root).is_some_and(|agent| was_asked_about(agent, &call_id));
        let mut heard = HookVerdicts::default();
        if !was_asked && self.wants(Moment::PreToolUse, BASH) {
            let Some(hooks) = self.step_hooks.get(&call_id) else {
                self.step_hooks.insert(call_id, StepHooks::default());
                self.start_command_hooks(&root, &commands[0]);
                return StepAdmission::Waits;
            };
            if let Some(refusal) = &hooks.denied {
                return StepAdmission::Refused(refusal.clone());
            }
            if !hooks.done {
                return StepAdmission::Waits;
            }
            heard = hooks.heard.clone();
        }
        match self.admit_commands(&root, &call_id, &request, &heard) {
            Ok(Admission::Goes) => StepAdmission::Goes,
            Ok(Admission::Asks) => StepAdmission::Waits,
            Err(refusal) => StepAdmission::Refused(refusal),
        }
    }

    /// The hooks of a step's command have answered.
    pub(super) fn step_command_hooked(&mut self, id: &AgentId, command_id: &str, answer: HookAnswer) {
        let Some(call_id) = call_of_command(command_id).map(str::to_owned) else { return };
        let Some((_, request)) = self.run.step_called(&call_id).and_then(|step| self.run.step_request(step))
        else {
            return;
        };
        let commands = command_calls(&call_id, &request);
        let Some(at) = commands.iter().position(|command| command.id == command_id) else { return };
        let verdict = verdict_of(answer);
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny) {
            let refusal = self.deny_command(id, &call_id, &commands[at], verdict);
            if let Some(hooks) = self.step_hooks.get_mut(&call_id) {
                hooks.denied = Some(refusal);
            }
        } else if let Some(hooks) = self.step_hooks.get_mut(&call_id) {
            hooks.heard.commands.extend(verdict.map(|verdict| (command_id.to_owned(), verdict)));
            hooks.done = at + 1 == commands.len();
            if let Some(next) = commands.get(at + 1) {
                self.start_command_hooks(id, next);
            }
        }
        self.mark_plan();
    }

    /// A step has a child or was refused: what hooks said of its commands is not needed any more.
    pub(super) fn forget_step_hooks(&mut self, step: usize) {
        self.step_hooks.retain(|call_id, _| self.run.step_called(call_id) != Some(step));
    }

    /// Questions about steps that will not start: the run ends without them.
    pub(super) fn withdraw_steps(&mut self, refusal: &Refusal) {
        let root = self.run.id.root();
        let asked = self.run.open(&root).into_iter().flat_map(|agent| agent.requests.keys());
        let calls = asked.filter_map(|key| call_of_command(key));
        let steps: BTreeSet<usize> = calls.filter_map(|call_id| self.run.step_called(call_id)).collect();
        for step in steps {
            self.refuse_step(step, refusal);
        }
    }
}

/// What hooks said, if that was not simply yes.
pub(super) fn verdict_of(answer: HookAnswer) -> Option<Verdict> {
    match answer {
        HookAnswer::Goes => None,
        HookAnswer::Asks(reason) => Some(Verdict::of_hook(Decision::Ask, reason)),
        HookAnswer::Denied(reason) => Some(Verdict::of_hook(Decision::Deny, reason)),
    }
}
