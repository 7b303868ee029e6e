//! What the agents of a run wait for outside of it: approvers and providers.

use jiff::tz::TimeZone;
use posse_domain::event::EventKind;
use posse_domain::id::AgentId;
use posse_domain::printable;

use super::{OpenQuestion, OpenQuestions, ProviderWait, ProviderWaits, ViewEvent, ViewPart};

/// Longest operation in the words about a wait.
const OPERATION_MAX_CHARS: usize = 120;

/// The agents of a run that wait for an approver or for the provider of their model.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct BlockedAgents {
    pub(super) questions: OpenQuestions,
    pub(super) waits: ProviderWaits,
}

/// What one agent waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockedOn<'a> {
    /// An answer to its oldest open question.
    Approver {
        /// The oldest open question.
        question: &'a OpenQuestion,
        /// How many more open questions it has.
        more: usize,
    },
    /// The provider of its model.
    Provider(&'a ProviderWait),
}

impl BlockedOn<'_> {
    /// What the agent waits for as of `now_ms`, in one line without control characters. Times of day are in the reader's
    /// time zone.
    pub fn words(&self, now_ms: i64, zone: &TimeZone) -> String {
        match self {
            BlockedOn::Approver { question, more } => {
                let operation = &question.asked.operation;
                let shown: String = operation.chars().take(OPERATION_MAX_CHARS).collect();
                let cut = if shown.len() < operation.len() { "…" } else { "" };
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                let answered = if question.is_answered { " (answered)" } else { "" };
                format!("needs your approval: {}{cut}{more}{answered}", printable::visible_line(&shown))
            }
            BlockedOn::Provider(wait) => wait.words(now_ms, zone),
        }
    }
}

impl BlockedAgents {
    /// The calls that wait for an approver.
    pub fn questions(&self) -> &OpenQuestions {
        &self.questions
    }

    /// The agents that wait for the provider of their model.
    pub fn waits(&self) -> &ProviderWaits {
        &self.waits
    }

    /// What still holds. Without a process that executes the run, no agent waits for a provider; a question stays open.
    pub(super) fn known(self, is_executed: bool) -> Self {
        if is_executed { self } else { Self { waits: ProviderWaits::default(), ..self } }
    }

    /// The ids of all blocked agents, sorted, each once.
    pub fn agents(&self) -> Vec<&AgentId> {
        let asking = self.questions.iter().map(|question| &question.agent);
        let mut agents: Vec<&AgentId> = asking.chain(self.waits.iter().map(|wait| &wait.agent)).collect();
        agents.sort();
        agents.dedup();
        agents
    }

    /// What an agent waits for; `None` if it is not blocked. A question takes precedence over a wait for a provider.
    pub fn of<'a>(&'a self, agent: &'a AgentId) -> Option<BlockedOn<'a>> {
        let mut own = self.questions.of(agent);
        match own.next() {
            Some(question) => Some(BlockedOn::Approver { question, more: own.count() }),
            None => self.waits.of(agent).map(BlockedOn::Provider),
        }
    }
}

impl ViewPart for BlockedAgents {
    fn needs(&self, kind: EventKind) -> bool {
        self.questions.needs(kind) || self.waits.needs(kind)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.questions.take(event);
        self.waits.take(event);
    }
}
