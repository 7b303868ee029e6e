//! The file desk: creates the workspaces of agents and the snapshots that children start from, salvages workspaces, and
//! merges children's changes into their parents' files.
//!
//! A workspace is created when a call first needs it. The desk returns the consequences of a merge, a check or a
//! salvage to the driver, which ends attempts and accepts or rejects work.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`, `docs/decisions/workspace-lazy-checkout.md`.

mod merge;
mod publish;
mod snapshot;
mod task;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{EffectClass, WorkspaceMade, WorkspaceSalvaged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState};
use posse_domain::object_id::ObjectId;

pub(crate) use self::publish::Publication;
pub(crate) use self::task::FilesEffect;
use super::merging::MergeDesk;
use super::shared_files::{SharedFiles, SharedFilesDesk};
use crate::driver::core::Core;
use crate::driver::effects::Effect;
use crate::integrate::{Fact, MergeQueue};
use crate::ports::{CallFiles, MadeWorkspace, Salvage, WorkspaceError, WorkspaceId};

/// The directory in which an agent's calls run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WorkspaceState {
    Unmade,
    /// The workspace is being created.
    Making,
    At(Arc<PathBuf>),
}

/// The file state of one agent.
#[derive(Debug)]
struct AgentFiles {
    workspace: WorkspaceState,
    /// The snapshot that the agent starts from, as soon as it is known.
    base: Option<ObjectId>,
    /// The newest commit of the agent's files.
    tip: Option<ObjectId>,
    /// The commit with the agent's changes, set when they are salvaged.
    change: Option<ObjectId>,
}

/// How agents continue after a fact about files.
pub(crate) enum FilesOutcome {
    /// The workspace exists, so parked calls may start.
    WorkspaceReady(AgentId),
    /// The attempt cannot continue without its files.
    AttemptFailed(AgentId, Failure),
    /// The snapshot is known without reading any file.
    SnapshotKnown(AgentId, Result<ObjectId, WorkspaceError>),
    /// No change can be merged into the files of this parent. Its children that wait for a merge fail.
    CannotIntegrate(AgentId, String),
    /// The parent's files have the child's changes. Files in `conflicts_left` conflicted with them and were not
    /// changed.
    Accepted { child: AgentId, conflicts_left: Vec<String> },
    /// The child's work must not be merged, for this reason.
    Rejected { child: AgentId, code: Code, reason: String },
}

#[derive(Default)]
pub(crate) struct FilesDesk {
    agents: HashMap<AgentId, AgentFiles>,
    merging: MergeDesk,
    shared: SharedFilesDesk,
    publication: Publication,
}

impl FilesDesk {
    pub(crate) fn open(&mut self, core: &Core, id: &AgentId) {
        let workspace = known_workspace(core, id);
        self.agents.insert(id.clone(), AgentFiles { workspace, base: None, tip: None, change: None });
    }

    /// Resets the files for a new attempt: a new workspace from the same snapshot, and an empty merge queue.
    pub(crate) fn open_attempt(&mut self, core: &Core, id: &AgentId) {
        let workspace = known_workspace(core, id);
        if let Some(files) = self.agents.get_mut(id) {
            *files = AgentFiles { workspace, base: files.base, tip: None, change: None };
        }
        self.merging.forget_queue(id);
    }

    /// Removes the state of an agent that has ended, and removes it from its merge queue.
    pub(crate) fn close(&mut self, core: &Core, id: &AgentId) {
        release(core, id);
        self.agents.remove(id);
        self.merging.leave(id);
    }

    /// Frees what the workspaces of all agents occupy, because this process no longer executes the run.
    pub(crate) fn release_all(&self, core: &Core) {
        self.agents.keys().for_each(|id| release(core, id));
        if let Some(workspaces) = &core.rt.parts.workspaces {
            workspaces.release_run(&core.key.run);
        }
    }

    /// The snapshot that the agent starts from, if it is known.
    pub(crate) fn base_of(&self, id: &AgentId) -> Option<ObjectId> {
        self.agents.get(id)?.base
    }

    /// The directory of the agent's workspace, if it has one.
    pub(crate) fn dir_of(&self, id: &AgentId) -> Option<&Arc<PathBuf>> {
        match &self.agents.get(id)?.workspace {
            WorkspaceState::At(dir) => Some(dir),
            WorkspaceState::Unmade | WorkspaceState::Making => None,
        }
    }

    /// Whether no merge, check, snapshot or update of an agent's files is under way, and its workspace is not being
    /// created.
    pub(crate) fn is_quiet(&self, id: &AgentId) -> bool {
        !self.is_making(id) && self.merging.is_quiet(id)
    }

    pub(crate) fn is_making(&self, id: &AgentId) -> bool {
        self.agents.get(id).is_some_and(|files| files.workspace == WorkspaceState::Making)
    }

    /// Whether checks of any child are under way.
    pub(crate) fn is_checking(&self) -> bool {
        self.merging.is_checking()
    }

    /// Whether the result of a child's checks is no longer needed.
    pub(crate) fn is_check_stopped(&self, child: &AgentId) -> bool {
        self.merging.is_check_stopped(child)
    }

    /// Records files of the parent that conflicted with a child's changes and were not changed, for the answer to the
    /// parent.
    pub(crate) fn keep_note(&mut self, child: &AgentId, conflicts_left: &[String]) {
        if !conflicts_left.is_empty() {
            self.merging.keep_note(child, merge::named(conflicts_left));
        }
    }

    /// Removes and returns the files that conflicted with a child's changes, for the answer to its parent.
    pub(crate) fn take_note(&mut self, child: &AgentId) -> Option<String> {
        self.merging.take_note(child)
    }

    /// The queue of merges into an agent's files.
    fn merge_queue(&mut self, core: &Core, id: &AgentId) -> &mut MergeQueue {
        // Files that another process created may have changed since their last commit.
        let tip = self.agents.get(id).is_some_and(|files| files.tip.is_some());
        let unchanged = tip || core.run.open(id).is_none_or(|agent| !agent.files.made);
        self.merging.queue(id, unchanged)
    }

    /// Requests the files that a call of this class needs. Returns whether the call must wait before it may queue for a
    /// slot.
    pub(crate) fn hold_call(&mut self, core: &mut Core, id: &AgentId, class: EffectClass) -> bool {
        if !core.run.is_isolated() || !class.touches_files() {
            return false;
        }
        if self.dir_of(id).is_none() {
            self.request_workspace(core, id);
            return self.dir_of(id).is_none();
        }
        class.changes_workspace() && !self.merging.may_change(id)
    }

    /// Records that a call uses the agent's files, so that no merge gets exclusive access to them.
    pub(crate) fn begin_change(&mut self, core: &Core, id: &AgentId) {
        self.merge_queue(core, id).apply(Fact::ChangeBegan);
    }

    /// Records the end of a call. `held` if it used the agent's files.
    pub(crate) fn end_change(&mut self, core: &mut Core, id: &AgentId, held: bool) {
        if held {
            self.merge_queue(core, id).apply(Fact::ChangeEnded);
            core.mark_merge_queue(id);
        }
    }

    /// Creates the agent's workspace or finds the shared one, unless that is under way or must wait.
    pub(crate) fn request_workspace(&mut self, core: &mut Core, id: &AgentId) {
        let free = !self.merging.is_alone(id);
        let Some(of) = workspace_of(core, id) else { return };
        let Some(origin) = core.run.open(id).and_then(|agent| agent.files.origin()) else { return };
        let Some(files) = self.agents.get_mut(id) else { return };
        if files.workspace != WorkspaceState::Unmade || !core.is_active(id) || !free {
            return;
        }
        if is_writer(core, id) {
            files.workspace = WorkspaceState::Making;
            return core.after_commit(Effect::Files(FilesEffect::Make { of, origin }));
        }
        // Thousands of agents may read the same files. They are checked out once, and finding them needs no task.
        match self.shared.request(origin, id) {
            SharedFiles::At(dir) => files.workspace = WorkspaceState::At(dir),
            SharedFiles::Wait => files.workspace = WorkspaceState::Making,
            SharedFiles::Make => {
                files.workspace = WorkspaceState::Making;
                core.after_commit(Effect::Files(FilesEffect::Share { snapshot: origin }));
            }
        }
    }

    /// Takes the result of creating a workspace.
    pub(crate) fn made(
        &mut self,
        core: &mut Core,
        id: &AgentId,
        made: Result<MadeWorkspace, WorkspaceError>,
    ) -> Option<FilesOutcome> {
        let running = core.run.attempt_of(id);
        let origin = core.run.open(id).and_then(|agent| agent.files.origin());
        let files = self.agents.get_mut(id)?;
        match (made, running, origin) {
            (Ok(made), Some(attempt), Some(base)) => {
                files.workspace = WorkspaceState::At(Arc::new(made.dir));
                files.tip = made.commit;
                if made.commit.is_none() {
                    // The workspace existed before, so its files may differ from the last commit.
                    self.merge_queue(core, id).apply(Fact::ChangeBegan);
                    self.merge_queue(core, id).apply(Fact::ChangeEnded);
                }
                core.emit(id.clone(), WorkspaceMade { attempt, base, notes: made.notes });
            }
            (Err(problem), ..) => return self.workspace_failed(core, id, &problem.to_string()),
            (Ok(_), ..) => files.workspace = WorkspaceState::Unmade,
        }
        Some(FilesOutcome::WorkspaceReady(id.clone()))
    }

    /// Takes the result of checking out the shared files of a snapshot.
    pub(crate) fn shared_made(
        &mut self,
        core: &mut Core,
        snapshot: ObjectId,
        dir: Result<PathBuf, WorkspaceError>,
    ) -> Vec<FilesOutcome> {
        let dir = dir.map(Arc::new);
        let waiting = self.shared.made(snapshot, dir.as_ref().ok());
        let outcome = |id: AgentId| match &dir {
            Ok(dir) => {
                if let Some(files) = self.agents.get_mut(&id) {
                    files.workspace = WorkspaceState::At(dir.clone());
                }
                Some(FilesOutcome::WorkspaceReady(id))
            }
            Err(problem) => self.workspace_failed(core, &id, &problem.to_string()),
        };
        waiting.into_iter().filter_map(outcome).collect()
    }

    /// Ends the attempt of an agent whose workspace cannot be created. A further turn would only let its model claim
    /// that the work is done.
    fn workspace_failed(&mut self, core: &mut Core, id: &AgentId, problem: &str) -> Option<FilesOutcome> {
        self.agents.get_mut(id)?.workspace = WorkspaceState::Unmade;
        if !core.is_active(id) {
            core.mark_ready(id);
            return None;
        }
        let failure = attempt_failure(format!("there is no workspace to work in: {problem}"));
        Some(FilesOutcome::AttemptFailed(id.clone(), failure))
    }

    /// The commit with a child's changes. A child that never had a workspace has only the changes of its own children.
    pub(crate) fn change_of(&self, core: &Core, id: &AgentId) -> Option<ObjectId> {
        let files = &core.run.open(id)?.files;
        if files.made {
            self.agents.get(id)?.change
        } else {
            files.merged.filter(|merged| files.base != Some(*merged))
        }
    }

    /// Starts to salvage the agent's workspace, unless it is salvaged. Returns whether it is salvaged.
    pub(crate) fn ensure_salvaged(&mut self, core: &mut Core, id: &AgentId) -> bool {
        let Some(agent) = core.run.open(id) else { return true };
        if !agent.files.made || agent.files.salvaged {
            return true;
        }
        let (Some(base), Some(of)) = (agent.files.base, workspace_of(core, id)) else { return true };
        let Some(session) = core.sessions.get_mut(id) else { return true };
        if self.merging.is_quiet(id) && session.begin_salvage() {
            core.after_commit(Effect::Files(FilesEffect::Salvage { of, base }));
        }
        false
    }

    /// Takes the result of a salvage. If the files could not be committed, they stay as they are, and the attempt
    /// fails.
    pub(crate) fn salvaged(
        &mut self,
        core: &mut Core,
        id: &AgentId,
        salvage: Result<Salvage, WorkspaceError>,
    ) -> Option<FilesOutcome> {
        let of = workspace_of(core, id)?;
        core.sessions.get_mut(id)?.end_salvage();
        let files = self.agents.get_mut(id)?;
        let (event, problem) = match salvage {
            Ok(Salvage { commit, changed, left_out, left_out_count }) => {
                files.change = changed.then_some(commit);
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
                files.change = None;
                let event = WorkspaceSalvaged {
                    attempt: of.attempt,
                    commit: None,
                    left_out: Vec::new(),
                    left_out_count: 0,
                    problem: Some(problem.to_string()),
                };
                (event, Some(problem))
            }
        };
        core.emit(id.clone(), event);
        let problem = problem?;
        let reason = format!("its files cannot be committed, they stay where they are: {problem}");
        Some(FilesOutcome::AttemptFailed(id.clone(), attempt_failure(reason)))
    }
}

/// The workspace of an agent's current attempt.
fn workspace_of(core: &Core, id: &AgentId) -> Option<WorkspaceId> {
    let attempt = core.sessions.get(id)?.machine.attempt();
    Some(WorkspaceId { agent: id.clone(), attempt })
}

/// Frees what the workspace of an agent's current attempt occupies beside its files.
fn release(core: &Core, id: &AgentId) {
    let made = core.run.open(id).is_none_or(|agent| agent.files.made);
    if let (Some(workspaces), Some(of)) = (&core.rt.parts.workspaces, workspace_of(core, id).filter(|_| made))
    {
        workspaces.release(&of);
    }
}

/// The kind of files that an agent works on, once it has a directory.
pub(crate) fn files_of(core: &Core, id: &AgentId) -> CallFiles {
    let made = core.run.open(id).is_some_and(|agent| agent.files.made);
    match workspace_of(core, id) {
        _ if !core.run.is_isolated() => CallFiles::Folder,
        Some(of) if made => CallFiles::Workspace(of),
        _ => CallFiles::Shared,
    }
}

/// The directory of an agent, as far as the state alone determines it.
fn known_workspace(core: &Core, id: &AgentId) -> WorkspaceState {
    let Some(workspaces) = core.rt.parts.workspaces.as_ref().filter(|_| core.run.is_isolated()) else {
        return WorkspaceState::At(core.run_dir.clone());
    };
    let Some(agent) = core.run.open(id).filter(|agent| agent.files.made) else {
        return WorkspaceState::Unmade;
    };
    let attempt = match agent.state {
        OpenState::Running { attempt } => attempt,
        _ => 1,
    };
    WorkspaceState::At(Arc::new(workspaces.dir(&WorkspaceId { agent: id.clone(), attempt })))
}

/// Whether the agent can change files, and so has its own workspace.
fn is_writer(core: &Core, id: &AgentId) -> bool {
    let Some(agent) = core.run.open(id) else { return false };
    let changes = |tool: &str| core.tool(tool).is_some_and(|tool| tool.class.changes_workspace());
    agent.authority.grant().allowed_tools.iter().any(|tool| changes(tool.as_str()))
}

fn attempt_failure(reason: String) -> Failure {
    let kind = FailKind::Execution;
    Failure { kind, code: kind.code(), reason, report: None }
}
