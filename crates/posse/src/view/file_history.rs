//! The files of each agent at a moment of its run: the newest commit that the journal has by then.

use std::collections::HashMap;

use posse_domain::event::{EventBody, EventKind, FilesCommit};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

use super::{ViewEvent, ViewPart, started_from};

/// The files of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FilesAt {
    /// A commit in the repository: a base, a merge or a salvage.
    Commit(ObjectId),
    /// The commit of a call: that commit and those whose packs it needs, oldest first.
    Call(Vec<FilesCommit>),
}

#[derive(Debug, Clone, Default)]
struct AgentHistory {
    base: Option<ObjectId>,
    now: Option<ObjectId>,
    /// The commits of calls of the attempt, oldest first. The newest one is `now` if no other commit is newer.
    calls: Vec<FilesCommit>,
}

/// The files of all agents of a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct FileHistory {
    agents: HashMap<AgentId, AgentHistory>,
}

impl FileHistory {
    /// The commit that an agent began with.
    pub(crate) fn base_of(&self, agent: &AgentId) -> Option<ObjectId> {
        self.agents.get(agent)?.base
    }

    /// The newest files of an agent; `None` if it has no workspace.
    pub(crate) fn newest_of(&self, agent: &AgentId) -> Option<FilesAt> {
        let history = self.agents.get(agent)?;
        let now = history.now?;
        let last = history.calls.last().filter(|last| last.commit == now && last.pack.is_some());
        let Some(last) = last else { return Some(FilesAt::Commit(now)) };
        let mut needed = vec![last.clone()];
        let mut older = history.calls.iter().rev().skip(1);
        while let Some(onto) = needed.last().and_then(|commit| commit.onto) {
            // Without one of them, git says which object is missing.
            let Some(below) = older.find(|commit| commit.commit == onto) else { break };
            needed.push(below.clone());
        }
        needed.reverse();
        Some(FilesAt::Call(needed))
    }

    fn of(&mut self, agent: &AgentId) -> &mut AgentHistory {
        self.agents.entry(agent.clone()).or_default()
    }
}

impl ViewPart for FileHistory {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(
            kind,
            EventKind::RunStarted
                | EventKind::SubagentStarted
                | EventKind::SubagentAttempt
                | EventKind::WorkspaceMade
                | EventKind::ToolFinished
                | EventKind::ToolInterrupted
                | EventKind::WorktreeMerged
                | EventKind::WorkspaceSalvaged
        )
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            body @ EventBody::RunStarted(_) => self.of(event.agent).base = started_from(body),
            EventBody::SubagentStarted(e) => self.of(event.agent).base = e.base,
            EventBody::SubagentAttempt(_) => {
                let history = self.of(event.agent);
                *history = AgentHistory { base: history.base, ..AgentHistory::default() };
            }
            EventBody::WorkspaceMade(e) => self.of(event.agent).now = Some(e.base),
            // The event is the child's, and the files are its parent's.
            EventBody::WorktreeMerged(e) => {
                if let Some(parent) = event.agent.parent() {
                    self.of(&parent).now = Some(e.commit);
                }
            }
            EventBody::WorkspaceSalvaged(e) => {
                let history = self.of(event.agent);
                history.now = e.commit.or(history.now);
            }
            body => {
                if let Some(files) = body.files() {
                    let history = self.of(event.agent);
                    history.now = Some(files.commit);
                    history.calls.push(files.clone());
                }
            }
        }
    }
}
