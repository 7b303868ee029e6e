//! The model desk: makes the model calls of each agent.
//!
//! A call waits for a slot, then for a budget and for a permit of its provider. It is journalled, sent and charged, and
//! its reply is journalled. The desk takes facts (a granted slot, an ended wait, a reply) and returns how the agent
//! continues.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`, `docs/decisions/models-call-retries.md`.

mod budget;
mod context;
mod provider;
mod reply;
mod task;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use posse_agent::machine::{Machine, Next};
use posse_agent::notes;
use posse_agent::prompts::report_prompt;
use posse_domain::budget::Amount;
use posse_domain::code::Code;
use posse_domain::event::{HostNote, ModelCalled, Purpose, ReportCause};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure};

use self::budget::Quote;
use self::context::SummaryCall;
use self::provider::SilentSince;
pub(crate) use self::provider::WaitEnd;
pub(crate) use self::reply::ReplyOutcome;
pub(crate) use self::task::{ModelDone, ModelEffect};
use super::preamble::PreambleDesk;
use crate::deltas::DeltaHub;
use crate::driver::core::Core;
use crate::driver::effects::Effect;
use crate::driver::session::AgentWait;
use crate::ports::{CallSize, Model, ModelFacts, ModelRequest, Permit};
use crate::scheduler::{SlotRequest, SlotUse};

/// Timeout of one model call.
const CALL_MAX: Duration = Duration::from_hours(1);
/// Separates the hash of a request with a trimmed conversation from the hash of the whole conversation.
const TRIMMED: &[u8] = b"trimmed";
/// Separates the hash of a request for a summary from the hash of a turn with the same messages.
const SUMMARY: &[u8] = b"summary";

#[derive(Debug, Clone)]
pub(crate) struct CallPurpose {
    pub(crate) purpose: Purpose,
    pub(crate) cause: Option<ReportCause>,
    /// The exhausted budget, if that is the cause.
    pub(crate) reason: Option<String>,
    /// Whether the request contains only the end of the conversation.
    pub(crate) trimmed: bool,
    /// What is summarised. Set only for a summary.
    pub(crate) summary: Option<SummaryCall>,
}

impl CallPurpose {
    /// Whether the request contains the agent's tools. A report turn may call no tool, but its request contains them,
    /// because the provider's cache matches only an identical prefix. If a budget is used up, the request for the
    /// report has no tools, to save their tokens.
    fn has_tools(&self) -> bool {
        !self.trimmed && !matches!(self.cause, Some(ReportCause::Budget | ReportCause::Time))
    }
}

/// A model call that was decided and is not sent yet.
pub(crate) struct PlannedCall {
    turn: u32,
    call: u32,
    purpose: CallPurpose,
    reserved: Amount,
}

/// How a model call continues when it gets a slot.
pub(crate) enum SlotOutcome {
    Call(PlannedCall),
    /// The slot was returned: the call waits for something else, or is not needed any more.
    Released,
    /// The slot was returned, and the attempt has failed.
    Failed(Failure),
}

/// The model state of one agent.
struct AgentModel {
    model: Arc<dyn Model>,
    facts: ModelFacts,
    /// The permit for the next call.
    permit: Option<Permit>,
    /// Set when a call fails or cannot be made, until the model answers.
    silent: Option<SilentSince>,
}

pub(crate) struct ModelDesk {
    agents: HashMap<AgentId, AgentModel>,
    /// Agents whose call did not fit into a budget. Entries whose call now waits for something else are skipped.
    budget_queue: VecDeque<AgentId>,
    deltas: DeltaHub,
}

impl ModelDesk {
    pub(crate) fn new(deltas: DeltaHub) -> Self {
        Self { agents: HashMap::new(), budget_queue: VecDeque::new(), deltas }
    }

    pub(crate) fn open(&mut self, id: &AgentId, model: Arc<dyn Model>) -> ModelFacts {
        let facts = model.facts();
        self.agents.insert(id.clone(), AgentModel { model, facts, permit: None, silent: None });
        facts
    }

    pub(crate) fn close(&mut self, id: &AgentId) {
        self.agents.remove(id);
    }

    pub(crate) fn facts(&self, id: &AgentId) -> Option<ModelFacts> {
        self.agents.get(id).map(|agent| agent.facts)
    }

    /// Queues the agent's next model call for a slot, unless it waits already.
    pub(crate) fn request_call(core: &mut Core, id: &AgentId) {
        let Some(session) = core.sessions.get_mut(id) else { return };
        if !matches!(session.wait, AgentWait::Idle | AgentWait::Budget) {
            return;
        }
        session.wait = AgentWait::Slot;
        let definition = session.definition.clone();
        core.scheduler.request(SlotRequest { agent: id.clone(), definition, what: SlotUse::Model });
    }

    /// Uses the slot that the agent got for its next model call.
    pub(crate) fn take_slot(
        &mut self,
        core: &mut Core,
        preambles: &PreambleDesk,
        id: &AgentId,
        definition: &Arc<str>,
    ) -> SlotOutcome {
        let outcome = self.plan_call(core, preambles, id);
        if !matches!(outcome, SlotOutcome::Call(_)) {
            core.scheduler.release(definition);
        }
        outcome
    }

    fn plan_call(&mut self, core: &mut Core, preambles: &PreambleDesk, id: &AgentId) -> SlotOutcome {
        let next = match core.sessions.get_mut(id) {
            // A request is stale if its agent has ended or it was granted before.
            Some(session) if matches!(session.wait, AgentWait::Slot) => {
                session.wait = AgentWait::Idle;
                session.machine.next(false)
            }
            _ => return SlotOutcome::Released,
        };
        let Next::CallModel { turn, call, purpose, cause } = next else { return SlotOutcome::Released };
        if let Some(failure) = out_of_time(core, id) {
            return SlotOutcome::Failed(failure);
        }
        if let Some(recorded) = core.take_recorded_call(id) {
            let ModelCalled { purpose, cause, reason, trimmed, scope, reserved, .. } = recorded;
            let summary = scope.map(|scope| SummaryCall { scope, output_tokens: reserved.output_tokens });
            let purpose = CallPurpose { purpose, cause, reason, trimmed, summary };
            return SlotOutcome::Call(planned(core, id, (turn, call), purpose, reserved));
        }
        let machine = core.sessions.get(id).map(|session| &session.machine);
        let reason = machine.and_then(|machine| machine.lacks_budget()).map(str::to_owned);
        let purpose = CallPurpose { purpose, cause, reason, trimmed: false, summary: None };
        let purpose = in_time(core, id, purpose);
        let purpose = self.fit_context(core, preambles, id, purpose);
        let (purpose, quote) = self.quote(core, preambles, id, purpose);
        match quote {
            Quote::Granted(reserved) => {
                let size =
                    CallSize { input_tokens: reserved.input_tokens, output_tokens: reserved.output_tokens };
                if !self.acquire_permit(core, id, size) {
                    return SlotOutcome::Released;
                }
                warn_of_budget(core, id, purpose.purpose);
                SlotOutcome::Call(planned(core, id, (turn, call), purpose, reserved))
            }
            Quote::Wait => {
                self.return_permit(id);
                self.wait_for_budget(core, id);
                SlotOutcome::Released
            }
            Quote::Exhausted(reason) => {
                self.return_permit(id);
                // The agent waits for its children, whose results are added to its report. The end of the last child
                // leads here again.
                if core.has_working_children(id) {
                    return SlotOutcome::Released;
                }
                let report = core.sessions.get(id).and_then(|session| session.machine.report_so_far());
                SlotOutcome::Failed(Failure {
                    kind: FailKind::Budget,
                    code: Code::BudgetExhausted,
                    reason,
                    report: report.map(Into::into),
                })
            }
        }
    }

    /// Returns the permit, so that other agents may use it meanwhile.
    fn return_permit(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.permit = None;
        }
    }

    /// Journals a call and sends it when the event is durable. The agent has started.
    pub(crate) fn send(
        &mut self,
        core: &mut Core,
        preambles: &mut PreambleDesk,
        id: &AgentId,
        planned: PlannedCall,
    ) {
        let Some(contract) = core.run.open(id).map(|agent| agent.contract.clone()) else { return };
        let Some(session) = core.sessions.get(id) else { return };
        let Some(preamble) = preambles.of(id).cloned() else { return };
        let attempt = session.machine.attempt();
        let PlannedCall { turn, call, purpose, reserved } = planned;
        let has_tools = purpose.has_tools();
        let CallPurpose { purpose, cause, reason, trimmed, summary } = purpose;
        let to_summarise = summary.map(|summary| session.machine.summary_request(&summary.scope));
        let (upcoming, mark) = match &to_summarise {
            Some(request) => (request.hash(), SUMMARY),
            None => (session.machine.upcoming(cause).0, if trimmed { TRIMMED } else { &[] }),
        };
        let parts: [&[u8]; 3] = [preamble.hash.as_bytes(), upcoming.as_bytes(), mark];
        let request_hash = Hash::of_parts(parts.into_iter().filter(|part| !part.is_empty()));
        let first = (attempt, turn, call) == (1, 1, 1);
        let called = ModelCalled {
            attempt,
            turn,
            call,
            purpose,
            cause,
            reason,
            trimmed,
            scope: summary.map(|summary| summary.scope),
            model: contract.execution.model.clone(),
            request_hash,
            reserved,
            preamble: first.then(|| preambles.take_unjournalled(&preamble)),
        };
        core.emit(id.clone(), called);
        let short = trimmed.then(|| report_terms(core, id)).flatten();
        // The event adds waiting messages to the conversation, so the request is created after it.
        let Some(session) = core.sessions.get_mut(id) else { return };
        let (system, messages) = match (short, cause, to_summarise) {
            (Some(system), Some(cause), _) => {
                let message = session.machine.condensed(cause, system.len());
                (system, vec![Arc::new(message)])
            }
            (_, _, Some(request)) => (preamble.system, request.messages().to_vec()),
            _ => (preamble.system, session.machine.conversation().messages().to_vec()),
        };
        let request = ModelRequest {
            agent: id.clone(),
            definition: session.definition.clone(),
            depth: contract.context.depth,
            attempt,
            turn,
            call,
            hash: request_hash,
            purpose,
            system,
            tools: if has_tools { preamble.tools.specs.clone() } else { Arc::default() },
            messages,
            max_output_tokens: reserved.output_tokens,
            temperature: contract.execution.temperature,
            top_p: contract.execution.top_p,
            tags: session.machine.tags().clone(),
        };
        let left = session.time_left_ms(&contract.execution).map(Duration::from_millis);
        let total = left.map_or(CALL_MAX, |left| left.min(CALL_MAX));
        let Some(agent) = self.agents.get_mut(id) else { return };
        let effect = ModelEffect {
            model: agent.model.clone(),
            request,
            permit: agent.permit.take().unwrap_or_default(),
            reserved,
            total,
            idle: Duration::from_millis(contract.execution.idle_timeout_ms),
        };
        core.after_commit(Effect::Model(Box::new(effect)));
    }
}

/// The call with its number. The next call of the turn is `(turn, call)`. A summary call before it has its own number.
fn planned(
    core: &Core,
    id: &AgentId,
    (turn, call): (u32, u32),
    purpose: CallPurpose,
    reserved: Amount,
) -> PlannedCall {
    let machine = core.sessions.get(id).map(|session| &session.machine);
    let summary = machine.filter(|_| purpose.summary.is_some());
    let call = summary.map_or(call, Machine::next_summary_call);
    PlannedCall { turn, call, purpose, reserved }
}

/// The short system prompt of a report turn with a trimmed conversation.
fn report_terms(core: &Core, id: &AgentId) -> Option<Arc<str>> {
    let agent = core.run.open(id)?;
    Some(report_prompt(&agent.prepared.definition, &agent.contract).into())
}

/// Warns an agent once when most of a budget is used.
fn warn_of_budget(core: &mut Core, id: &AgentId, purpose: Purpose) {
    let warned = core.sessions.get(id).is_none_or(|session| session.machine.is_warned());
    // A replay repeats the recorded notes.
    if warned || purpose != Purpose::Work || core.replaying.is_some() {
        return;
    }
    if let Some(low) = core.run.low_budget(id, core.now_ms()) {
        core.emit_note(id, HostNote::BudgetLow, notes::budget_low(&low));
    }
}

/// The failure of an attempt that has used up its working time, in total or in the turn before this call.
fn out_of_time(core: &Core, id: &AgentId) -> Option<Failure> {
    let terms = &core.run.open(id)?.contract.execution;
    let machine = &core.sessions.get(id)?.machine;
    let used_up = |limit_ms: &u64, used_ms: u64| used_ms >= *limit_ms;
    let attempt = terms.attempt_timeout_ms.filter(|limit| used_up(limit, machine.active_ms()));
    let turn = terms.turn_timeout_ms.filter(|limit| used_up(limit, machine.turn_ms()));
    let reason = match (attempt, turn) {
        (Some(limit_ms), _) => format!("the attempt took longer than {limit_ms} ms"),
        (None, Some(limit_ms)) => format!("turn {} took longer than {limit_ms} ms", machine.turn()),
        (None, None) => return None,
    };
    Some(Failure { kind: FailKind::Timeout, code: Code::Timeout, reason, report: None })
}

/// Changes a work call into the report call if the agent's time is up.
fn in_time(core: &Core, id: &AgentId, call: CallPurpose) -> CallPurpose {
    let now_ms = core.now_ms();
    let is_up = core.run.report_at_ms(id, now_ms).is_some_and(|at_ms| at_ms <= now_ms);
    if call.purpose == Purpose::Report || !is_up {
        return call;
    }
    let reason = Some(core.run.time_used_up(id, now_ms));
    let cause = Some(ReportCause::Time);
    CallPurpose { purpose: Purpose::Report, cause, reason, trimmed: false, summary: None }
}
