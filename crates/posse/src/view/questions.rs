//! Calls that wait for a person.

use std::collections::BTreeMap;

use posse_domain::event::{EventBody, InputRequested};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::call_of_command;

use super::{ViewEvent, ViewPart, is_end};

/// The kind that opens a question.
const OPENS: &str = "agent.input_requested";

/// The kinds that answer a question or end its call.
const CLOSES: [&str; 5] = [
    "agent.input_answered",
    "agent.tool_finished",
    "agent.tool_interrupted",
    "agent.subagent_refused",
    "agent.subagent_created",
];

/// A call that waits for a person, as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The agent that asks.
    pub agent: AgentId,
    /// When it asked, in milliseconds since 1970.
    pub at_ms: i64,
    /// What it asks. Long arguments are named by their hash.
    pub asked: Box<InputRequested>,
}

/// The questions that a run leaves open, oldest first. An agent has at most one for each call of its last reply.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct OpenQuestions(BTreeMap<u64, OpenQuestion>);

impl OpenQuestions {
    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &OpenQuestion> {
        self.0.values()
    }

    /// Those of one agent, oldest first.
    pub fn of<'a>(&'a self, agent: &'a AgentId) -> impl Iterator<Item = &'a OpenQuestion> {
        self.iter().filter(move |question| question.agent == *agent)
    }

    /// Whether no call waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<OpenQuestion> {
        self.0.into_values().collect()
    }

    /// Closes what an event of `agent` about `call_id` ends. An answer is to one question; the end of a call is the end
    /// of all questions about it.
    fn close(&mut self, agent: &AgentId, call_id: &str, is_answer: bool) {
        self.0.retain(|_, open| {
            let asked = &open.asked.call_id;
            let is_of_call = !is_answer && call_of_command(asked) == Some(call_id);
            open.agent != *agent || (asked != call_id && !is_of_call)
        });
    }
}

impl ViewPart for OpenQuestions {
    fn needs(&self, kind: &str) -> bool {
        // Almost every event is about something else, and results are the most common of all.
        kind == OPENS || (!self.0.is_empty() && (CLOSES.contains(&kind) || is_end(kind)))
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::InputRequested(e) => {
                let mut asked = e.clone();
                asked.arguments.stow(&mut Vec::new());
                let question = OpenQuestion { agent: event.agent.clone(), at_ms: event.at_ms, asked };
                self.0.insert(event.seq, question);
            }
            _ if self.0.is_empty() => {}
            EventBody::InputAnswered(e) => self.close(event.agent, &e.call_id, true),
            EventBody::ToolFinished(e) => self.close(event.agent, &e.call_id, false),
            EventBody::ToolInterrupted(e) => self.close(event.agent, &e.call_id, false),
            EventBody::SubagentRefused(e) => self.close(event.agent, &e.call_id, false),
            // A child is created on behalf of its parent, whose questions those were.
            EventBody::SubagentCreated(e) => self.close(&e.parent_id, &e.call_id, false),
            body if is_end(body.kind()) => self.0.clear(),
            _ => {}
        }
    }
}
