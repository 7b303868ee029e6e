//! Model calls: reserve, journal, send; settle, journal, go on.

use std::time::Duration;

use posse_agent::definition::report_prompt;
use posse_agent::machine::{Next, accept};
use posse_agent::notes;
use posse_domain::budget::{
    self, Amount, Limit, MIN_OUTPUT_TOKENS, REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS, Reservation, Usage,
    Usd,
};
use posse_domain::code::Code;
use posse_domain::event::{
    CallError, ContextTrimmed, HostNote, MessageReceived, ModelCalled, ModelReplied, Purpose, ReportCause,
    Sender,
};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure};
use posse_domain::message::Reply;

use super::Driver;
use super::effects::{Effect, ModelDone, ModelEffect};
use super::session::ModelCallStage;
use super::waiting::AfterFailure;
use crate::ports::{CallSize, ModelFacts, ModelFailure, ModelReply, ModelRequest};

/// Largest reply taken from a model; a larger one is a failed call.
const REPLY_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Longest that one model call may take, however much it has to say.
const CALL_MAX: Duration = Duration::from_hours(1);
/// Part of a model's context that the conversation may fill before old outputs are left out.
const CONTEXT_FILL_PERCENT: u64 = 80;
/// Tells the hash of a request with only the end of a conversation from that of the whole.
const TRIMMED: &[u8] = b"trimmed";

/// What a model call is for.
#[derive(Debug, Clone)]
pub(super) struct CallPurpose {
    pub(super) purpose: Purpose,
    pub(super) cause: Option<ReportCause>,
    /// Which budget is used up, if that is the cause.
    pub(super) reason: Option<String>,
    /// Whether only the end of the conversation is sent.
    pub(super) trimmed: bool,
}

impl CallPurpose {
    /// Whether the request has the agent's tools. None may be called on a report turn. They are in it all the same where
    /// there is room, because a provider that finds what it has cached by how a request begins finds nothing without
    /// them; a report that a budget asks for has none, and does not pay for any.
    fn has_tools(&self) -> bool {
        !self.trimmed && !matches!(self.cause, Some(ReportCause::Budget | ReportCause::Time))
    }
}

/// A model call that was decided on.
struct PlannedCall {
    turn: u32,
    call: u32,
    asked: CallPurpose,
    reserved: Amount,
}

impl Driver {
    /// The agent has a slot for its next model call.
    pub(super) fn ask_model(&mut self, id: &AgentId, kind: &std::sync::Arc<str>) {
        let step = match self.sessions.get_mut(id) {
            // A wish whose agent has ended meanwhile, or that was granted before, is stale.
            Some(session)
                if session.ending.is_none() && matches!(session.model_call, ModelCallStage::Slot) =>
            {
                session.model_call = ModelCallStage::Idle;
                session.machine.next(false)
            }
            _ => return self.scheduler.release(kind),
        };
        let Next::CallModel { turn, call, purpose, cause } = step else {
            return self.scheduler.release(kind);
        };
        if let Some(failure) = self.out_of_time(id) {
            self.scheduler.release(kind);
            return self.end_attempt(id, failure);
        }
        if let Some((asked, reserved)) = self.as_recorded(id) {
            return self.send(id, PlannedCall { turn, call, asked, reserved });
        }
        if let Some(limit) = self.context_limit(id) {
            self.trim(id, limit);
        }
        let machine = self.sessions.get(id).map(|session| &session.machine);
        let reason = machine.and_then(|machine| machine.lacks_budget()).map(str::to_owned);
        let asked = self.in_time(id, CallPurpose { purpose, cause, reason, trimmed: false });
        let (asked, quote) = self.quote(id, asked);
        match quote {
            Quote::Granted(reserved) => {
                let size =
                    CallSize { input_tokens: reserved.input_tokens, output_tokens: reserved.output_tokens };
                if self.acquire_permit(id, size) {
                    self.send(id, PlannedCall { turn, call, asked, reserved });
                } else {
                    self.scheduler.release(kind);
                }
            }
            Quote::Wait => {
                self.return_permit(id);
                self.scheduler.release(kind);
                self.wait_for_budget(id);
            }
            Quote::Exhausted(reason) => {
                self.return_permit(id);
                self.scheduler.release(kind);
                // It waits for its children, and what they say is added to what it has said: the end of the last
                // one brings it back here.
                if self.has_working_children(id) {
                    return;
                }
                let report = self.sessions.get(id).and_then(|session| session.machine.report_so_far());
                self.end_attempt(
                    id,
                    Failure {
                        kind: FailKind::Budget,
                        code: Code::BudgetExhausted,
                        reason,
                        report: report.map(Into::into),
                    },
                );
            }
        }
    }

    /// Somebody else may call meanwhile.
    fn return_permit(&mut self, id: &AgentId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.permit = None;
        }
    }

    /// Tells an agent once that most of a budget is used.
    fn warn_of_budget(&mut self, id: &AgentId, purpose: Purpose) {
        let warned = self.sessions.get(id).is_none_or(|session| session.machine.is_warned());
        // A run that repeats another is told what that one was told.
        if warned || purpose == Purpose::Report || self.replaying.is_some() {
            return;
        }
        if let Some(low) = self.run.low_budget(id, self.rt.parts.system.now_ms()) {
            self.emit_note(id, HostNote::BudgetLow, notes::budget_low(&low));
        }
    }

    /// Whether the attempt, or the turn before this call, has used up its working time.
    fn out_of_time(&self, id: &AgentId) -> Option<Failure> {
        let terms = &self.run.open(id)?.contract.execution;
        let machine = &self.sessions.get(id)?.machine;
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

    /// Work that begins when the agent's time is up becomes its report.
    fn in_time(&self, id: &AgentId, asked: CallPurpose) -> CallPurpose {
        let now_ms = self.rt.parts.system.now_ms();
        let is_up = self.run.report_at_ms(id, now_ms).is_some_and(|at_ms| at_ms <= now_ms);
        if asked.purpose == Purpose::Report || !is_up {
            return asked;
        }
        let reason = Some(self.run.time_used_up(id, now_ms));
        CallPurpose { purpose: Purpose::Report, cause: Some(ReportCause::Time), reason, trimmed: false }
    }

    /// What the ledger says. Work that does not fit any more becomes the report turn; a report whose conversation does
    /// not fit is sent with the end of it, for which there is room.
    fn quote(&self, id: &AgentId, mut asked: CallPurpose) -> (CallPurpose, Quote) {
        let first = self.ask_ledger(id, &asked);
        let Quote::Exhausted(reason) = first else { return (asked, first) };
        if asked.purpose == Purpose::Work {
            let (purpose, cause) = (Purpose::Report, Some(ReportCause::Budget));
            asked = CallPurpose { purpose, cause, reason: Some(reason.clone()), trimmed: false };
            let whole = self.ask_ledger(id, &asked);
            if !matches!(whole, Quote::Exhausted(_)) {
                return (asked, whole);
            }
        }
        asked.trimmed = true;
        match self.ask_ledger(id, &asked) {
            Quote::Exhausted(_) => (asked, Quote::Exhausted(reason)),
            other => (asked, other),
        }
    }

    fn ask_ledger(&self, id: &AgentId, asked: &CallPurpose) -> Quote {
        let Some(session) = self.sessions.get(id) else { return Quote::Wait };
        let ModelFacts { max_output_tokens, price, .. } = session.facts;
        let purpose = match asked.purpose {
            Purpose::Work => budget::Purpose::Work,
            Purpose::Report => budget::Purpose::Report,
        };
        let preamble_bytes =
            if asked.has_tools() { session.preamble.bytes } else { session.preamble.system.len() as u64 };
        let input_tokens = if asked.trimmed {
            REPORT_INPUT_TOKENS
        } else {
            preamble_bytes / posse_agent::conversation::BYTES_PER_TOKEN
                + session.machine.upcoming(asked.cause).1
        };
        let want = budget::CallEstimate { input_tokens, max_output_tokens, price };
        match self.run.ledger.quote(id, &want, purpose) {
            Ok(Reservation::Granted(amount)) => Quote::Granted(amount),
            Ok(Reservation::Wait { .. }) => Quote::Wait,
            Ok(Reservation::Exhausted(mut exhausted)) => {
                // A recorded model had a price, or its run would have had no limit of money.
                if let (true, Limit::UnknownPrice(usd)) = (self.replaying.is_some(), exhausted.limit) {
                    exhausted.limit = Limit::Usd(usd);
                }
                Quote::Exhausted(exhausted.to_string())
            }
            Err(error) => Quote::Exhausted(error.to_string()),
        }
    }

    /// What the limits of the run have no room for: the root's first call and its report.
    pub(super) fn first_call_problem(&self) -> Option<(&'static str, String)> {
        let root = self.run.id.root();
        let session = self.sessions.get(&root)?;
        let limits = self.run.open(&root)?.contract.budget;
        if limits.wall_ms == Some(0) {
            return Some(("max-time", "must be more than 0: even a report takes some time".to_owned()));
        }
        let input_tokens = session.preamble.bytes / posse_agent::conversation::BYTES_PER_TOKEN
            + session.machine.upcoming(None).1
            + REPORT_INPUT_TOKENS;
        let output_tokens = MIN_OUTPUT_TOKENS + REPORT_OUTPUT_TOKENS;
        let needed = input_tokens + output_tokens;
        if let Some(tokens) = limits.tokens.filter(|tokens| *tokens < needed) {
            let problem = format!("{tokens} is too little: the first call and a report need {needed} tokens");
            return Some(("max-tokens", problem));
        }
        let needed = Usd::from_micros(session.facts.price?.worst(input_tokens, output_tokens));
        // Zero means zero, also for a model that costs nothing.
        let usd = limits.usd.filter(|usd| *usd < needed || usd.micros() == 0)?;
        let problem = format!("{usd} is too little: the first call and a report may cost up to {needed}");
        Some(("max-usd", problem))
    }

    /// Most tokens the agent's conversation should have.
    fn context_limit(&self, id: &AgentId) -> Option<u64> {
        let facts = self.sessions.get(id)?.facts;
        Some(facts.context_tokens.saturating_sub(facts.max_output_tokens) * CONTEXT_FILL_PERCENT / 100)
    }

    /// Leaves the oldest outputs out until the conversation has at most `limit` tokens; whether there were any.
    fn trim(&mut self, id: &AgentId, limit: u64) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        let conversation = session.machine.conversation();
        let call_ids = conversation.excess(limit);
        if call_ids.is_empty() {
            return false;
        }
        self.leave_out(id, call_ids);
        true
    }

    fn leave_out(&mut self, id: &AgentId, call_ids: Vec<String>) {
        let Some(session) = self.sessions.get(id) else { return };
        let freed_bytes = session.machine.conversation().clone().trim(&call_ids);
        self.emit(id.clone(), ContextTrimmed { call_ids, freed_bytes });
    }

    fn send(&mut self, id: &AgentId, decided: PlannedCall) {
        self.warn_of_budget(id, decided.asked.purpose);
        self.start_agent(id);
        let Some(agent) = self.run.open(id) else { return };
        let contract = agent.contract.clone();
        let Some(session) = self.sessions.get(id) else { return };
        let attempt = session.machine.attempt();
        let PlannedCall { turn, call, asked, reserved } = decided;
        let has_tools = asked.has_tools();
        let CallPurpose { purpose, cause, reason, trimmed } = asked;
        let (preamble, upcoming) = (session.preamble.hash, session.machine.upcoming(cause).0);
        let parts: [&[u8]; 3] =
            [preamble.as_bytes(), upcoming.as_bytes(), if trimmed { TRIMMED } else { &[] }];
        let request_hash = Hash::of_parts(parts.into_iter().filter(|part| !part.is_empty()));
        let model = contract.execution.model.clone();
        let first = (attempt, turn, call) == (1, 1, 1);
        let preamble = first.then(|| self.preambles.take_unjournalled(&session.preamble));
        let called = ModelCalled {
            attempt,
            turn,
            call,
            purpose,
            cause,
            reason,
            trimmed,
            model,
            request_hash,
            reserved,
            preamble,
        };
        self.emit(id.clone(), called);
        let short = trimmed.then(|| self.report_terms(id)).flatten();
        // The event put waiting messages into the conversation: the request is made after it.
        let Some(session) = self.sessions.get_mut(id) else { return };
        let permit = session.permit.take().unwrap_or_default();
        let (system, messages) = match (short, cause) {
            (Some(system), Some(cause)) => {
                let message = session.machine.condensed(cause, system.len());
                (system, vec![std::sync::Arc::new(message)])
            }
            _ => (session.preamble.system.clone(), session.machine.conversation().messages().to_vec()),
        };
        let request = ModelRequest {
            agent: id.clone(),
            definition: session.kind.clone(),
            depth: contract.context.depth,
            attempt,
            turn,
            call,
            hash: request_hash,
            purpose,
            system,
            tools: if has_tools { session.preamble.tools.specs.clone() } else { std::sync::Arc::default() },
            messages,
            max_output_tokens: reserved.output_tokens,
            temperature: contract.execution.temperature,
            top_p: contract.execution.top_p,
            tags: session.machine.tags().clone(),
        };
        let left = session.time_left_ms(&contract.execution).map(Duration::from_millis);
        let total = left.map_or(CALL_MAX, |left| left.min(CALL_MAX));
        let effect = ModelEffect {
            model: session.model.clone(),
            request,
            permit,
            call,
            reserved,
            total,
            idle: Duration::from_millis(contract.execution.idle_timeout_ms),
        };
        self.after_commit(Effect::Model(Box::new(effect)));
    }

    /// The system prompt of a report turn that has to be short.
    fn report_terms(&self, id: &AgentId) -> Option<std::sync::Arc<str>> {
        let agent = self.run.open(id)?;
        Some(report_prompt(&agent.kind.definition, &agent.contract).into())
    }

    /// A model call ended.
    pub(super) fn model_done(&mut self, done: &ModelDone) {
        let Some(session) = self.sessions.get_mut(&done.agent) else { return };
        let machine = &session.machine;
        let current = machine.is_asking()
            && (machine.attempt(), machine.turn(), machine.call()) == (done.attempt, done.turn, done.call)
            && matches!(session.model_call, ModelCallStage::Reply(_));
        if !current {
            return;
        }
        session.model_call = ModelCallStage::Idle;
        let price = session.facts.price;
        let kind = session.kind.clone();
        self.scheduler.release(&kind);
        let next = self.after_failure(done);
        let (reply, repeated, mut replied) = charge_call(done, price);
        if let Some(error) = &mut replied.error {
            error.again = !matches!(next, AfterFailure::Over);
        }
        let reason = replied.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        let report_turn = self.sessions.get(&done.agent).is_some_and(|s| s.machine.is_reporting());
        self.emit(done.agent.clone(), Box::new(replied));
        if let Some(session) = self.sessions.get_mut(&done.agent) {
            session.cursor = 0;
        }
        if let Err(ModelFailure { error, .. }) = &done.result
            && error.code == Code::ReplayDiffers
        {
            return self.end_replay(error.message.clone());
        }
        match next {
            AfterFailure::Over => {
                if let Some(session) = self.sessions.get_mut(&done.agent) {
                    session.unanswered = None;
                }
            }
            AfterFailure::Again { after, limited } => self.pause(&done.agent, after, limited, &reason),
            AfterFailure::Shorter(call_ids) => self.leave_out(&done.agent, call_ids),
        }
        self.answer_unrunnable(&done.agent, reply.as_ref(), &repeated, report_turn);
        self.budget_freed();
        self.mark_ready(&done.agent);
    }

    /// Calls that are answered and never run: ids given twice, and calls made on a turn without tools.
    fn answer_unrunnable(
        &mut self,
        id: &AgentId,
        reply: Option<&Reply>,
        repeated: &[String],
        report_turn: bool,
    ) {
        let Some(reply) = reply else { return };
        // They stand in the order of the calls: looking only at the next one keeps a wide reply cheap.
        let mut repeated = repeated.iter().peekable();
        for call in &reply.calls {
            let problem = if report_turn {
                "no tool could be called on the report turn"
            } else if repeated.next_if(|id| **id == call.id).is_some() {
                "another call of this reply has the same id; this one was not run"
            } else {
                continue;
            };
            self.answer(id, &call.id, &call.name, Err(crate::ports::ToolFailure::invalid(problem)));
        }
    }

    fn wait_for_budget(&mut self, id: &AgentId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.model_call = ModelCallStage::Budget;
            self.budget_queue.push_back(id.clone());
        }
    }

    /// A call was charged: the calls that did not fit into a budget are tried again, in their order.
    pub(super) fn budget_freed(&mut self) {
        for id in std::mem::take(&mut self.budget_queue) {
            let session = self.sessions.get(&id);
            if session.is_some_and(|session| matches!(session.model_call, ModelCallStage::Budget)) {
                self.want_model(&id);
            }
        }
    }

    /// A model call was cut off before its answer: it is settled at what it had reserved. Another may follow in the same
    /// turn if `again`.
    pub(super) fn forfeit_model_call(&mut self, id: &AgentId, code: Code, message: &str, again: bool) {
        let Some(reserved) = self.run.open(id).and_then(|agent| agent.calling) else { return };
        let Some(session) = self.sessions.get(id) else { return };
        let replied = ModelReplied {
            attempt: session.machine.attempt(),
            turn: session.machine.turn(),
            call: session.machine.call(),
            reply: None,
            reply_at: None,
            error: Some(CallError { code, message: message.to_owned(), status: None, again }),
            usage: reserved.as_usage(),
            estimated: true,
            tag: None,
            elapsed_ms: 0,
            cut_off: false,
        };
        self.emit(id.clone(), Box::new(replied));
    }

    pub(super) fn emit_note(&mut self, id: &AgentId, note: HostNote, text: String) {
        self.emit(id.clone(), MessageReceived { from: Sender::Host(note), text: text.into() });
    }
}

enum Quote {
    Granted(Amount),
    Wait,
    Exhausted(String),
}

/// The event of a call that ended, with its reply and the ids that had to be made up.
fn charge_call(done: &ModelDone, price: Option<budget::Price>) -> (Option<Reply>, Vec<String>, ModelReplied) {
    let mut replied = ModelReplied {
        attempt: done.attempt,
        turn: done.turn,
        call: done.call,
        reply: None,
        reply_at: None,
        error: None,
        usage: done.reserved.as_usage(),
        estimated: false,
        tag: None,
        elapsed_ms: u64::try_from(done.elapsed.as_millis()).unwrap_or(u64::MAX),
        cut_off: false,
    };
    match &done.result {
        Ok(ModelReply { reply, usage, cut_off, tag }) => {
            replied.cut_off = *cut_off;
            replied.usage = priced(*usage, price);
            replied.tag.clone_from(tag);
            if reply.text.len_bytes() > REPLY_MAX_BYTES {
                let message = format!("a reply of {} bytes is more than is taken", reply.text.len_bytes());
                replied.error = Some(CallError::new(Code::ModelError, message));
                return (None, Vec::new(), replied);
            }
            let (reply, repeated) = accept(reply.clone());
            replied.reply = Some(reply.clone());
            (Some(reply), repeated, replied)
        }
        Err(failure) => {
            replied.error = Some((*failure.error).clone());
            replied.tag.clone_from(&failure.tag);
            match failure.usage {
                Some(usage) => replied.usage = priced(usage, price),
                None => replied.estimated = true,
            }
            (None, Vec::new(), replied)
        }
    }
}

fn priced(usage: Usage, price: Option<budget::Price>) -> Usage {
    Usage { micro_usd: usage.micro_usd.or_else(|| price.map(|price| price.cost(&usage))), ..usage }
}
