//! The driver's state of an open agent beyond the journal: its turn machine, and what it waits for.

use std::sync::Arc;

use posse_agent::machine::Machine;
use posse_domain::contract::ExecutionTerms;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Failure;
use thiserror::Error;
use tokio::task::AbortHandle;

use crate::history::HistoryError;

/// Why an agent gets no session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SessionError {
    #[error("agent {0} is not open")]
    NotOpen(AgentId),
    /// The agent begins with its parent's conversation and preamble.
    #[error("the parent of {0}, with whose conversation it begins, has no session")]
    NoParent(AgentId),
    #[error("reply {reply} of {parent} is not in the journal")]
    NoReply { parent: AgentId, reply: String },
    /// The conversation that the agent continues cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// An open agent. The model desk has its model, the call desk its calls and hooks, the file desk its files.
pub(crate) struct Session {
    pub(crate) machine: Machine,
    /// The name of its definition, which slot limits apply to.
    pub(crate) definition: Arc<str>,
    pub(crate) wait: AgentWait,
    pub(crate) time_up: TimeUp,
    /// When its newest model call began, in milliseconds since 1970; `None` if this process has made none.
    pub(crate) called_at_ms: Option<i64>,
    /// The kind of its newest event.
    pub(crate) last_activity: &'static str,
}

/// The wait of an open agent, for everything that it waits for one at a time. If several of its calls or children wait
/// at once, their desks record that.
#[derive(Debug)]
pub(crate) enum AgentWait {
    /// No wait of this list. The agent continues with the next result of a call, a hook, a child or a merge, or the
    /// commit of its model call is under way.
    Idle,
    /// The conversation of the closed child that it continues is being read.
    History,
    /// The snapshot of its parent's files that it starts from is being taken.
    Snapshot,
    /// The model call waits for a slot.
    Slot,
    /// The model call does not fit into a budget, and waits until another call is charged.
    Budget,
    /// This task waits for the provider: for a permit, or for the end of a pause.
    Provider(AbortHandle),
    /// This task waits for the reply.
    Reply(AbortHandle),
    /// Its files are being salvaged, or published if it is the root.
    Salvage,
    /// The attempt ends when everything in flight for the agent has ended.
    End {
        failure: Failure,
        /// Whether its files are being salvaged or published.
        salvaging: bool,
    },
}

/// How far an agent has stopped work because its time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUp {
    No,
    /// The agent starts nothing any more, and writes its report when its calls have ended.
    Up,
    /// Its deadline passed while it waited for something that is not cut. It may still write its report.
    Late,
}

impl Session {
    pub(crate) fn new(machine: Machine, definition: Arc<str>) -> Self {
        let last_activity = "agent.subagent_created";
        Self {
            machine,
            definition,
            wait: AgentWait::Idle,
            time_up: TimeUp::No,
            called_at_ms: None,
            last_activity,
        }
    }

    /// Whether the attempt is ending, so that nothing of the agent may start.
    pub(crate) fn is_ending(&self) -> bool {
        self.failure().is_some()
    }

    /// Why the attempt is ending, if it is.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.wait {
            AgentWait::End { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Begins to end the attempt. Aborts the agent's current wait, except the salvage of its files.
    pub(crate) fn end(&mut self, failure: Failure) {
        let salvaging = self.is_salvaging();
        self.abort();
        self.wait = AgentWait::End { failure, salvaging };
    }

    /// Aborts the task that the agent waits for, if there is one.
    pub(crate) fn abort(&self) {
        if let AgentWait::Provider(task) | AgentWait::Reply(task) = &self.wait {
            task.abort();
        }
    }

    /// Drops the model call that the agent waits for.
    pub(crate) fn drop_model_call(&mut self) {
        self.abort();
        if matches!(
            self.wait,
            AgentWait::Slot | AgentWait::Budget | AgentWait::Provider(_) | AgentWait::Reply(_)
        ) {
            self.wait = AgentWait::Idle;
        }
    }

    fn is_salvaging(&self) -> bool {
        matches!(self.wait, AgentWait::Salvage | AgentWait::End { salvaging: true, .. })
    }

    /// Makes the agent wait for the salvage of its files. Returns false if it waits already.
    pub(crate) fn begin_salvage(&mut self) -> bool {
        if self.is_salvaging() {
            return false;
        }
        match &mut self.wait {
            AgentWait::End { salvaging, .. } => *salvaging = true,
            wait => *wait = AgentWait::Salvage,
        }
        true
    }

    pub(crate) fn end_salvage(&mut self) {
        match &mut self.wait {
            AgentWait::End { salvaging, .. } => *salvaging = false,
            wait @ AgentWait::Salvage => *wait = AgentWait::Idle,
            _ => {}
        }
    }

    /// Whether neither a model call nor a salvage of this agent is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        !matches!(self.wait, AgentWait::Reply(_)) && !self.is_salvaging()
    }

    /// Remaining working time of the current attempt and turn. `None` if neither is limited.
    pub(crate) fn time_left_ms(&self, terms: &ExecutionTerms) -> Option<u64> {
        let attempt = terms.attempt_timeout_ms.map(|limit| limit.saturating_sub(self.machine.active_ms()));
        let turn = terms.turn_timeout_ms.map(|limit| limit.saturating_sub(self.machine.turn_ms()));
        [attempt, turn].into_iter().flatten().min()
    }
}
