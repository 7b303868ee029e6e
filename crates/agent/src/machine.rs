//! The turn machine: decides what an agent does next, and reads the outcome from the agent's events.
//!
//! Only [`Machine::apply`] changes it, with events that are in the journal, so the machine that is folded from the
//! journal after a crash equals the lost one. There are two exceptions, both by the driver: it sets
//! [`Machine::relaying`] before the first event, and it moves unread messages to another machine of the same agent
//! ([`Machine::take_inbox`]). The driver's own state (which call is in flight, which agent waits for a slot) is not
//! part of it.

mod accessors;
mod apply;
mod compact;
mod condense;
mod criteria;
mod reply;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::event::{CallError, HostNote, Purpose, ReportCause, SummaryScope, WriteIntent};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::FailKind;
use posse_domain::message::ToolCall;

pub use self::condense::REPORT_SYSTEM_MAX_BYTES;
pub(crate) use self::condense::{digest, middle_out, newest_texts};
use self::criteria::unanswered;
pub(crate) use self::criteria::words;
pub use self::reply::accept;
use crate::answer::{self, SchemaVerdict};
use crate::conversation::{CallResult, Conversation, Message};
use crate::notes;
use crate::prompts::{first_message, handover};

/// Maximum number of empty or cut-off replies in a row. A model that continues like this only spends budget.
pub const FRUITLESS_MAX: u32 = 3;

/// The limits of a machine, from its contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Turns per attempt, the report turn included.
    pub max_turns: Option<u32>,
    /// How often in a row the same call may fail.
    pub max_retries_per_tool: u32,
    /// JSON Schema of the final answer.
    pub result_schema: Option<Arc<serde_json::Value>>,
    /// The number of criteria in words that the report must answer.
    pub criteria: usize,
}

impl Limits {
    pub fn of(contract: &Contract) -> Self {
        let schema = contract.outputs.result_schema.as_ref();
        Self {
            max_turns: contract.execution.max_turns,
            max_retries_per_tool: contract.execution.max_retries_per_tool.max(1),
            result_schema: schema.map(|schema| Arc::new(serde_json::json!(schema))),
            // A JSON result has no lines that could answer criteria.
            criteria: if schema.is_some() { 0 } else { words(contract).count() },
        }
    }
}

/// Why an attempt cannot continue.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptFailure {
    pub kind: FailKind,
    pub code: Code,
    pub reason: String,
    /// The report, if one could still be written.
    pub report: Option<Arc<str>>,
}

impl AttemptFailure {
    /// The failure of an attempt whose model call failed and is not retried.
    fn of(error: &CallError) -> Self {
        let kind = if error.code == Code::Timeout { FailKind::Timeout } else { FailKind::Execution };
        Self { kind, code: error.code, reason: error.message.clone(), report: None }
    }
}

/// The next action of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    CallModel {
        /// The turn's number, from 1.
        turn: u32,
        /// The call's number in the turn, from 1.
        call: u32,
        purpose: Purpose,
        /// Why the report is requested now. Set only for a report.
        cause: Option<ReportCause>,
    },
    /// Run the calls that have no result yet.
    CallTools,
    /// A call is in flight.
    Wait,
    /// Nothing to do until a child ends.
    Idle,
    /// Add a note of the host to the conversation before the next model call.
    Tell(HostNote, String),
    Done {
        report: Arc<str>,
        /// Whether the agent reached its turn limit.
        turns_exhausted: bool,
    },
    Fail(AttemptFailure),
}

/// A tool call of the current reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    /// The call has no result yet.
    Open {
        /// Whether the intent is journalled, so that the effect may have begun.
        intended: bool,
        /// The planned change of a write.
        write: Option<WriteIntent>,
    },
    Done {
        result: CallResult,
        /// The working time of the call.
        elapsed_ms: u64,
        /// Whether the call was refused because its budget is exhausted.
        lacks_budget: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// A model call is next.
    Ready {
        /// Whether it must repair the last answer.
        repair: bool,
    },
    /// A model call is in flight.
    Asking { purpose: Purpose, cause: Option<ReportCause>, reason: Option<Arc<str>> },
    /// A summary call is in flight. It is no turn: the machine then continues in the phase before it.
    Summarising { place: CallPlace, scope: SummaryScope, before: Box<Phase> },
    /// Tool calls of a reply are in progress.
    Calling { calls: Arc<[ToolCall]>, index: HashMap<String, usize>, slots: Vec<Slot>, left: usize },
    /// The model replied without calls.
    Answered(FinalText),
    /// The attempt cannot continue.
    Broken(AttemptFailure),
}

/// A model call of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlace {
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The turn's number, from 1.
    pub turn: u32,
    /// The call's number in the turn, from 1. Summary calls are counted separately.
    pub call: u32,
    /// Whether the call is for a summary.
    pub summary: bool,
}

/// What happened since the provider refused the conversation of this turn as too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The provider did not refuse it.
    No,
    /// Nothing yet. A summary is due.
    Refused,
    /// Old outputs were omitted.
    Trimmed,
    /// A summary replaced its older part.
    Compacted,
}

/// The summary calls before the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SummaryCalls {
    made: u32,
    /// How many of them the provider refused as too long.
    refused: u32,
}

/// A reply of which no call was made.
#[derive(Debug, Clone, PartialEq, Default)]
struct FinalText {
    text: Arc<str>,
    /// Why the report was requested, if it was.
    cause: Option<ReportCause>,
    /// The exhausted budget, if that was the cause.
    reason: Option<Arc<str>>,
    cut_off: bool,
    /// Whether the reply called tools although none were offered.
    called: bool,
}

/// The notes that the host has given to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NotesGiven {
    /// The cause of the report note in this turn.
    report: Option<ReportCause>,
    /// Whether the model was warned that most of a budget is spent.
    low: bool,
}

/// Whether an agent only passes on the report of its one child, without a model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Relay {
    /// The agent calls a model, as usual.
    No,
    /// The child has not reported yet.
    Waiting,
    /// The report of the child.
    Reported(Arc<str>),
}

/// The state of one agent's conversation with its model.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    limits: Limits,
    first: Arc<str>,
    prior: Conversation,
    /// The position of the assignment in the conversation.
    assignment: usize,
    attempt: u32,
    turn: u32,
    call: u32,
    phase: Phase,
    conversation: Conversation,
    inbox: Vec<Arc<str>>,
    /// The ids of the calls that hooks object to in notes of the inbox.
    objected: BTreeSet<String>,
    failures: BTreeMap<String, u32>,
    tags: Arc<BTreeMap<String, u32>>,
    seen: Arc<BTreeMap<String, Hash>>,
    active_ms: u64,
    /// The working time of the current or last turn.
    turn_ms: u64,
    asked_for_repair: bool,
    notes_given: NotesGiven,
    overflow: Overflow,
    summary_calls: SummaryCalls,
    /// The exhausted budget that makes the report next, because the model keeps calling tools that need it.
    lacks_budget: Option<Arc<str>>,
    /// The number of empty or cut-off replies in a row without calls.
    fruitless: u32,
    /// Whether the host executes a plan. Then the model is called only when a message for it arrives.
    planned: bool,
    relay: Relay,
}

impl Machine {
    /// A machine for a contract. `prior` is the conversation of the child that the agent continues.
    pub fn new(contract: &Contract, prior: Conversation) -> Self {
        Self::beginning(contract, prior, first_message(contract))
    }

    /// A machine for an agent that starts with `shared`, its parent's conversation.
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
            assignment: prior.messages().len(),
            prior,
            attempt: 1,
            turn: 0,
            call: 0,
            phase: Phase::Ready { repair: false },
            conversation,
            inbox: Vec::new(),
            objected: BTreeSet::new(),
            failures: BTreeMap::new(),
            tags: Arc::default(),
            seen: Arc::default(),
            active_ms: 0,
            turn_ms: 0,
            asked_for_repair: false,
            notes_given: NotesGiven::default(),
            overflow: Overflow::No,
            summary_calls: SummaryCalls::default(),
            lacks_budget: None,
            fruitless: 0,
            planned: false,
            relay: Relay::No,
        }
    }

    /// A machine that calls no model: its report is that of its one child.
    pub fn relaying(self) -> Self {
        Self { relay: Relay::Waiting, ..self }
    }

    /// The next action. `open_children` states whether a child is neither completed nor failed.
    pub fn next(&self, open_children: bool) -> Next {
        match &self.relay {
            Relay::Reported(report) if !open_children => {
                return Next::Done { report: self.report(report), turns_exhausted: false };
            }
            Relay::Reported(_) | Relay::Waiting => return Next::Idle,
            Relay::No => {}
        }
        match &self.phase {
            Phase::Ready { repair } => self.ask(*repair),
            Phase::Asking { .. } | Phase::Summarising { .. } => Next::Wait,
            Phase::Calling { .. } => Next::CallTools,
            Phase::Answered(FinalText { cause: None, cut_off: true, .. }) if self.turns_left() => {
                self.ask_to_continue(HostNote::CutOff, notes::CUT_OFF)
            }
            Phase::Answered(answered) => match self.answered(answered, open_children) {
                Next::Done { report, turns_exhausted } if answered.cut_off => Next::Done {
                    report: format!("{report}\n\n{}", notes::CUT_REPORT).into(),
                    turns_exhausted,
                },
                step => step,
            },
            Phase::Broken(broken) => Next::Fail(broken.clone()),
        }
    }

    fn ask(&self, repair: bool) -> Next {
        let turn = self.upcoming_turn();
        let cause = if repair {
            Some(if self.limits.criteria > 0 { ReportCause::Criteria } else { ReportCause::Schema })
        } else if self.lacks_budget.is_some() {
            Some(ReportCause::Budget)
        } else {
            self.limits.max_turns.filter(|&max| turn >= max).map(|_| ReportCause::Turns)
        };
        let purpose = if cause.is_some() { Purpose::Report } else { Purpose::Work };
        Next::CallModel { turn, call: self.call + 1, purpose, cause }
    }

    /// The turn of the next model call. A call that failed without an answer is retried within its turn.
    fn upcoming_turn(&self) -> u32 {
        if self.call > 0 { self.turn } else { self.turn + 1 }
    }

    fn answered(&self, answered: &FinalText, open_children: bool) -> Next {
        let FinalText { text, cause, reason, called, .. } = answered;
        let cause = *cause;
        let may_ask = cause.is_none() && self.turns_left();
        if !self.inbox.is_empty() && may_ask {
            return self.ask(false);
        }
        if open_children {
            return Next::Idle;
        }
        let is_empty = text.trim().is_empty();
        let report = || (!is_empty).then(|| self.report(text));
        if matches!(cause, Some(ReportCause::Budget | ReportCause::Time)) {
            let reason = reason.as_deref().unwrap_or("the budget is exhausted").to_owned();
            return Next::Fail(broken(cause, reason, report()));
        }
        if *called {
            // The model wanted to continue, so its text is not a report of the finished work.
            let reason = match self.limits.max_turns.filter(|_| cause == Some(ReportCause::Turns)) {
                Some(max) => format!(
                    "it reached its limit of {max} turn{}; its last reply called tools instead of reporting",
                    if max == 1 { "" } else { "s" }
                ),
                None => "its last reply called tools instead of reporting".to_owned(),
            };
            return Next::Fail(broken(cause, reason, None));
        }
        if is_empty && !self.planned {
            if may_ask {
                return self.ask_to_continue(HostNote::EmptyReply, notes::EMPTY_REPLY);
            }
            return Next::Fail(broken(cause, "the report turn gave no text".to_owned(), None));
        }
        if let Some(schema) = &self.limits.result_schema
            && let SchemaVerdict::Mismatch(problems) = answer::check(schema, text)
        {
            if self.asked_for_repair {
                let reason = format!("the final answer does not satisfy its schema: {problems}");
                return Next::Fail(broken(None, reason, Some(text.clone())));
            }
            return Next::Tell(HostNote::SchemaMismatch, notes::schema_mismatch(&problems));
        }
        let missing = unanswered(self.limits.criteria, text);
        if !missing.is_empty() {
            if self.asked_for_repair {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                let reason = format!(
                    "its report says nothing about criterion {}, also after it was asked for that",
                    missing.join(", ")
                );
                return Next::Fail(broken(None, reason, Some(self.report(text))));
            }
            return Next::Tell(HostNote::CriteriaUnanswered, notes::criteria_unanswered(&missing));
        }
        // Beyond the limit, this turn fixed an answer that was already the report.
        let beyond = self.limits.max_turns.is_some_and(|max| self.turn > max);
        Next::Done { report: self.report(text), turns_exhausted: cause == Some(ReportCause::Turns) || beyond }
    }

    /// Asks the model to continue after a useless reply, unless there were too many.
    fn ask_to_continue(&self, note: HostNote, text: &str) -> Next {
        if self.fruitless < FRUITLESS_MAX {
            return Next::Tell(note, text.to_owned());
        }
        let reason = format!("{FRUITLESS_MAX} replies in a row were empty or cut off");
        Next::Fail(broken(None, reason, None))
    }

    /// The report: the text of the last reply, and the messages that arrived after the last turn.
    fn report(&self, text: &Arc<str>) -> Arc<str> {
        if self.inbox.is_empty() {
            return text.clone();
        }
        format!("{text}\n\n{}\n\n{}", notes::UNDELIVERED, self.inbox.join("\n\n")).into()
    }

    fn turns_left(&self) -> bool {
        self.limits.max_turns.is_none_or(|max| self.turn < max)
    }
}

fn broken(cause: Option<ReportCause>, reason: String, report: Option<Arc<str>>) -> AttemptFailure {
    match cause {
        Some(ReportCause::Budget | ReportCause::Time) => {
            AttemptFailure { kind: FailKind::Budget, code: Code::BudgetExhausted, reason, report }
        }
        Some(ReportCause::Turns) => {
            AttemptFailure { kind: FailKind::Execution, code: Code::TurnLimit, reason, report }
        }
        _ => AttemptFailure { kind: FailKind::Execution, code: Code::SubagentError, reason, report },
    }
}

#[cfg(test)]
mod tests;
