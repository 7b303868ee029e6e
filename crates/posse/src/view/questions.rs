//! The open questions of a run: calls that wait for an approver.

use std::collections::BTreeMap;

use posse_domain::event::{EventBody, EventKind, InputAnswered, InputRequested, QuestionAnswer};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::call_of_command;
use posse_domain::permission::{Approvals, Operation, Pattern};
use posse_engine::ports::{Mail, MailCommand};

use super::{ViewEvent, ViewPart};
use crate::PendingQuestion;

/// A call that waits for an approver, as in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The number of the event that asks.
    pub seq: u64,
    /// The agent that asks.
    pub agent: AgentId,
    /// When it asked, in milliseconds since 1970.
    pub at_ms: i64,
    /// The event that asks. Long arguments are named by their hash.
    pub asked: Box<InputRequested>,
    /// Whether an answer was posted that the journal does not have yet: it was in the run's mailbox when the view was
    /// loaded, or the view was notified of it. No event records that.
    pub is_answered: bool,
}

impl OpenQuestion {
    /// Whether it is the question that the request describes.
    fn is_asked_by(&self, request: &PendingQuestion) -> bool {
        let asked = &self.asked;
        (&self.agent, &asked.call_id, asked.approval) == (&request.agent, &request.call_id, request.approval)
    }
}

/// The questions of a run without an answer in its journal, oldest first. An agent has at most one for each call of its
/// last reply.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct OpenQuestions {
    /// By the number of the event that asks.
    open: BTreeMap<u64, OpenQuestion>,
    /// The literals that the run allows: those that it started with, and those of answers of "always".
    approvals: Approvals,
}

impl OpenQuestions {
    /// All open questions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &OpenQuestion> {
        self.open.values()
    }

    /// The open questions without a posted answer, oldest first.
    pub fn unanswered(&self) -> impl Iterator<Item = &OpenQuestion> {
        self.iter().filter(|question| !question.is_answered)
    }

    /// Whether this question is open and has no posted answer.
    pub fn has_unanswered(&self, request: &PendingQuestion) -> bool {
        self.unanswered().any(|question| question.is_asked_by(request))
    }

    /// The open questions of one agent, oldest first.
    pub fn of<'a>(&'a self, agent: &'a AgentId) -> impl Iterator<Item = &'a OpenQuestion> {
        self.iter().filter(move |question| question.agent == *agent)
    }

    /// Whether no call waits for an approver.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The number of calls that wait.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Marks the questions whose answers are in the mailbox.
    pub(crate) fn mark_answered(&mut self, mail: &[Mail]) {
        for open in self.open.values_mut() {
            open.is_answered |= mail.iter().any(|mail| {
                matches!(&mail.command, MailCommand::Answer { agent, call_id, approval, .. }
                    if *agent == open.agent && *call_id == open.asked.call_id && *approval == open.asked.approval)
            });
        }
    }

    pub(super) fn mark_posted(&mut self, request: &PendingQuestion) {
        for question in self.open.values_mut() {
            question.is_answered |= question.is_asked_by(request);
        }
    }

    pub(crate) fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    pub(crate) fn into_vec(self) -> Vec<OpenQuestion> {
        self.open.into_values().collect()
    }

    /// Records what an answer of "always" allows from now on. The engine records such an answer only if its literal can
    /// be stored.
    fn keep(&mut self, agent: &AgentId, e: &InputAnswered) {
        let asked = |open: &&OpenQuestion| open.agent == *agent && open.asked.call_id == e.call_id;
        let Some(question) = self.iter().find(asked) else { return };
        if let Ok(literal) = Pattern::literal(&Operation::parse(&question.asked.operation)) {
            self.approvals = self.approvals.with(literal);
        }
    }

    /// Closes the questions that an event of `agent` about `call_id` ends. An answer closes one question; the end of a
    /// call closes all questions about it.
    fn close(&mut self, agent: &AgentId, call_id: &str, is_answer: bool) {
        self.open.retain(|_, open| {
            let asked = &open.asked.call_id;
            let is_of_call = !is_answer && call_of_command(asked) == Some(call_id);
            open.agent != *agent || (asked != call_id && !is_of_call)
        });
    }
}

impl ViewPart for OpenQuestions {
    fn needs(&self, kind: EventKind) -> bool {
        // Almost every event is about something else, and results are the most common.
        match kind {
            EventKind::RunStarted | EventKind::InputRequested => true,
            EventKind::InputAnswered
            | EventKind::ToolFinished
            | EventKind::ToolInterrupted
            | EventKind::SubagentRefused
            | EventKind::SubagentCreated => !self.open.is_empty(),
            kind => kind.ends_run(),
        }
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::RunStarted(e) => self.approvals = e.request.terms.approvals.clone(),
            EventBody::InputRequested(e) => {
                let mut asked = e.clone();
                asked.arguments.stow(&mut Vec::new());
                let question = OpenQuestion {
                    seq: event.seq,
                    agent: event.agent.clone(),
                    at_ms: event.at_ms,
                    asked,
                    is_answered: false,
                };
                self.open.insert(event.seq, question);
            }
            EventBody::InputAnswered(e) => {
                if e.always && e.decision == QuestionAnswer::Allow {
                    self.keep(event.agent, e);
                }
                self.close(event.agent, &e.call_id, true);
            }
            EventBody::ToolFinished(e) => self.close(event.agent, &e.call_id, false),
            EventBody::ToolInterrupted(e) => self.close(event.agent, &e.call_id, false),
            EventBody::SubagentRefused(e) => self.close(event.agent, &e.call_id, false),
            // A child is created on behalf of its parent, which asked those questions.
            EventBody::SubagentCreated(e) => self.close(&e.parent_id, &e.call_id, false),
            body if EventKind::from(body).ends_run() => *self = Self::default(),
            _ => {}
        }
    }
}
