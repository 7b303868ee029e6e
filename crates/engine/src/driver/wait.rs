//! What an open agent waits for: the one place that says it, for `task_status` and for the journal.

use std::fmt;

use posse_domain::event::QueuedFor;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::OpenState;
use posse_domain::text::first_line;

use super::Driver;
use super::session::{CallStage, ModelCallStage, StartPoint};

/// Characters of an operation that a status shows.
const OPERATION_MAX_CHARS: usize = 120;

/// What an open agent waits for; the first that applies, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentWait<'a> {
    /// A person's answer about this operation.
    Person(&'a str),
    /// A permit of its model's provider, or the end of a pause.
    Provider,
    Hooks,
    /// Its integration.
    Merge,
    /// The conversation of the closed child that it continues.
    History,
    /// A snapshot of its parent's files.
    Snapshot,
    /// Another writer.
    Writer,
    Budget,
    /// A slot for its model call.
    Slot,
    Child,
}

impl AgentWait<'_> {
    /// What a created agent is queued for, as the journal says it. What is over with the next input is not journalled.
    fn queued_for(wait: Option<Self>) -> Option<QueuedFor> {
        match wait {
            Some(Self::Hooks | Self::History | Self::Snapshot) => None,
            Some(Self::Writer) => Some(QueuedFor::Ownership),
            Some(Self::Budget) => Some(QueuedFor::Budget),
            Some(Self::Person(_) | Self::Provider | Self::Merge | Self::Slot | Self::Child) | None => {
                Some(QueuedFor::Slot)
            }
        }
    }
}

impl fmt::Display for AgentWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Person(operation) => {
                return write!(f, "a person: {}", first_line(operation, OPERATION_MAX_CHARS));
            }
            Self::Provider => "its model's provider",
            Self::Hooks => "a hook",
            Self::Merge => "its integration",
            Self::History => "the conversation that it continues",
            Self::Snapshot => "its parent's files",
            Self::Writer => "another writer",
            Self::Budget => "budget",
            Self::Slot => "a slot",
            Self::Child => "a child",
        })
    }
}

impl Driver {
    pub(super) fn wait_of(&self, id: &AgentId) -> Option<AgentWait<'_>> {
        let (session, agent) = (self.sessions.get(id)?, self.run.open(id)?);
        if let Some(operation) = self.asks_about(id) {
            return Some(AgentWait::Person(operation));
        }
        if agent.provider_wait.is_some() {
            return Some(AgentWait::Provider);
        }
        if !session.hooks.is_empty() {
            return Some(AgentWait::Hooks);
        }
        if matches!(agent.state, OpenState::WaitingForMerge { .. }) {
            return Some(AgentWait::Merge);
        }
        match session.start_point {
            StartPoint::History => return Some(AgentWait::History),
            StartPoint::Awaited => return Some(AgentWait::Snapshot),
            StartPoint::Unknown | StartPoint::Snapshot(_) => {}
        }
        if self.writers.is_waiting(id) {
            return Some(AgentWait::Writer);
        }
        match session.model_call {
            ModelCallStage::Budget => return Some(AgentWait::Budget),
            ModelCallStage::Slot => return Some(AgentWait::Slot),
            ModelCallStage::Idle | ModelCallStage::Provider(_) | ModelCallStage::Reply(_) => {}
        }
        let waits = session.calls.values().any(|call| matches!(call.stage, CallStage::Waiting));
        waits.then_some(AgentWait::Child)
    }

    /// Journals what the children wait for that were created in this round.
    pub(super) fn log_waits(&mut self) {
        for id in std::mem::take(&mut self.fresh) {
            if !self.sessions.contains_key(&id) {
                continue;
            }
            let queued_for = AgentWait::queued_for(self.wait_of(&id));
            if let Some((id, body)) = queued_for.and_then(|waits_for| self.run.queue(&id, waits_for)) {
                self.emit(id, body);
            }
        }
    }
}
