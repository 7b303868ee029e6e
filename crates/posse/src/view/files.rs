//! The commits that agents began with and came to, and what was salvaged of their workspaces.

use std::collections::HashMap;

use posse_domain::event::{EventBody, RunStarted};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

use super::{ViewEvent, ViewPart};
use crate::SalvagedWork;

/// The kinds of events that are about files.
const KINDS: [&str; 6] = [
    "run.started",
    "agent.subagent_started",
    "agent.subagent_attempt",
    "agent.subagent_waiting_for_merge",
    "agent.workspace_made",
    "agent.workspace_salvaged",
];

/// What the journal says of the files of one agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentFiles {
    /// What it began with.
    pub(crate) base: Option<ObjectId>,
    /// What it came to; none if only its work ref tells.
    pub(crate) last: Option<ObjectId>,
    /// The attempt whose work ref that is; 0 before a second one.
    pub(crate) attempt: u32,
}

/// The files of a run's agents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RunFiles {
    agents: HashMap<AgentId, AgentFiles>,
    /// At most one for each attempt, oldest first. Their lists are bounded by what events hold.
    salvages: Vec<SalvagedWork>,
}

impl RunFiles {
    /// The files of one agent.
    pub(crate) fn of(&self, agent: &AgentId) -> AgentFiles {
        self.agents.get(agent).copied().unwrap_or_default()
    }

    /// What was salvaged, oldest first.
    pub(crate) fn salvages(&self) -> &[SalvagedWork] {
        &self.salvages
    }
}

impl ViewPart for RunFiles {
    fn needs(&self, kind: &str) -> bool {
        KINDS.contains(&kind)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        if !self.needs(event.body.kind()) {
            return;
        }
        let files = self.agents.entry(event.agent.clone()).or_default();
        match event.body {
            body @ EventBody::RunStarted(_) => files.base = started_from(body),
            EventBody::SubagentStarted(e) => files.base = e.base,
            EventBody::SubagentAttempt(e) => *files = AgentFiles { attempt: e.n, last: None, ..*files },
            EventBody::WorkspaceMade(_) => files.last = None,
            EventBody::SubagentWaitingForMerge(e) => files.last = e.change.or(files.last),
            EventBody::WorkspaceSalvaged(e) => {
                files.last = e.commit;
                self.salvages.retain(|known| (&known.agent, known.attempt) != (event.agent, e.attempt));
                self.salvages.push(SalvagedWork {
                    agent: event.agent.clone(),
                    attempt: e.attempt,
                    at_ms: event.at_ms,
                    commit: e.commit,
                    files: None,
                    git: None,
                    left_out: e.left_out.clone(),
                    left_out_count: e.left_out_count,
                    problem: e.problem.clone(),
                });
            }
            _ => {}
        }
    }
}

/// The commit that a run began with, by its first event.
pub(crate) fn started_from(body: &EventBody) -> Option<ObjectId> {
    let EventBody::RunStarted(started) = body else { return None };
    let RunStarted { base, .. } = &**started;
    base.as_ref().map(|base| base.commit)
}
