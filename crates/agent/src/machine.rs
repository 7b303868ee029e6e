//! The turn machine: it says what to do next, and is told what came of it by the events of its agent.
//!
//! It changes by [`Machine::apply`] alone, and only by events that are in the journal, so the machine folded
//! from the journal after a crash equals the one that was lost. What a driver does meanwhile (which call is in
//! flight, who waits for a slot) is not its business.

mod apply;
mod condense;
mod criteria;
mod look;
mod reply;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::event::{HostNote, Purpose, ReportCause, WriteIntent};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::FailKind;
use posse_domain::message::ToolCall;
use serde::{Deserialize, Serialize};

pub use self::condense::REPORT_SYSTEM_MAX_BYTES;
pub(crate) use self::condense::middle_out;
use self::criteria::unanswered;
pub(crate) use self::criteria::words;
pub use self::reply::accept;
use crate::answer::{self, SchemaVerdict};
use crate::conversation::{CallResult, Conversation, Message};
use crate::definition::{first_message, handover};
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
pub struct AttemptFailure {
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
pub enum Next {
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
    Fail(AttemptFailure),
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
        /// Whether it was refused because no budget is left for it.
        #[serde(default)]
        lacks_budget: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    /// A model call is next.
    Ready { mend: bool },
    /// A model call is under way.
    Asking { purpose: Purpose, cause: Option<ReportCause>, reason: Option<Arc<str>> },
    /// Calls of a reply are under way.
    Calling { calls: Arc<[ToolCall]>, index: HashMap<String, usize>, slots: Vec<Slot>, left: usize },
    /// The model answered without calls.
    Answered(FinalText),
    /// The attempt cannot go on.
    Broken(AttemptFailure),
}

/// A reply without calls that were made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct FinalText {
    text: Arc<str>,
    /// Why the report was asked for, if it was.
    cause: Option<ReportCause>,
    /// Which budget was used up, if that is why.
    reason: Option<Arc<str>>,
    cut_off: bool,
    /// Whether it asked for tools all the same, which it did not have.
    called: bool,
}

/// What the host has told the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct NotesGiven {
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
    told: NotesGiven,
    /// Whether the model said in this turn that the conversation is too long.
    overflowed: bool,
    /// Why the report is next: the model goes on asking for what no budget is left for.
    #[serde(default)]
    lacks_budget: Option<Arc<str>>,
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
            told: NotesGiven::default(),
            overflowed: false,
            lacks_budget: None,
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
    pub fn next(&self, open_children: bool) -> Next {
        match &self.relay {
            Relay::Said(said) if !open_children => {
                return Next::Done { report: self.report(said), turns_exhausted: false };
            }
            Relay::Said(_) | Relay::Waiting => return Next::Idle,
            Relay::No => {}
        }
        match &self.phase {
            Phase::Ready { mend } => self.ask(*mend),
            Phase::Asking { .. } => Next::Wait,
            Phase::Calling { .. } => Next::CallTools,
            Phase::Answered(FinalText { cause: None, cut_off: true, .. }) if self.turns_left() => {
                self.go_on(HostNote::CutOff, notes::CUT_OFF)
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

    fn ask(&self, mend: bool) -> Next {
        // A call that failed without an answer is repeated within its turn.
        let repeated = self.call > 0;
        let turn = if repeated { self.turn } else { self.turn + 1 };
        let cause = if mend {
            Some(if self.limits.criteria > 0 { ReportCause::Criteria } else { ReportCause::Schema })
        } else if self.lacks_budget.is_some() {
            Some(ReportCause::Budget)
        } else {
            self.limits.max_turns.filter(|&max| turn >= max).map(|_| ReportCause::Turns)
        };
        let purpose = if cause.is_some() { Purpose::Report } else { Purpose::Work };
        Next::CallModel { turn, call: self.call + 1, purpose, cause }
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
        let said = || (!is_empty).then(|| self.report(text));
        if matches!(cause, Some(ReportCause::Budget | ReportCause::Time)) {
            let reason = reason.as_deref().unwrap_or("the budget is exhausted").to_owned();
            return Next::Fail(broken(cause, reason, said()));
        }
        if *called {
            // It wanted to go on: what it says is not how its work ended, and so no report.
            let reason = match self.limits.max_turns.filter(|_| cause == Some(ReportCause::Turns)) {
                Some(max) => format!(
                    "it used up its {max} turn{}, and the last one, which is for the report, called tools instead of \
                     ending the work",
                    if max == 1 { "" } else { "s" }
                ),
                None => "its last turn, which is for the report, called tools instead of ending the work"
                    .to_owned(),
            };
            return Next::Fail(broken(cause, reason, None));
        }
        if is_empty && !self.planned {
            if may_ask {
                return self.go_on(HostNote::EmptyReply, notes::EMPTY_REPLY);
            }
            return Next::Fail(broken(cause, "the report turn gave no text".to_owned(), None));
        }
        if let Some(schema) = &self.limits.result_schema
            && let SchemaVerdict::Mismatch(problems) = answer::check(schema, text)
        {
            if self.mended {
                let reason = format!("the final answer does not satisfy its schema: {problems}");
                return Next::Fail(broken(None, reason, Some(text.clone())));
            }
            return Next::Tell(HostNote::SchemaMismatch, notes::schema_mismatch(&problems));
        }
        let missing = unanswered(self.limits.criteria, text);
        if !missing.is_empty() {
            if self.mended {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                let reason = format!(
                    "its report says nothing about criterion {}, also after it was asked for that",
                    missing.join(", ")
                );
                return Next::Fail(broken(None, reason, Some(self.report(text))));
            }
            return Next::Tell(HostNote::CriteriaUnanswered, notes::criteria_unanswered(&missing));
        }
        // Beyond the limit it mended an answer that was its report already.
        let beyond = self.limits.max_turns.is_some_and(|max| self.turn > max);
        Next::Done { report: self.report(text), turns_exhausted: cause == Some(ReportCause::Turns) || beyond }
    }

    /// Asks a model that said nothing of use to go on, unless it has done so too often.
    fn go_on(&self, note: HostNote, text: &str) -> Next {
        if self.fruitless < FRUITLESS_MAX {
            return Next::Tell(note, text.to_owned());
        }
        let reason = format!("{FRUITLESS_MAX} replies in a row were empty or cut off");
        Next::Fail(broken(None, reason, None))
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
}

fn broken(cause: Option<ReportCause>, reason: String, report: Option<Arc<str>>) -> AttemptFailure {
    match cause {
        Some(ReportCause::Budget | ReportCause::Time) => {
            AttemptFailure { kind: FailKind::Budget, code: Code::BudgetExhausted, reason, report }
        }
        _ => AttemptFailure { kind: FailKind::Execution, code: Code::SubagentError, reason, report },
    }
}

#[cfg(test)]
mod tests;
