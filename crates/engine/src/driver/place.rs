//! Where agents work: workspaces made when they are first needed, snapshots for those who start from them, and
//! what keeps a change from beginning while the files are needed alone.
//!
//! Why it is like this: `docs/decisions/workspace-lazy-checkout.md`.

use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::event::{EffectClass, WorkspaceMade, WorkspaceSalvaged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState};
use posse_domain::object_id::ObjectId;

use super::Driver;
use super::desks::shared_files::SharedFiles;
use super::effects::Effect;
use super::session::{CallStage, SalvageProgress, StartPoint};
use crate::integrate::{Fact, MergeQueue};
use crate::ports::{MadeWorkspace, Salvage, WorkspaceId, WorkspaceProblem};
use crate::scheduler::{SlotRequest, SlotUse};

/// Where an agent's calls run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkspaceState {
    /// Nothing is on disk yet.
    Unmade,
    /// It is being made.
    Making,
    /// Here.
    At(Arc<PathBuf>),
}

impl Driver {
    /// The workspace of an agent's attempt under way.
    pub(super) fn workspace_of(&self, id: &AgentId) -> Option<WorkspaceId> {
        let attempt = self.sessions.get(id)?.machine.attempt();
        Some(WorkspaceId { agent: id.clone(), attempt })
    }

    /// Where an agent of the state works, as far as that is known without looking.
    pub(super) fn known_workspace(&self, id: &AgentId) -> WorkspaceState {
        let Some(workspaces) = self.rt.parts.workspaces.as_ref().filter(|_| self.run.is_isolated()) else {
            return WorkspaceState::At(self.run_dir.clone());
        };
        let Some(agent) = self.run.open(id).filter(|agent| agent.files.made) else {
            return WorkspaceState::Unmade;
        };
        let attempt = match agent.state {
            OpenState::Running { attempt } => attempt,
            _ => 1,
        };
        WorkspaceState::At(Arc::new(workspaces.dir(&WorkspaceId { agent: id.clone(), attempt })))
    }

    /// Whether the agent can change files, and so has a workspace of its own.
    fn is_writer(&self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return false };
        let changes = |tool: &str| self.rt.tools.get(tool).is_some_and(|tool| tool.class.changes_workspace());
        agent.authority.grant().allowed_tools.iter().any(|tool| changes(tool.as_str()))
    }

    /// The lane of an agent's files.
    pub(super) fn merge_queue(&mut self, id: &AgentId) -> &mut MergeQueue {
        // What is on disk may have changed since anybody looked, if this process did not make it.
        let tip = self.sessions.get(id).is_some_and(|session| session.tip.is_some());
        let unchanged = tip || self.run.open(id).is_none_or(|agent| !agent.files.made);
        self.merging.queue(id, unchanged)
    }

    /// Whether a call must wait before it may even queue for a slot: for its place, or for the files.
    fn hold_call(&mut self, id: &AgentId, class: EffectClass) -> bool {
        if !self.run.is_isolated() || !class.touches_files() {
            return false;
        }
        let placed = |driver: &Self| {
            driver.sessions.get(id).is_some_and(|session| matches!(session.place, WorkspaceState::At(_)))
        };
        if !placed(self) {
            self.request_workspace(id);
            return !placed(self);
        }
        class.changes_workspace() && !self.merging.may_change(id)
    }

    /// Queues a call for a slot, or parks it until it may.
    pub(super) fn queue_or_park(&mut self, id: &AgentId, call_id: &Arc<str>, class: EffectClass) {
        let parked = self.hold_call(id, class);
        let holds = !parked && class.changes_workspace() && self.run.is_isolated();
        if holds {
            self.merge_queue(id).apply(Fact::ChangeBegan);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let kind = session.kind.clone();
        let Some(call) = session.calls.get_mut(call_id) else { return };
        call.holds = holds;
        if parked {
            call.stage = CallStage::Parked;
            if !session.parked.contains(call_id) {
                session.parked.push(call_id.clone());
            }
            return;
        }
        call.stage = CallStage::Queued;
        let want = SlotRequest { agent: id.clone(), kind, what: SlotUse::Call(call_id.clone()) };
        self.scheduler.request(want);
    }

    /// Tries the parked calls of an agent again, in their order.
    pub(super) fn unpark(&mut self, id: &AgentId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.parked.is_empty() || session.ending.is_some() {
            return;
        }
        for call_id in std::mem::take(&mut session.parked) {
            let call = self.sessions.get(id).and_then(|session| session.calls.get(&call_id));
            match call.map(|call| (&call.stage, call.class)) {
                Some((CallStage::Hooking, _)) => self.start_pre_tool_hooks(id, &call_id),
                Some((_, class)) => self.queue_or_park(id, &call_id, class),
                None => {}
            }
        }
    }

    /// A call that held the files is over.
    pub(super) fn change_ended(&mut self, id: &AgentId, held: bool) {
        if held {
            self.merge_queue(id).apply(Fact::ChangeEnded);
            self.mark_merge_queue(id);
        }
    }

    /// Makes the agent's workspace, or finds the shared one, unless that is under way or has to wait.
    pub(super) fn request_workspace(&mut self, id: &AgentId) {
        let free = !self.merging.is_alone(id);
        let writer = self.is_writer(id);
        let Some(of) = self.workspace_of(id) else { return };
        let Some(origin) = self.run.open(id).and_then(|agent| agent.files.origin()) else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.place != WorkspaceState::Unmade || session.ending.is_some() || !free {
            return;
        }
        if writer {
            session.place = WorkspaceState::Making;
            return self.after_commit(Effect::Make { of, origin });
        }
        // Thousands may read the same files: they are laid out once, and found without a task for each.
        match self.shared_files.request(origin, id) {
            SharedFiles::At(dir) => session.place = WorkspaceState::At(dir),
            SharedFiles::Wait => session.place = WorkspaceState::Making,
            SharedFiles::Make => {
                session.place = WorkspaceState::Making;
                self.after_commit(Effect::Share { snapshot: origin });
            }
        }
    }

    /// A workspace was made, or not.
    pub(super) fn made(&mut self, id: &AgentId, made: Result<MadeWorkspace, WorkspaceProblem>) {
        let running = self.run.attempt_of(id);
        let origin = self.run.open(id).and_then(|agent| agent.files.origin());
        let Some(session) = self.sessions.get_mut(id) else { return };
        match (made, running, origin) {
            (Ok(made), Some(attempt), Some(base)) => {
                session.place = WorkspaceState::At(Arc::new(made.dir));
                session.tip = made.commit;
                if made.commit.is_none() {
                    // It was there already, and what it holds is not known.
                    self.merge_queue(id).apply(Fact::ChangeBegan);
                    self.merge_queue(id).apply(Fact::ChangeEnded);
                }
                self.emit(id.clone(), WorkspaceMade { attempt, base, notes: made.notes });
            }
            (Err(problem), ..) => return self.workspace_failed(id, &problem.text),
            (Ok(_), ..) => session.place = WorkspaceState::Unmade,
        }
        self.workspace_ready(id);
    }

    /// The shared files of a snapshot are there, or not.
    pub(super) fn shared_made(&mut self, snapshot: ObjectId, dir: Result<PathBuf, WorkspaceProblem>) {
        let dir = dir.map(Arc::new);
        let waiting = self.shared_files.made(snapshot, dir.as_ref().ok());
        for id in waiting {
            match &dir {
                Ok(dir) => {
                    if let Some(session) = self.sessions.get_mut(&id) {
                        session.place = WorkspaceState::At(dir.clone());
                    }
                    self.workspace_ready(&id);
                }
                Err(problem) => self.workspace_failed(&id, &problem.text),
            }
        }
    }

    fn workspace_ready(&mut self, id: &AgentId) {
        self.unpark(id);
        self.mark_merge_queue(id);
        self.mark_ready(id);
    }

    /// There is no workspace, so there is nothing the agent could do: its attempt ends, and says why. Going on without
    /// would only give it a chance to say that all is done.
    fn workspace_failed(&mut self, id: &AgentId, problem: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.place = WorkspaceState::Unmade;
        if session.ending.is_some() {
            return self.mark_ready(id);
        }
        self.end_attempt(id, failure(format!("there is no workspace to work in: {problem}")));
    }

    /// Gives a created child the snapshot it starts from, or asks for one; whether it has it.
    pub(super) fn ensure_base(&mut self, child: &AgentId) -> bool {
        if !self.run.is_isolated() {
            return true;
        }
        let created =
            self.run.open(child).is_some_and(|agent| matches!(agent.state, OpenState::Created { .. }));
        let has = self
            .sessions
            .get(child)
            .is_none_or(|session| matches!(session.start_point, StartPoint::Snapshot(_)));
        let Some(parent) = child.parent().filter(|_| created && !has) else { return true };
        if let Some(tip) = self.tip(&parent) {
            if let Some(session) = self.sessions.get_mut(child) {
                session.start_point = StartPoint::Snapshot(tip);
            }
            return true;
        }
        if let Some(session) = self.sessions.get_mut(child) {
            session.start_point = StartPoint::Awaited;
        }
        self.merge_queue(&parent).apply(Fact::SnapshotWanted);
        self.mark_merge_queue(&parent);
        false
    }

    /// The commit that an agent's files are, if that is known without looking.
    fn tip(&mut self, id: &AgentId) -> Option<ObjectId> {
        let files = &self.run.open(id)?.files;
        if !files.made {
            return files.origin();
        }
        let tip = self.sessions.get(id)?.tip;
        tip.filter(|_| self.merge_queue(id).is_snapshot())
    }

    /// A snapshot of an agent's files was taken, or could not be.
    pub(super) fn snapshot_taken(&mut self, id: &AgentId, taken: Result<ObjectId, WorkspaceProblem>) {
        self.merge_queue(id).apply(Fact::SnapshotTaken(taken.is_ok()));
        let waiting: Vec<AgentId> = self.run.open(id).map_or_else(Vec::new, |agent| {
            agent.open_children.iter().map(|&number| id.child(number)).collect()
        });
        if let (Ok(tip), Some(session)) = (&taken, self.sessions.get_mut(id)) {
            session.tip = Some(*tip);
        }
        for child in waiting {
            let Some(session) =
                self.sessions.get_mut(&child).filter(|session| session.start_point == StartPoint::Awaited)
            else {
                continue;
            };
            session.start_point = StartPoint::Unknown;
            match &taken {
                Ok(tip) => {
                    session.start_point = StartPoint::Snapshot(*tip);
                    self.mark_ready(&child);
                }
                Err(problem) => {
                    let reason = format!("its parent's files cannot be committed: {problem}");
                    self.end_attempt(&child, failure(reason));
                }
            }
        }
        if let Err(problem) = taken {
            self.cannot_integrate(id, &format!("the parent's files cannot be committed: {problem}"));
        }
        self.mark_merge_queue(id);
        self.mark_ready(id);
    }

    /// What a child made of its files. One that never had a workspace has what its own children made.
    pub(super) fn change_of(&self, id: &AgentId) -> Option<ObjectId> {
        let files = &self.run.open(id)?.files;
        if files.made {
            self.sessions.get(id)?.change
        } else {
            files.merged.filter(|merged| files.base != Some(*merged))
        }
    }

    /// Whether everything in the agent's workspace is kept; if not, it is being seen to.
    pub(super) fn ensure_salvaged(&mut self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return true };
        if !agent.files.made || agent.files.salvaged {
            return true;
        }
        let (Some(base), Some(of)) = (agent.files.base, self.workspace_of(id)) else { return true };
        let quiet = self.merging.is_quiet(id);
        let Some(session) = self.sessions.get_mut(id) else { return true };
        if quiet && session.keeping == SalvageProgress::No {
            session.keeping = SalvageProgress::UnderWay;
            self.after_commit(Effect::Salvage { of, base });
        }
        false
    }

    /// Everything in a workspace is in a commit, or it could not be looked at and stays as it is.
    pub(super) fn salvaged(&mut self, id: &AgentId, salvage: Result<Salvage, WorkspaceProblem>) {
        let Some(of) = self.workspace_of(id) else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.keeping = SalvageProgress::No;
        let (event, problem) = match salvage {
            Ok(Salvage { commit, changed, left_out, left_out_count }) => {
                session.change = changed.then_some(commit);
                let event = WorkspaceSalvaged {
                    attempt: of.attempt,
                    commit: Some(commit),
                    left_out,
                    left_out_count,
                    problem: None,
                };
                (event, None)
            }
            Err(problem) => {
                session.change = None;
                let event = WorkspaceSalvaged {
                    attempt: of.attempt,
                    commit: None,
                    left_out: Vec::new(),
                    left_out_count: 0,
                    problem: Some(problem.text.clone()),
                };
                (event, Some(problem))
            }
        };
        self.emit(id.clone(), event);
        if let Some(problem) = problem {
            let reason = format!("its files cannot be committed, they stay where they are: {problem}");
            self.end_attempt(id, failure(reason));
        }
        self.mark_ready(id);
    }
}

fn failure(reason: String) -> Failure {
    let kind = FailKind::Execution;
    Failure { kind, code: kind.code(), reason, report: None }
}
