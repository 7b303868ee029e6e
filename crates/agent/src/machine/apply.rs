//! Applies the events of an agent to its machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{
    EventBody, HostNote, MessageReceived, ModelCalled, ModelReplied, Purpose, ReportCause, SeenFile, Sender,
    SubagentAttempt, ToolFinished,
};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::FailKind;
use posse_domain::message::{Reply, ToolCall};

use super::reply::signature;
use super::{AttemptFailure, FinalText, Machine, NotesGiven, Overflow, Phase, Relay, Slot, SummaryCalls};
use crate::conversation::{CallResult, Message};
use crate::notes;
use crate::prompts::retry_note;

/// Maximum length of a failed call's text in the reason of a failed attempt.
const FAILED_TEXT_MAX_CHARS: usize = 400;

impl Machine {
    /// Applies an event of this agent.
    pub fn apply(&mut self, body: &EventBody) {
        match body {
            EventBody::ModelCalled(called) => self.model_called(called),
            EventBody::ModelReplied(replied) => self.model_replied(replied),
            EventBody::ToolIntended(intended) => {
                let write = intended.write.clone();
                if let Some(slot @ Slot::Open { .. }) = self.slot_mut(&intended.call_id) {
                    *slot = Slot::Open { intended: true, write };
                }
            }
            EventBody::ToolFinished(finished) => self.tool_finished(finished),
            EventBody::ToolInterrupted(e) => {
                let text = e.output.to_shared();
                let result = CallResult {
                    call_id: e.call_id.as_str().into(),
                    tool: e.tool.as_str().into(),
                    ok: false,
                    text,
                    images: Vec::new(),
                };
                self.answer_call(result, e.elapsed_ms, false);
            }
            EventBody::MessageReceived(received) => self.message_received(received),
            EventBody::ContextTrimmed(trimmed) => {
                self.conversation.trim(&trimmed.call_ids);
                if self.overflow == Overflow::Refused {
                    self.overflow = Overflow::Trimmed;
                }
            }
            EventBody::ContextCompacted(compacted) => self.context_compacted(compacted),
            EventBody::RunPlanned(_) => {
                self.planned = true;
                self.phase = Phase::Answered(FinalText::default());
            }
            EventBody::SubagentAttempt(again) => self.restart(again),
            _ => {}
        }
    }

    fn model_called(&mut self, called: &ModelCalled) {
        if (called.attempt, called.turn) != (self.attempt, self.turn) {
            self.turn_ms = 0;
        }
        if let Some(scope) = called.scope {
            return self.summary_called(called, scope);
        }
        self.attempt = called.attempt;
        self.turn = called.turn;
        self.call = called.call;
        for message in self.waiting(called.cause) {
            self.conversation.push(message);
        }
        self.inbox.clear();
        self.objected.clear();
        self.notes_given.report = called.cause.or(self.notes_given.report);
        self.phase = Phase::Asking {
            purpose: called.purpose,
            cause: called.cause,
            reason: called.reason.as_deref().map(Into::into),
        };
    }

    /// The messages that the next model call adds to the conversation. A call retry adds nothing twice.
    fn waiting(&self, cause: Option<ReportCause>) -> Vec<Message> {
        let note =
            cause.filter(|_| cause != self.notes_given.report).map(|cause| self.report_note(cause).into());
        self.inbox.iter().cloned().chain(note).map(Message::User).collect()
    }

    pub(super) fn report_note(&self, cause: ReportCause) -> String {
        notes::report_now(cause, self.limits.result_schema.is_some())
    }

    /// The hash and size of the conversation that the next model call sends.
    pub fn upcoming(&self, cause: Option<ReportCause>) -> (Hash, u64) {
        self.conversation.with(&self.waiting(cause))
    }

    fn model_replied(&mut self, replied: &ModelReplied) {
        if let Some(tag) = &replied.tag {
            *Arc::make_mut(&mut self.tags).entry(tag.clone()).or_default() += 1;
        }
        self.active_ms += replied.elapsed_ms;
        self.turn_ms += replied.elapsed_ms;
        if matches!(self.phase, Phase::Summarising { .. }) {
            return self.summary_replied(replied);
        }
        let Phase::Asking { purpose, cause, reason } = &self.phase else { return };
        let (purpose, cause, why) = (*purpose, *cause, reason.clone());
        match (&replied.error, &replied.reply) {
            (Some(error), _) if error.again || error.code == Code::Interrupted => {
                if error.code == Code::ContextOverflow {
                    self.overflow = Overflow::Refused;
                }
                self.phase = Phase::Ready { repair: is_repairing(cause) };
            }
            (Some(error), _) => self.phase = Phase::Broken(AttemptFailure::of(error)),
            (None, Some(reply)) => self.take_reply(reply, purpose, (cause, why), replied.cut_off),
            (None, None) => {}
        }
    }

    fn take_reply(
        &mut self,
        reply: &Reply,
        purpose: Purpose,
        (cause, reason): (Option<ReportCause>, Option<Arc<str>>),
        cut_off: bool,
    ) {
        self.call = 0;
        self.notes_given.report = None;
        self.overflow = Overflow::No;
        self.summary_calls = SummaryCalls::default();
        let text = reply.text.to_shared();
        let is_fruitless = reply.calls.is_empty() && (cut_off || text.trim().is_empty());
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        // A report turn offers no tools. If the model calls some, they get their results elsewhere and are not kept
        // here.
        let calls: Arc<[ToolCall]> =
            if purpose == Purpose::Report { Arc::new([]) } else { reply.calls.as_slice().into() };
        let raw = reply.raw.clone().filter(|_| calls.len() == reply.calls.len());
        self.conversation.push(Message::Assistant { text: text.clone(), calls: calls.clone(), raw });
        self.phase = if calls.is_empty() {
            let called = calls.len() != reply.calls.len();
            Phase::Answered(FinalText { text, cause, reason, cut_off, called })
        } else {
            if cut_off {
                self.inbox.push(notes::CUT_OFF.into());
            }
            let slots = vec![Slot::Open { intended: false, write: None }; calls.len()];
            // A reply may have many calls, and each result must find its slot without a search.
            let index = calls.iter().enumerate().map(|(at, call)| (call.id.clone(), at)).collect();
            Phase::Calling { left: calls.len(), calls, index, slots }
        };
    }

    fn slot_mut(&mut self, call_id: &str) -> Option<&mut Slot> {
        let Phase::Calling { index, slots, .. } = &mut self.phase else { return None };
        index.get(call_id).and_then(|&at| slots.get_mut(at))
    }

    fn tool_finished(&mut self, finished: &ToolFinished) {
        for SeenFile { path, hash } in &finished.seen {
            Arc::make_mut(&mut self.seen).insert(path.clone(), *hash);
        }
        let result = CallResult {
            call_id: finished.call_id.as_str().into(),
            tool: finished.tool.as_str().into(),
            ok: finished.ok,
            text: finished.output.to_shared(),
            images: finished.images.clone(),
        };
        // A child's exhausted budget is not this agent's.
        let lacks_budget = finished.code == Some(Code::BudgetExhausted) && finished.child.is_none();
        self.answer_call(result, finished.elapsed_ms, lacks_budget);
    }

    fn answer_call(&mut self, result: CallResult, elapsed_ms: u64, lacks_budget: bool) {
        let Phase::Calling { index, slots, left, .. } = &mut self.phase else { return };
        let Some(&at) = index.get(&*result.call_id) else { return };
        if matches!(slots[at], Slot::Done { .. }) {
            return;
        }
        slots[at] = Slot::Done { result, elapsed_ms, lacks_budget };
        *left -= 1;
        if *left == 0 {
            self.turn_over();
        }
    }

    /// Ends a turn when all calls have results: counts failures, and adds the results to the conversation.
    fn turn_over(&mut self) {
        let Phase::Calling { calls, slots, .. } =
            std::mem::replace(&mut self.phase, Phase::Ready { repair: false })
        else {
            return;
        };
        let mut results = Vec::with_capacity(slots.len());
        let mut longest_ms = 0;
        let mut lacking = BTreeSet::new();
        let mut outcomes: HashMap<String, (bool, usize)> = HashMap::new();
        for (at, slot) in slots.into_iter().enumerate() {
            let Slot::Done { result, elapsed_ms, lacks_budget } = slot else { continue };
            longest_ms = longest_ms.max(elapsed_ms);
            // Equal calls in one reply count once, and as a success if any succeeded.
            let outcome = outcomes.entry(signature(&calls[at])).or_insert((false, at));
            outcome.0 |= result.ok;
            if lacks_budget {
                lacking.insert(at);
            }
            results.push(result);
        }
        self.active_ms += longest_ms;
        self.turn_ms += longest_ms;
        let mut worst: Option<(u32, usize)> = None;
        for (signature, (ok, at)) in outcomes {
            if ok {
                self.failures.remove(&signature);
                continue;
            }
            let count = self.failures.entry(signature).or_default();
            *count += 1;
            if *count >= self.limits.max_retries_per_tool && worst.is_none_or(|(_, first)| at < first) {
                worst = Some((*count, at));
            }
        }
        if let Some((count, at)) = worst {
            let text: String = results[at].text.chars().take(FAILED_TEXT_MAX_CHARS).collect();
            let reason =
                format!("`{}` failed {count} times in a row with the same input: {text}", calls[at].name);
            if lacking.contains(&at) {
                // The agent then reports, as an agent does whose next model call does not fit its budget.
                self.lacks_budget = Some(reason.into());
            } else {
                let (kind, code) = (FailKind::Execution, Code::ToolError);
                self.phase = Phase::Broken(AttemptFailure { kind, code, reason, report: None });
            }
        }
        self.conversation.push(Message::Results(results));
    }

    fn message_received(&mut self, received: &MessageReceived) {
        let text = received.text.to_shared();
        match &received.from {
            Sender::Host(HostNote::BudgetLow) => {
                self.notes_given.low = true;
                self.inbox.push(text);
            }
            // The model reads a hook's note beside the results that it is about, whether or not others are pending.
            Sender::Host(HostNote::Hook) => {
                self.objected.extend(self.call_objected_to(&text));
                self.inbox.push(text);
            }
            Sender::Host(note) => {
                let repair = matches!(note, HostNote::SchemaMismatch | HostNote::CriteriaUnanswered);
                self.asked_for_repair |= repair;
                self.phase = Phase::Ready { repair };
                self.inbox.push(text);
            }
            Sender::Person => self.inbox.push(notes::from_user(&text).into()),
            Sender::Agent(_) => self.inbox.push(notes::from_parent(&text).into()),
            Sender::Child(_) => match &mut self.relay {
                Relay::No => self.inbox.push(text),
                relay => *relay = Relay::Reported(text),
            },
        }
    }

    /// The id of the call that a hook's note is about. The journal has it only in the note's text: its event has no
    /// field for it, and a new one would make journals that older versions refuse. The host wrote the text, with the
    /// same function, and no other sender's text is read like this.
    fn call_objected_to(&self, note: &str) -> Option<String> {
        let unread = self.unread_results().into_iter().map(|(call, _)| call);
        let mut objected = unread.filter(|call| note.starts_with(&notes::hook_objects(&call.name, &call.id)));
        objected.next().map(|call| call.id.clone())
    }

    fn restart(&mut self, again: &SubagentAttempt) {
        let mut conversation = self.prior.clone();
        conversation.push(Message::User(self.first.clone()));
        conversation.push(Message::User(retry_note(&again.reason, again.in_place).into()));
        *self = Self {
            limits: self.limits.clone(),
            first: self.first.clone(),
            assignment: self.prior.messages().len(),
            prior: std::mem::take(&mut self.prior),
            attempt: again.n,
            turn: 0,
            call: 0,
            phase: Phase::Ready { repair: false },
            conversation,
            // Messages that arrived while the last attempt ended are for the new one.
            inbox: std::mem::take(&mut self.inbox),
            objected: BTreeSet::new(),
            failures: BTreeMap::new(),
            tags: std::mem::take(&mut self.tags),
            seen: Arc::default(),
            active_ms: 0,
            turn_ms: 0,
            asked_for_repair: false,
            notes_given: NotesGiven::default(),
            overflow: Overflow::No,
            summary_calls: SummaryCalls::default(),
            lacks_budget: None,
            fruitless: 0,
            planned: self.planned,
            relay: if self.relay == Relay::No { Relay::No } else { Relay::Waiting },
        };
    }
}

/// Whether a turn only fixes a final answer.
fn is_repairing(cause: Option<ReportCause>) -> bool {
    matches!(cause, Some(ReportCause::Schema | ReportCause::Criteria))
}
