//! The commits that agents began with and produced, and the salvage of their workspaces.

use std::collections::{BTreeMap, HashMap};

use posse_domain::event::{EventBody, EventKind, RunStarted};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

use super::{ViewEvent, ViewPart};
use crate::SalvagedWork;

/// The commits of one agent, as its journal records them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// The commit that it began with.
    pub base: Option<ObjectId>,
    /// The commit that it produced; `None` if only its work ref names it.
    pub last: Option<ObjectId>,
    /// The attempt that the work ref belongs to; 0 before a second one.
    pub attempt: u32,
    /// The parent's files that its change was not merged into; `None` if it was merged, or not tried yet.
    pub conflicted_with: Option<ObjectId>,
}

/// The commits of a run's agents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AgentCommits {
    agents: HashMap<AgentId, AgentFiles>,
    /// At most one for each attempt, oldest first. Events bound the lists in them.
    salvages: Vec<SalvagedWork>,
}

impl AgentCommits {
    /// The commits of one agent.
    pub fn of(&self, agent: &AgentId) -> AgentFiles {
        self.agents.get(agent).copied().unwrap_or_default()
    }

    fn files_of(&mut self, event: &ViewEvent<'_>) -> &mut AgentFiles {
        self.agents.entry(event.agent.clone()).or_default()
    }

    /// The agents whose changes were not merged, by their place in the tree.
    pub fn conflicted(&self) -> impl Iterator<Item = (AgentId, AgentFiles)> {
        let is_open = |files: &AgentFiles| files.conflicted_with.is_some();
        let found = self.agents.iter().filter(|(_, files)| is_open(files));
        let found: BTreeMap<AgentId, AgentFiles> =
            found.map(|(agent, files)| (agent.clone(), *files)).collect();
        found.into_iter()
    }

    /// All salvage, oldest first.
    pub fn salvages(&self) -> &[SalvagedWork] {
        &self.salvages
    }
}

impl ViewPart for AgentCommits {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(
            kind,
            EventKind::RunStarted
                | EventKind::SubagentStarted
                | EventKind::SubagentAttempt
                | EventKind::SubagentWaitingForMerge
                | EventKind::WorkspaceMade
                | EventKind::WorkspaceSalvaged
                | EventKind::WorktreeConflicted
                | EventKind::WorktreeMerged
        )
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            body @ EventBody::RunStarted(_) => self.files_of(event).base = started_from(body),
            EventBody::SubagentStarted(e) => self.files_of(event).base = e.base,
            EventBody::SubagentAttempt(e) => {
                let files = self.files_of(event);
                *files = AgentFiles { attempt: e.n, last: None, conflicted_with: None, ..*files };
            }
            EventBody::WorktreeConflicted(e) => self.files_of(event).conflicted_with = Some(e.ours),
            EventBody::WorktreeMerged(_) => self.files_of(event).conflicted_with = None,
            EventBody::WorkspaceMade(_) => self.files_of(event).last = None,
            EventBody::SubagentWaitingForMerge(e) => {
                let files = self.files_of(event);
                files.last = e.change.or(files.last);
            }
            EventBody::WorkspaceSalvaged(e) => {
                self.files_of(event).last = e.commit;
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

/// The commit that the changes of a run are compared with, from its first event: the one that it began with, or the one that
/// the run which it continues began with.
pub(crate) fn started_from(body: &EventBody) -> Option<ObjectId> {
    let EventBody::RunStarted(started) = body else { return None };
    let RunStarted { base, .. } = &**started;
    base.as_ref().map(|base| base.compared_with.unwrap_or(base.commit))
}
