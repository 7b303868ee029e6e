//! The turn machine: it says what to do next, and is told what came of it by the events of its agent.
//!
//! It changes by [`Machine::apply`] alone, and only by events that are in the journal, so the machine folded
//! from the journal after a crash equals the one that was lost. What a driver does meanwhile (which call is in
//! flight, who waits for a slot) is not its business.

mod criteria;
mod reply;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::event::{
    EventBody, HostNote, MessageReceived, ModelCalled, ModelReplied, Purpose, ReportCause, SeenFile, Sender,
    ToolFinished, WriteIntent,
};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::FailKind;
use posse_domain::message::{Reply, ToolCall};
use serde::{Deserialize, Serialize};

use self::criteria::unanswered;
pub(crate) use self::criteria::words;
pub use self::reply::accept;
use self::reply::signature;
use crate::answer::{self, SchemaVerdict};
use crate::conversation::{CallResult, Conversation, Message};
use crate::definition::{first_message, handover, retry_note};
use crate::notes;

/// Replies in a row that may be empty or cut off: a model that goes on like that only spends.
pub const FRUITLESS_MAX: u32 = 3;

/// The limits of a machine, from its contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Turns per attempt, the report turn included.
    pub max_turns: Option<u32>,
    /// How often in a row the same call may fail.
    pub max_retries_per_tool: u32,
    /// JSON Schema of the final answer.
    pub result_schema: Option<Arc<serde_json::Value>>,
    /// How many criteria in words the report must answer.
    pub criteria: usize,
}

impl Limits {
    /// The limits of a contract.
    pub fn of(contract: &Contract) -> Self {
        let schema = contract.outputs.result_schema.as_ref();
        Self {
            max_turns: contract.execution.max_turns,
            max_retries_per_tool: contract.execution.max_retries_per_tool.max(1),
            result_schema: schema.map(|schema| Arc::new(serde_json::json!(schema))),
            // A result in JSON has no lines to answer them in.
            criteria: if schema.is_some() { 0 } else { words(contract).count() },
        }
    }
}

/// Why an attempt cannot go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// The kind of failure.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
    /// What could still be reported.
    pub report: Option<Arc<str>>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model.
    CallModel {
        /// The turn this is, from 1.
        turn: u32,
        /// The call of the turn, from 1.
        call: u32,
        /// What for.
        purpose: Purpose,
        /// For a report: why now.
        cause: Option<ReportCause>,
    },
    /// Run the calls that have no result yet.
    CallTools,
    /// A call is under way.
    Wait,
    /// Nothing to do until a child ends.
    Idle,
    /// Tell the model something before it is asked again.
    Tell(HostNote, String),
    /// The work is done.
    Done {
        /// The report.
        report: Arc<str>,
        /// Whether it ran out of turns.
        turns_exhausted: bool,
    },
    /// The attempt has failed.
    Fail(Broken),
}

/// A call of the reply under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Slot {
    /// No result yet; an intent if one was journalled.
    Open {
        /// Whether the effect may have begun.
        intended: bool,
        /// For a write, what it was about to do.
        write: Option<WriteIntent>,
    },
    /// Has its result.
    Done {
        /// The result.
        result: CallResult,
        /// Working time it took.
        elapsed_ms: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    /// A model call is next.
    Ready { mend: bool },
    /// A model call is under way.
    Asking { purpose: Purpose, cause: Option<ReportCause> },
    /// Calls of a reply are under way.
    Calling { calls: Arc<[ToolCall]>, index: HashMap<String, usize>, slots: Vec<Slot>, left: usize },
    /// The model answered without calls.
    Answered { text: Arc<str>, cause: Option<ReportCause>, cut_off: bool },
    /// The attempt cannot go on.
    Broken(Broken),
}

/// What the host has told the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Told {
    /// Why the report is asked for in this turn.
    report: Option<ReportCause>,
    /// That most of a budget is used.
    low: bool,
}

/// Whether an agent only passes on what its one child says, and asks no model itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Relay {
    /// It asks a model like any other.
    No,
    /// The child has not said anything yet.
    Waiting,
    /// The child said this.
    Said(Arc<str>),
}

/// The state of one agent's conversation with its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    limits: Limits,
    first: Arc<str>,
    prior: Conversation,
    attempt: u32,
    turn: u32,
    call: u32,
    phase: Phase,
    conversation: Conversation,
    inbox: Vec<Arc<str>>,
    failures: BTreeMap<String, u32>,
    tags: Arc<BTreeMap<String, u32>>,
    seen: Arc<BTreeMap<String, Hash>>,
    active_ms: u64,
    /// Working time of the turn that was last begun.
    turn_ms: u64,
    mended: bool,
    told: Told,
    /// Whether the model said in this turn that the conversation is too long.
    overflowed: bool,
    /// How many replies in a row called nothing and were empty or cut off.
    fruitless: u32,
    /// Whether the host carries out a plan: the model is asked only if somebody writes to it.
    planned: bool,
    relay: Relay,
}

impl Machine {
    /// A machine for a contract. `prior` is the conversation of the child it continues.
    pub fn new(contract: &Contract, prior: Conversation) -> Self {
        Self::beginning(contract, prior, first_message(contract))
    }

    /// A machine for a contract whose agent begins with `shared`, its parent's conversation.
    pub fn sharing(definition: &Definition, contract: &Contract, shared: Conversation) -> Self {
        Self::beginning(contract, shared, handover(definition, contract))
    }

    fn beginning(contract: &Contract, prior: Conversation, first: String) -> Self {
        let first: Arc<str> = first.into();
        let mut conversation = prior.clone();
        conversation.push(Message::User(first.clone()));
        Self {
            limits: Limits::of(contract),
            first,
            prior,
            attempt: 1,
            turn: 0,
            call: 0,
            phase: Phase::Ready { mend: false },
            conversation,
            inbox: Vec::new(),
            failures: BTreeMap::new(),
            tags: Arc::default(),
            seen: Arc::default(),
            active_ms: 0,
            turn_ms: 0,
            mended: false,
            told: Told::default(),
            overflowed: false,
            fruitless: 0,
            planned: false,
            relay: Relay::No,
        }
    }

    /// A machine that asks no model: its report is what its one child says.
    pub fn relaying(self) -> Self {
        Self { relay: Relay::Waiting, ..self }
    }

    /// What to do next. `open_children` says whether a child is neither completed nor failed.
    pub fn next(&self, open_children: bool) -> Step {
        match &self.relay {
            Relay::Said(said) if !open_children => {
                return Step::Done { report: self.report(said), turns_exhausted: false };
            }
            Relay::Said(_) | Relay::Waiting => return Step::Idle,
            Relay::No => {}
        }
        match &self.phase {
            Phase::Ready { mend } => self.ask(*mend),
            Phase::Asking { .. } => Step::Wait,
            Phase::Calling { .. } => Step::CallTools,
            Phase::Answered { cause: None, cut_off: true, .. } if self.turns_left() => {
                self.go_on(HostNote::CutOff, notes::CUT_OFF)
            }
            Phase::Answered { text, cause, cut_off } => match self.answered(text, *cause, open_children) {
                Step::Done { report, turns_exhausted } if *cut_off => Step::Done {
                    report: format!("{report}\n\n{}", notes::CUT_REPORT).into(),
                    turns_exhausted,
                },
                step => step,
            },
            Phase::Broken(broken) => Step::Fail(broken.clone()),
        }
    }

    fn ask(&self, mend: bool) -> Step {
        // A call that failed without an answer is repeated within its turn.
        let repeated = self.call > 0;
        let turn = if repeated { self.turn } else { self.turn + 1 };
        let cause = if mend {
            Some(if self.limits.criteria > 0 { ReportCause::Criteria } else { ReportCause::Schema })
        } else {
            self.limits.max_turns.filter(|&max| turn >= max).map(|_| ReportCause::Turns)
        };
        let purpose = if cause.is_some() { Purpose::Report } else { Purpose::Work };
        Step::CallModel { turn, call: self.call + 1, purpose, cause }
    }

    fn answered(&self, text: &Arc<str>, cause: Option<ReportCause>, open_children: bool) -> Step {
        let may_ask = cause.is_none() && self.turns_left();
        if !self.inbox.is_empty() && may_ask {
            return self.ask(false);
        }
        if open_children {
            return Step::Idle;
        }
        if text.trim().is_empty() && !self.planned {
            if may_ask {
                return self.go_on(HostNote::EmptyReply, notes::EMPTY_REPLY);
            }
            return Step::Fail(broken(cause, "the report turn gave no text".to_owned(), None));
        }
        if cause == Some(ReportCause::Budget) {
            return Step::Fail(broken(cause, "the budget is exhausted".to_owned(), Some(self.report(text))));
        }
        if let Some(schema) = &self.limits.result_schema
            && let SchemaVerdict::Mismatch(problems) = answer::check(schema, text)
        {
            if self.mended {
                let reason = format!("the final answer does not satisfy its schema: {problems}");
                return Step::Fail(broken(None, reason, Some(text.clone())));
            }
            return Step::Tell(HostNote::SchemaMismatch, notes::schema_mismatch(&problems));
        }
        let missing = unanswered(self.limits.criteria, text);
        if !missing.is_empty() {
            if self.mended {
                let reason = notes::criteria_unanswered(&missing);
                return Step::Fail(broken(None, reason, Some(self.report(text))));
            }
            return Step::Tell(HostNote::CriteriaUnanswered, notes::criteria_unanswered(&missing));
        }
        // Beyond the limit it mended an answer that was its report already.
        let beyond = self.limits.max_turns.is_some_and(|max| self.turn > max);
        Step::Done { report: self.report(text), turns_exhausted: cause == Some(ReportCause::Turns) || beyond }
    }

    /// Asks a model that said nothing of use to go on, unless it has done so too often.
    fn go_on(&self, note: HostNote, text: &str) -> Step {
        if self.fruitless < FRUITLESS_MAX {
            return Step::Tell(note, text.to_owned());
        }
        let reason = format!("{FRUITLESS_MAX} replies in a row were empty or cut off");
        Step::Fail(broken(None, reason, None))
    }

    /// The report: the last reply's text, and what the model had no turn left to read.
    fn report(&self, text: &Arc<str>) -> Arc<str> {
        if self.inbox.is_empty() {
            return text.clone();
        }
        format!("{text}\n\n{}\n\n{}", notes::UNDELIVERED, self.inbox.join("\n\n")).into()
    }

    fn turns_left(&self) -> bool {
        self.limits.max_turns.is_none_or(|max| self.turn < max)
    }

    /// Takes an event of this agent.
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
                self.answer_call(result, e.elapsed_ms);
            }
            EventBody::MessageReceived(received) => self.message_received(received),
            EventBody::ContextTrimmed(trimmed) => {
                self.conversation.trim(&trimmed.call_ids);
            }
            EventBody::RunPlanned(_) => {
                self.planned = true;
                self.phase = Phase::Answered { text: "".into(), cause: None, cut_off: false };
            }
            EventBody::SubagentAttempt(again) => self.restart(again.n, &again.reason),
            _ => {}
        }
    }

    fn model_called(&mut self, called: &ModelCalled) {
        if (called.attempt, called.turn) != (self.attempt, self.turn) {
            self.turn_ms = 0;
        }
        self.attempt = called.attempt;
        self.turn = called.turn;
        self.call = called.call;
        for message in self.waiting(called.cause) {
            self.conversation.push(message);
        }
        self.inbox.clear();
        self.told.report = called.cause.or(self.told.report);
        self.phase = Phase::Asking { purpose: called.purpose, cause: called.cause };
    }

    /// What the next model call puts into the conversation. A call that is repeated says nothing twice.
    fn waiting(&self, cause: Option<ReportCause>) -> Vec<Message> {
        let note = cause.filter(|_| cause != self.told.report).map(|cause| notes::report_now(cause).into());
        self.inbox.iter().cloned().chain(note).map(Message::User).collect()
    }

    /// Hash and size of the conversation as the next model call sends it.
    pub fn upcoming(&self, cause: Option<ReportCause>) -> (Hash, u64) {
        self.conversation.with(&self.waiting(cause))
    }

    fn model_replied(&mut self, replied: &ModelReplied) {
        if let Some(tag) = &replied.tag {
            *Arc::make_mut(&mut self.tags).entry(tag.clone()).or_default() += 1;
        }
        self.active_ms += replied.elapsed_ms;
        self.turn_ms += replied.elapsed_ms;
        let Phase::Asking { purpose, cause } = self.phase else { return };
        match (&replied.error, &replied.reply) {
            (Some(error), _) if error.again || error.code == Code::Interrupted => {
                self.overflowed |= error.code == Code::ContextOverflow;
                self.phase = Phase::Ready { mend: is_mending(cause) };
            }
            (Some(error), _) => {
                let kind = if error.code == Code::Timeout { FailKind::Timeout } else { FailKind::Execution };
                let reason = error.message.clone();
                self.phase = Phase::Broken(Broken { kind, code: error.code, reason, report: None });
            }
            (None, Some(reply)) => self.take_reply(reply, purpose, cause, replied.cut_off),
            (None, None) => {}
        }
    }

    fn take_reply(&mut self, reply: &Reply, purpose: Purpose, cause: Option<ReportCause>, cut_off: bool) {
        self.call = 0;
        self.told.report = None;
        self.overflowed = false;
        let text = reply.text.to_shared();
        let is_fruitless = reply.calls.is_empty() && (cut_off || text.trim().is_empty());
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        // On a report turn no tool was offered: calls made all the same are answered elsewhere and not kept here.
        let calls: Arc<[ToolCall]> =
            if purpose == Purpose::Report { Arc::new([]) } else { reply.calls.as_slice().into() };
        let raw = reply.raw.clone().filter(|_| calls.len() == reply.calls.len());
        self.conversation.push(Message::Assistant { text: text.clone(), calls: calls.clone(), raw });
        self.phase = if calls.is_empty() {
            Phase::Answered { text, cause, cut_off }
        } else {
            if cut_off {
                self.inbox.push(notes::CUT_OFF.into());
            }
            let slots = vec![Slot::Open { intended: false, write: None }; calls.len()];
            // A wide reply gets its results one by one: each must find its place without a walk.
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
        self.answer_call(result, finished.elapsed_ms);
    }

    fn answer_call(&mut self, result: CallResult, elapsed_ms: u64) {
        let Phase::Calling { index, slots, left, .. } = &mut self.phase else { return };
        let Some(&at) = index.get(&*result.call_id) else { return };
        if matches!(slots[at], Slot::Done { .. }) {
            return;
        }
        slots[at] = Slot::Done { result, elapsed_ms };
        *left -= 1;
        if *left == 0 {
            self.turn_over();
        }
    }

    /// All calls have their results: count failures, hand the results to the conversation.
    fn turn_over(&mut self) {
        let Phase::Calling { calls, slots, .. } =
            std::mem::replace(&mut self.phase, Phase::Ready { mend: false })
        else {
            return;
        };
        let mut results = Vec::with_capacity(slots.len());
        let mut longest_ms = 0;
        let mut outcomes: HashMap<String, (bool, usize)> = HashMap::new();
        for (at, slot) in slots.into_iter().enumerate() {
            let Slot::Done { result, elapsed_ms } = slot else { continue };
            longest_ms = longest_ms.max(elapsed_ms);
            // The same call several times in one reply counts once, and as a success if any succeeded.
            let outcome = outcomes.entry(signature(&calls[at])).or_insert((false, at));
            outcome.0 |= result.ok;
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
            let text: String = results[at].text.chars().take(200).collect();
            let reason =
                format!("`{}` failed {count} times in a row with the same input: {text}", calls[at].name);
            self.phase = Phase::Broken(Broken {
                kind: FailKind::Execution,
                code: Code::ToolError,
                reason,
                report: None,
            });
        }
        self.conversation.push(Message::Results(results));
    }

    fn message_received(&mut self, received: &MessageReceived) {
        let text = received.text.to_shared();
        match &received.from {
            Sender::Host(HostNote::BudgetLow) => {
                self.told.low = true;
                self.inbox.push(text);
            }
            // A hook's is read beside the results that it is about, whether or not others are still to come.
            Sender::Host(HostNote::Hook) => self.inbox.push(text),
            Sender::Host(note) => {
                let mend = matches!(note, HostNote::SchemaMismatch | HostNote::CriteriaUnanswered);
                self.mended |= mend;
                self.phase = Phase::Ready { mend };
                self.inbox.push(text);
            }
            Sender::Person => self.inbox.push(notes::from_person(&text).into()),
            Sender::Agent(_) => self.inbox.push(notes::from_parent(&text).into()),
            Sender::Child(_) => match &mut self.relay {
                Relay::No => self.inbox.push(text),
                relay => *relay = Relay::Said(text),
            },
        }
    }

    fn restart(&mut self, attempt: u32, reason: &str) {
        let mut conversation = self.prior.clone();
        conversation.push(Message::User(self.first.clone()));
        conversation.push(Message::User(retry_note(reason).into()));
        *self = Self {
            limits: self.limits.clone(),
            first: self.first.clone(),
            prior: std::mem::take(&mut self.prior),
            attempt,
            turn: 0,
            call: 0,
            phase: Phase::Ready { mend: false },
            conversation,
            // Messages that came while the last attempt ended are for the new one.
            inbox: std::mem::take(&mut self.inbox),
            failures: BTreeMap::new(),
            tags: std::mem::take(&mut self.tags),
            seen: Arc::default(),
            active_ms: 0,
            turn_ms: 0,
            mended: false,
            told: Told::default(),
            overflowed: false,
            fruitless: 0,
            planned: self.planned,
            relay: if self.relay == Relay::No { Relay::No } else { Relay::Waiting },
        };
    }

    /// The attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The turn of the attempt that was last begun; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Working time of this attempt so far.
    pub fn active_ms(&self) -> u64 {
        self.active_ms
    }

    /// Working time of the turn that was last begun, as far as what it did has ended.
    pub fn turn_ms(&self) -> u64 {
        self.turn_ms
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// How often each tag came back.
    pub fn tags(&self) -> &Arc<BTreeMap<String, u32>> {
        &self.tags
    }

    /// The files the agent has seen.
    pub fn seen_files(&self) -> &Arc<BTreeMap<String, Hash>> {
        &self.seen
    }

    /// The calls under way and where each stands; empty if none are.
    pub fn calls(&self) -> (&[ToolCall], &[Slot]) {
        match &self.phase {
            Phase::Calling { calls, slots, .. } => (calls, slots),
            _ => (&[], &[]),
        }
    }

    /// The calls under way, shared.
    pub fn shared_calls(&self) -> Option<Arc<[ToolCall]>> {
        match &self.phase {
            Phase::Calling { calls, .. } => Some(calls.clone()),
            _ => None,
        }
    }

    /// The call with this id, if it is one of those under way.
    pub fn call_of(&self, call_id: &str) -> Option<&ToolCall> {
        match &self.phase {
            Phase::Calling { calls, index, .. } => index.get(call_id).and_then(|&at| calls.get(at)),
            _ => None,
        }
    }

    /// Whether the call at this place has its result.
    pub fn is_answered(&self, at: usize) -> bool {
        matches!(&self.phase, Phase::Calling { slots, .. } if matches!(slots.get(at), Some(Slot::Done { .. })))
    }

    /// The calls whose results no model has read, and these; without those a hook has objected to.
    pub fn unread_results(&self) -> Vec<(&ToolCall, &CallResult)> {
        let results: Vec<(&ToolCall, &CallResult)> = match (&self.phase, self.conversation.last_results()) {
            (Phase::Calling { calls, slots, .. }, _) => calls
                .iter()
                .zip(slots)
                .filter_map(|(call, slot)| match slot {
                    Slot::Done { result, .. } => Some((call, result)),
                    Slot::Open { .. } => None,
                })
                .collect(),
            (Phase::Ready { .. }, Some((calls, results))) if self.call == 0 => {
                calls.iter().zip(results).collect()
            }
            _ => Vec::new(),
        };
        let told = |call: &ToolCall| {
            let opening = notes::hook_objects(&call.name, &call.id);
            self.inbox.iter().any(|note| note.starts_with(&opening))
        };
        results.into_iter().filter(|(call, _)| !told(call)).collect()
    }

    /// The calls that have no result yet.
    pub fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let (calls, slots) = self.calls();
        calls.iter().zip(slots).filter(|(_, slot)| matches!(slot, Slot::Open { .. })).map(|(call, _)| call)
    }

    /// The call of the turn under way, from 1; 0 between turns.
    pub fn call(&self) -> u32 {
        self.call
    }

    /// Whether the agent was told that most of a budget is used.
    pub fn is_warned(&self) -> bool {
        self.told.low
    }

    /// Whether the model said in this turn that the conversation is too long.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether the model call under way is for the report.
    pub fn is_reporting(&self) -> bool {
        matches!(self.phase, Phase::Asking { purpose: Purpose::Report, .. })
    }

    /// Takes the messages that no turn has read, to hand them to another machine of the same agent.
    pub fn take_inbox(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.inbox)
    }

    /// Hands over messages that no turn has read.
    pub fn put_inbox(&mut self, inbox: Vec<Arc<str>>) {
        self.inbox = inbox;
    }

    /// Whether a model call is under way.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. })
    }

    /// What the agent could report now: the last text its model gave without calls, if that is where it stands,
    /// and what came since.
    pub fn report_so_far(&self) -> Option<Arc<str>> {
        match &self.phase {
            Phase::Answered { text, .. } if !text.trim().is_empty() => Some(self.report(text)),
            _ => None,
        }
    }
}

/// Whether a turn is there to mend a final answer.
fn is_mending(cause: Option<ReportCause>) -> bool {
    matches!(cause, Some(ReportCause::Schema | ReportCause::Criteria))
}

fn broken(cause: Option<ReportCause>, reason: String, report: Option<Arc<str>>) -> Broken {
    match cause {
        Some(ReportCause::Budget) => {
            Broken { kind: FailKind::Budget, code: Code::BudgetExhausted, reason, report }
        }
        _ => Broken { kind: FailKind::Execution, code: Code::SubagentError, reason, report },
    }
}

#[cfg(test)]
mod tests;
