//! Decides for the call desk whether a call may run: its tool, its arguments, the agent's grant and rules, hooks,
//! ownership, and the answers of users.
//!
//! An `ask` is journalled as a question, and the call waits in the engine. It holds no slot but keeps its position, so
//! later calls that depend on it wait too. The answer is a command in the mailbox like a cancel, and is taken in the
//! commit that acts on it, also after a crash. The call is then dispatched again from the start and finds the answer in
//! the state. It therefore continues in the same way right after the answer and after a resume.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use posse_domain::code::Code;
use posse_domain::event::{AnsweredBy, EffectClass, PermissionDecided};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    AskedQuestion, DELEGATE_TO_AGENT, OpenAgent, Question, QuestionState, SKILL_TOOL, TASK_TOOL,
};
use posse_domain::message::ToolCall;
use posse_domain::ownership;
use posse_domain::permission::{
    Answer, BASH, Decision, DecisionReason, Doubt, LayerName, Operation, Verdict, approval_hash,
};
use serde_json::Value;

use super::not_open;
use super::skills::{continued_skill, skill_of};
use super::slot::call_dir;
use crate::driver::core::Core;
use crate::driver::desks::files::FilesDesk;
use crate::ports::{Tool, ToolFailure, WORKSPACE_SHOWN_AT};

/// Limit of the part of an operation that a result repeats.
const OPERATION_SHOWN_MAX_CHARS: usize = 400;

/// The decision on a call that is not refused.
pub(crate) enum Admission {
    Goes,
    /// The call waits for a user's answer.
    Asks,
}

/// The operation of a call that a user has allowed.
pub(super) fn consented<'a>(agent: &'a OpenAgent, call_id: &str) -> Option<Operation<'a>> {
    let question = agent.questions.get(call_id)?;
    (question.state == QuestionState::Allowed).then(|| Operation::parse(&question.operation))
}

/// The operation in the agent's open question to a user.
pub(crate) fn asked_operation<'a>(core: &'a Core, id: &AgentId) -> Option<&'a str> {
    let questions = &core.run.open(id)?.questions;
    let open = questions.values().find(|question| question.state == QuestionState::Open);
    open.map(|question| question.operation.as_str())
}

/// Decides whether a call may run. In doubt the call is refused, with a reason that the model can act on.
pub(super) fn admit(
    core: &mut Core,
    files: &FilesDesk,
    id: &AgentId,
    call: &ToolCall,
    hooks: Option<Verdict>,
) -> Result<Admission, ToolFailure> {
    let Some(agent) = core.run.open(id) else { return Err(not_open()) };
    let Some(tool) = core.tool(&call.name) else { return Err(unknown_tool(agent, &call.name)) };
    check_arguments(&call.input)?;
    // Spawn rights have their own error codes, which must not depend on whether the tool was offered.
    if tool.class == EffectClass::Delegate && !agent.authority.grant().covers(tool.name) {
        if [TASK_TOOL, DELEGATE_TO_AGENT].contains(&tool.name) {
            return Ok(Admission::Goes);
        }
        let text = "this agent may not have children, so it has no tasks".to_owned();
        return Err(ToolFailure { code: Code::SpawnNotAllowed, text });
    }
    let specifier = (tool.specifier)(&call.input);
    let mut operation = Operation::new(tool.name, specifier.as_deref()).in_dir(starts_in(call));
    let mut verdict = agent.authority.decide(&core.run.terms.approvals, &operation);
    // A rule about a skill applies to every tool that loads or forks the skill.
    let in_hand = core.run.initial_skill(agent);
    let skill = skill_of(tool.name, specifier.as_deref(), &call.input, in_hand);
    let skill = skill.or_else(|| continued_skill(core, id, call));
    if let Some(name) = &skill
        && let Some(ruling) = core.run.skill_ruling(agent, name)
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
    if verdict.decision != Decision::Deny {
        // The user is not asked about a call that ownership forbids anyway.
        if let Err((refused, verdict)) = check_ownership(agent, tool, specifier.as_deref()) {
            emit_decision(core, id, &call.id, &operation, &verdict);
            return Err(refused);
        }
    }
    if !agent.questions.is_empty() && agent.questions.contains_key(&call.id) {
        return resolve_answer(core, id, call, &operation, &verdict);
    }
    match verdict.decision {
        Decision::Allow => return Ok(Admission::Goes),
        Decision::Ask => return ask(core, id, &call.id, call, &operation, &verdict),
        Decision::Deny => {}
    }
    let mut text = format!("`{}` is not allowed ({verdict})", brief(&operation));
    if verdict.because == DecisionReason::Doubt(Doubt::NotBeneath) {
        // Models often write absolute paths. The result suggests the relative path.
        let inside = specifier.as_deref().and_then(|path| inside(core, files, id, Path::new(path)));
        if let Some(inside) = inside.filter(|inside| !inside.as_os_str().is_empty()) {
            let _ = write!(text, "; write it as `{}`", inside.display());
        }
    }
    emit_decision(core, id, &call.id, &operation, &verdict);
    Err(denied(text))
}

fn unknown_tool(agent: &OpenAgent, name: &str) -> ToolFailure {
    let known = agent.authority.grant().allowed_tools.iter().map(ToString::to_string).collect::<Vec<_>>();
    let name: String = name.chars().take(64).collect();
    let text = format!("unknown tool `{name}`; available: {}", known.join(", "));
    ToolFailure { code: Code::UnknownTool, text }
}

fn check_arguments(input: &Value) -> Result<(), ToolFailure> {
    if let Value::String(raw) = input {
        let reason =
            serde_json::from_str::<Value>(raw).err().map_or("not an object".into(), |e| e.to_string());
        return Err(ToolFailure::invalid(format!("the arguments are not valid JSON: {reason}")));
    }
    if !input.is_object() {
        return Err(ToolFailure::invalid("the arguments must be a JSON object"));
    }
    Ok(())
}

/// Refuses a write to a path that the agent does not own, with the verdict for the journal.
fn check_ownership(
    agent: &OpenAgent,
    tool: &Tool,
    specifier: Option<&str>,
) -> Result<(), (ToolFailure, Verdict)> {
    let owns = &agent.contract.step.owns;
    let outside = tool.class == EffectClass::Write
        && !owns.is_empty()
        && specifier.is_some_and(|path| !owns.iter().any(|owned| ownership::holds(owned, path)));
    if outside {
        let owns = owns.join(", ");
        let text = format!("this agent owns {owns} and cannot change other files");
        let verdict = Verdict { decision: Decision::Deny, because: DecisionReason::NotOwned { owns } };
        return Err((ToolFailure { code: Code::OwnershipViolation, text }, verdict));
    }
    Ok(())
}

/// The path relative to the agent's workspace, for each directory name under which an agent can know the workspace.
fn inside(core: &Core, files: &FilesDesk, id: &AgentId, path: &Path) -> Option<PathBuf> {
    let workspace = call_dir(core, files, id);
    let beneath = |dir: &Path| path.strip_prefix(dir).ok().map(Path::to_owned);
    beneath(&workspace).or_else(|| beneath(Path::new(WORKSPACE_SHOWN_AT))).or_else(|| beneath(&core.run_dir))
}

/// The workspace directory in which a command starts, as rules and approvals refer to it.
fn starts_in(call: &ToolCall) -> Option<&str> {
    let dir = call.input.get("workdir").filter(|_| call.name == BASH)?.as_str()?;
    // Absolute paths as printed by `pwd` are accepted too.
    let inside = dir.strip_prefix(WORKSPACE_SHOWN_AT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    Some(inside.map_or(dir, |rest| rest.trim_start_matches('/')))
}

/// Shortens an operation for a result, because a command may have a hundred kilobytes.
pub(super) fn brief(operation: &Operation<'_>) -> String {
    let text = operation.to_string();
    match text.char_indices().nth(OPERATION_SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}[…]", &text[..end]),
        None => text,
    }
}

/// Journals the decision of the rules, unless it is a plain allow.
pub(super) fn emit_decision(
    core: &mut Core,
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
    core.emit(id.clone(), decided);
}

/// Asks a user about a call, or about a command of the call `of`. The call is denied if no user can be asked.
pub(super) fn ask(
    core: &mut Core,
    id: &AgentId,
    of: &str,
    call: &ToolCall,
    operation: &Operation<'_>,
    verdict: &Verdict,
) -> Result<Admission, ToolFailure> {
    emit_decision(core, id, of, operation, verdict);
    if !core.run.may_ask(id, core.attended) {
        let by_hook = verdict.by() == Some(&LayerName::Hook);
        return Err(no_approver_to_ask(core, id, operation, verdict, by_hook));
    }
    let question = Question {
        call_id: &call.id,
        operation,
        verdict,
        arguments: call.input.to_string().into(),
        approval: approval_of(core, id, call)?,
    };
    let decided = core.run.ask(id, question);
    let (id, body) = decided.map_err(|refused| ToolFailure::failed(refused.to_string()))?;
    core.emit(id, body);
    Ok(Admission::Asks)
}

/// Continues a call with the user's answer, or lets it wait for the answer.
pub(super) fn resolve_answer(
    core: &mut Core,
    id: &AgentId,
    call: &ToolCall,
    operation: &Operation<'_>,
    verdict: &Verdict,
) -> Result<Admission, ToolFailure> {
    let approval = approval_of(core, id, call)?;
    let question: Option<AskedQuestion> =
        core.run.open(id).and_then(|agent| agent.questions.get(&call.id)).cloned();
    let Some(question) = question else { return Err(not_open()) };
    if question.approval != approval {
        // An undamaged journal has no answer for a different operation. If this journal has one, the answer is not
        // used.
        return Err(denied(format!("`{}`: the user was asked about another operation", brief(operation))));
    }
    match (question.state, verdict.decision) {
        (QuestionState::Denied { by: AnsweredBy::Host, .. }, _) => {
            Err(no_approver_to_ask(core, id, operation, verdict, question.by_hook))
        }
        (QuestionState::Denied { by: AnsweredBy::Person, reason }, _) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Err(denied(format!("the user denied `{}`{why}", brief(operation))))
        }
        // The rules decide again, because an approval lifts only an `ask`.
        (QuestionState::Allowed, _) => match verdict.clone().consented() {
            Verdict { decision: Decision::Allow, .. } => Ok(Admission::Goes),
            verdict => Err(denied(format!("`{}` is not allowed ({verdict})", brief(operation)))),
        },
        (QuestionState::Open, Decision::Allow) if !question.by_hook => {
            // Meanwhile a user answered "always" to the same operation of another call.
            answer_as_host(core, id, &call.id, &approval, Answer::Once);
            Ok(Admission::Goes)
        }
        (QuestionState::Open, _) if core.run.may_ask(id, core.attended) => Ok(Admission::Asks),
        (QuestionState::Open, _) => {
            let reason = Some("no user can be asked".to_owned());
            answer_as_host(core, id, &call.id, &approval, Answer::Deny { reason });
            Err(no_approver_to_ask(core, id, operation, verdict, question.by_hook))
        }
    }
}

/// The hash that an answer to this call must contain.
fn approval_of(core: &Core, id: &AgentId, call: &ToolCall) -> Result<Hash, ToolFailure> {
    let agent = core.run.open(id).ok_or_else(not_open)?;
    Ok(approval_hash(&call.name, &call.input, &agent.contract.hash()))
}

fn answer_as_host(core: &mut Core, id: &AgentId, call_id: &str, approval: &Hash, answer: Answer) {
    match core.run.answer(id, call_id, approval, answer, AnsweredBy::Host) {
        Ok((id, body)) => {
            core.emit(id.clone(), body);
            core.watch_deadlines_below(&id);
        }
        // The caller has found the question open and compared the hash.
        Err(refused) => core.stop_for_refusal(id, "answer", refused),
    }
}

/// Why an `ask` is denied, and how a user can allow it.
fn no_approver_to_ask(
    core: &Core,
    id: &AgentId,
    operation: &Operation<'_>,
    verdict: &Verdict,
    by_hook: bool,
) -> ToolFailure {
    let why = if id.is_root() {
        "needs approval, and no user is available"
    } else {
        "needs permission, and sub-agents cannot request permission"
    };
    let approvals = &core.run.terms.approvals;
    let agent = core.run.open(id);
    let lifting = || agent.and_then(|agent| agent.authority.literal_that_lifts(approvals, operation));
    let hint = if by_hook {
        // An approval in advance satisfies rules, not hooks.
        let attending = if id.is_root() { "at the terminal of the run, or " } else { "" };
        Some(format!(
            "; no rule answers a hook's question: a user can answer it {attending}later, in a run that escalates \
             questions"
        ))
    } else {
        lifting().map(|literal| format!("; a user can allow `{literal}` in advance"))
    };
    denied(format!("`{}` {why} ({verdict}){}", brief(operation), hint.unwrap_or_default()))
}

pub(super) fn denied(text: String) -> ToolFailure {
    ToolFailure { code: Code::PermissionDenied, text }
}
