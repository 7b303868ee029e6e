//! Snapshots of an agent's files: children start from them, and the children's changes are merged with them.

use posse_domain::id::AgentId;
use posse_domain::lifecycle::OpenState;
use posse_domain::object_id::ObjectId;

use super::{FilesDesk, FilesOutcome, attempt_failure};
use crate::driver::core::Core;
use crate::driver::session::AgentWait;
use crate::integrate::Fact;
use crate::ports::WorkspaceError;

impl FilesDesk {
    /// Gives a new child its snapshot, or requests one. Returns whether the child has its snapshot.
    pub(crate) fn ensure_base(&mut self, core: &mut Core, child: &AgentId) -> bool {
        if !core.run.is_isolated() {
            return true;
        }
        let created =
            core.run.open(child).is_some_and(|agent| matches!(agent.state, OpenState::Created { .. }));
        let has = self.agents.get(child).is_none_or(|files| files.base.is_some());
        let Some(parent) = child.parent().filter(|_| created && !has) else { return true };
        if let Some(tip) = self.known_tip(core, &parent) {
            self.set_base(child, tip);
            return true;
        }
        if let Some(session) = core.sessions.get_mut(child) {
            session.wait = AgentWait::Snapshot;
        }
        self.merge_queue(core, &parent).apply(Fact::SnapshotRequested);
        core.mark_merge_queue(&parent);
        false
    }

    fn set_base(&mut self, child: &AgentId, base: ObjectId) {
        if let Some(files) = self.agents.get_mut(child) {
            files.base = Some(base);
        }
    }

    /// The commit that equals an agent's files, if it is known without reading the files.
    fn known_tip(&mut self, core: &Core, id: &AgentId) -> Option<ObjectId> {
        let files = &core.run.open(id)?.files;
        if !files.made {
            return files.origin();
        }
        let tip = self.agents.get(id)?.tip;
        tip.filter(|_| self.merge_queue(core, id).is_snapshot())
    }

    /// The commit that equals an agent's files, while its merge queue has exclusive access to them.
    pub(super) fn tip_alone(&self, core: &Core, id: &AgentId) -> Option<ObjectId> {
        let agent = core.run.open(id)?;
        if agent.files.made { self.agents.get(id)?.tip } else { agent.files.origin() }
    }

    /// Takes the result of a snapshot. The children that waited for it start or fail.
    pub(crate) fn snapshot_taken(
        &mut self,
        core: &mut Core,
        id: &AgentId,
        taken: Result<ObjectId, WorkspaceError>,
    ) -> Vec<FilesOutcome> {
        self.merge_queue(core, id).apply(Fact::SnapshotTaken(taken.is_ok()));
        let children: Vec<AgentId> = core.run.open(id).map_or_else(Vec::new, |agent| {
            agent.open_children.iter().map(|&number| id.child(number)).collect()
        });
        if let (Ok(tip), Some(files)) = (&taken, self.agents.get_mut(id)) {
            files.tip = Some(*tip);
        }
        let mut outcomes = Vec::new();
        for child in children {
            let Some(session) = core.sessions.get_mut(&child) else { continue };
            if !matches!(session.wait, AgentWait::Snapshot) {
                continue;
            }
            session.wait = AgentWait::Idle;
            match &taken {
                Ok(tip) => {
                    self.set_base(&child, *tip);
                    core.mark_ready(&child);
                }
                Err(problem) => {
                    let reason = format!("its parent's files cannot be committed: {problem}");
                    outcomes.push(FilesOutcome::AttemptFailed(child, attempt_failure(reason)));
                }
            }
        }
        if let Err(problem) = taken {
            let reason = format!("the parent's files cannot be committed: {problem}");
            outcomes.push(FilesOutcome::CannotIntegrate(id.clone(), reason));
        }
        outcomes
    }
}
