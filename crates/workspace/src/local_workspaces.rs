//! Implements the engine's port to workspaces on this machine: git repositories beneath the state directory, checks in
//! the sandbox.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use posse_domain::event::{BaseSnapshot, CheckRecord, FilesCommit, RunResult};
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::{Approvals, instructs};
use posse_domain::printable;
use posse_domain::request::ContinuedFiles;
use posse_engine::ports::{
    CallContext, CallFiles, CheckRequest, FilesProgressReceiver, MadeWorkspace, Merge, MergeRequest, Salvage,
    StopSignal, UpdateOutcome, WorkspaceError, WorkspaceId, WorkspaceResult, Workspaces,
};
use posse_sandbox::{CacheShown, DiskLimit, LocalRecords, OverlayMount, Sandbox};

use super::host_commands::CommandResult;
use super::protected_names::ProtectedNames;
use super::run_files::blocking;
use super::workspace_commands::CommandPlace;
use super::{
    CACHE_NAMES, LocalFiles, PublishedResult, RunBase, RunSpace, TemporaryState, TreeMerge, WorkspaceOptions,
};

/// How many runs stay open in the cache.
const OPEN_RUNS_MAX: usize = 64;
/// Limit of instruction files for agents that a result names.
const INSTRUCTIONS_NAMED_MAX: usize = 100;

/// How workspaces are created.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceSettings {
    /// Limits, and the git program.
    pub options: WorkspaceOptions,
    /// A command that is run once in each new workspace, sandboxed.
    pub setup: Option<String>,
    /// Names of ignored directories that programs see as overlays; `None` for the usual ones.
    pub caches: Option<Vec<String>>,
}

/// Workspaces beneath a state directory of this machine. Cheap to clone.
#[derive(Clone)]
pub struct LocalWorkspaces(pub(super) Arc<Inner>);

pub(super) struct Inner {
    files: LocalFiles,
    pub(super) sandbox: Sandbox,
    pub(super) records: LocalRecords,
    pub(super) setup: Option<String>,
    cache_names: Vec<String>,
    open_runs: Mutex<HashMap<String, Arc<OpenRun>>>,
    /// Held by the thread that opens a run, which walks the project: many agents that start at once need the same run.
    opening: Mutex<()>,
    /// Locks that allow one check at a time per scratch directory: a stopped check may still be ending.
    scratches: Mutex<HashMap<AgentId, Arc<tokio::sync::Mutex<()>>>>,
    /// Whether the changes of a check can be kept in an overlay, apart from the files that it starts from.
    keeps_apart: tokio::sync::OnceCell<bool>,
    /// Removed when the last user of these workspaces is dropped.
    _temporary: Option<TemporaryState>,
}

/// A run's workspaces, and the data that all of them share.
pub(super) struct OpenRun {
    pub(super) space: RunSpace,
    pub(super) caches: Vec<PathBuf>,
    pub(super) disk_limit: Arc<DiskLimit>,
}

impl fmt::Debug for LocalWorkspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWorkspaces").field("state", &self.0.files.state).finish_non_exhaustive()
    }
}

impl LocalWorkspaces {
    /// Workspaces beneath `state`, whose commands run in `sandbox`.
    pub fn new(state: &Path, sandbox: Sandbox, settings: WorkspaceSettings) -> Self {
        Self::beneath(state, None, sandbox, settings)
    }

    /// Like [`LocalWorkspaces::new`], but beneath a directory that is removed once no run uses it.
    pub fn temporary(state: TemporaryState, sandbox: Sandbox, settings: WorkspaceSettings) -> Self {
        let path = state.path().to_owned();
        Self::beneath(&path, Some(state), sandbox, settings)
    }

    fn beneath(
        state: &Path,
        temporary: Option<TemporaryState>,
        sandbox: Sandbox,
        settings: WorkspaceSettings,
    ) -> Self {
        let usual = || CACHE_NAMES.iter().map(ToString::to_string).collect();
        Self(Arc::new(Inner {
            files: LocalFiles::new(state, settings.options).with_sandbox(&sandbox),
            sandbox,
            records: LocalRecords::new(&state.join("runs")),
            setup: settings.setup,
            cache_names: settings.caches.unwrap_or_else(usual),
            open_runs: Mutex::default(),
            opening: Mutex::default(),
            scratches: Mutex::default(),
            keeps_apart: tokio::sync::OnceCell::new(),
            _temporary: temporary,
        }))
    }

    /// Calls a function with a run's workspaces on a blocking thread.
    pub(super) fn with<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnOnce(&OpenRun) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> WorkspaceResult<T> {
        let (own, run) = (self.clone(), run.to_string());
        blocking(move || act(&*own.0.open_run(&run)?))
    }
}

impl Inner {
    pub(super) fn open_run(&self, run: &str) -> Result<Arc<OpenRun>, WorkspaceError> {
        let known = || self.open_runs.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known() {
            return Ok(known);
        }
        let space = self.files.open(run)?;
        let caches = space.caches(&self.cache_names);
        let disk_limit = Arc::new(space.disk_limit());
        let opened = Arc::new(OpenRun { space, caches, disk_limit });
        let mut all = self.open_runs.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= OPEN_RUNS_MAX {
            all.clear();
        }
        Ok(all.entry(run.to_owned()).or_insert(opened).clone())
    }

    /// The lock of the scratch directory in which merges into a parent are checked.
    fn scratch_lock(&self, parent: &AgentId) -> Arc<tokio::sync::Mutex<()>> {
        let mut scratches = self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        // A lock without another holder belongs to a run that ended, or to a parent that waits.
        scratches.retain(|_, lock| Arc::strong_count(lock) > 1);
        scratches.entry(parent.clone()).or_default().clone()
    }

    /// Whether the kernel supports overlays beside this directory.
    pub(super) async fn keeps_apart(&self, dir: &Path) -> bool {
        let beside = dir.parent().unwrap_or(dir);
        let probe = || async { matches!(self.sandbox.cache_in(beside).await, Ok(CacheShown::Overlay)) };
        *self.keeps_apart.get_or_init(probe).await
    }

    /// The mount of the workspace that calls name by this path, if it is mounted.
    pub(super) fn mounted(&self, workspace: &Path) -> Option<Arc<OverlayMount>> {
        self.files.overlays.as_deref()?.get(workspace.parent()?)
    }

    /// Unmounts the workspace that calls name by this path.
    fn release(&self, workspace: &Path) {
        let Some(home) = workspace.parent() else { return };
        self.files.calls.forget(home);
        if let Some(overlays) = &self.files.overlays {
            overlays.release(home);
        }
    }

    /// The mount of the workspace that calls name by this path, which is mounted if it is not. `None` if the path is not
    /// that of a workspace.
    pub(super) fn mount_at(&self, workspace: &Path) -> Result<Option<Arc<OverlayMount>>, WorkspaceError> {
        if let Some(mount) = self.mounted(workspace) {
            return Ok(Some(mount));
        }
        let beneath = workspace.strip_prefix(self.files.state.join("runs")).ok();
        let parts: Vec<&str> = beneath.into_iter().flatten().filter_map(|part| part.to_str()).collect();
        let opened = match parts[..] {
            // <state>/runs/<run>/workspaces/<agent>/<attempt>/files
            [run, "workspaces", agent, attempt, "files"] => {
                let Ok(attempt) = attempt.parse() else { return Ok(None) };
                self.open_run(run)?.space.open_files(agent, attempt)?
            }
            // <state>/runs/<run>/shared/<commit>/files
            [run, "shared", commit, "files"] => {
                let Ok(commit) = commit.parse() else { return Ok(None) };
                self.open_run(run)?.space.open_shared(&commit)?
            }
            _ => return Ok(None),
        };
        Ok(opened.mount())
    }

    pub(super) fn run_dir(&self, run: &str) -> PathBuf {
        self.files.run_dir(run)
    }

    /// Whether a directory is beneath the state directory, which the sandbox hides from programs.
    pub(super) fn is_hidden(&self, dir: &Path) -> bool {
        dir.starts_with(&self.files.state)
    }
}

/// The beginning of a run as its journal has it.
fn base_snapshot(begun: RunBase) -> BaseSnapshot {
    let RunBase { snapshot, head, compared_with, notes, dirty: _ } = begun;
    BaseSnapshot { commit: snapshot.commit, tree: snapshot.tree, head, compared_with, notes }
}

impl Workspaces for LocalWorkspaces {
    fn begin(&self, run: &RunId, dir: &str) -> WorkspaceResult<BaseSnapshot> {
        let (own, run, dir) = (self.clone(), run.to_string(), PathBuf::from(dir));
        blocking(move || {
            // The first workspace needs to know this, and finding out takes as long as the snapshot of a small folder.
            let files = own.0.files.clone();
            std::thread::spawn(move || files.try_overlays());
            let begun = own.0.files.begin(&run, &dir)?;
            own.0.files.check_ahead(&run, begun.snapshot.commit);
            Ok(base_snapshot(begun))
        })
    }

    fn continue_from(
        &self,
        run: &RunId,
        earlier: &RunId,
        files: ContinuedFiles,
    ) -> WorkspaceResult<BaseSnapshot> {
        let (own, run, earlier) = (self.clone(), run.to_string(), earlier.to_string());
        blocking(move || {
            let begun = own.0.files.continue_from(&run, &earlier, files)?;
            own.0.files.check_ahead(&run, begun.snapshot.commit);
            Ok(base_snapshot(begun))
        })
    }

    fn progress(&self) -> Option<FilesProgressReceiver> {
        Some(self.0.files.progress.subscribe())
    }

    fn dir(&self, of: &WorkspaceId) -> PathBuf {
        let workspaces = self.0.run_dir(of.agent.run().as_str()).join("workspaces");
        workspaces.join(of.agent.to_string()).join(of.attempt.to_string()).join("files")
    }

    fn make(&self, of: WorkspaceId, origin: ObjectId) -> WorkspaceResult<MadeWorkspace> {
        let (own, dir) = (self.clone(), self.dir(&of));
        let WorkspaceId { agent, attempt } = of;
        let run = agent.run();
        let agent = agent.to_string();
        let name = agent.clone();
        let has_setup = self.0.setup.is_some();
        let made = self.with(&run, move |opened| {
            let made = opened.space.make(&name, attempt, &origin)?;
            let layers = opened.space.layers(&name, attempt, &opened.caches);
            // Only programs need the objects, and the set-up is the only program here.
            let objects = if has_setup && made.fresh {
                opened.space.objects_of(&name, attempt)?
            } else {
                PathBuf::new()
            };
            let mount = opened.space.open_files(&name, attempt)?.mount();
            Ok((made, mount, layers.unwrap_or_default(), objects, opened.disk_limit.clone()))
        });
        Box::pin(async move {
            let (made, mount, caches, objects, disk_limit) = made.await?;
            let mut notes = made.notes;
            if made.fresh {
                let at = CommandPlace {
                    run: run.clone(),
                    dir: dir.clone(),
                    mount,
                    layers: None,
                    objects,
                    caches,
                    apart: None,
                    disk_limit,
                    record: format!("{agent}-setup"),
                };
                let done = own.0.set_up(&at).await;
                notes.extend(own.after_set_up(&run, &agent, attempt, made.base, done).await?);
            }
            Ok(MadeWorkspace { dir, commit: made.fresh.then_some(made.base), notes })
        })
    }

    fn ready(&self, call: &CallContext) -> WorkspaceResult<()> {
        let CallFiles::Workspace(of) = call.files.clone() else {
            return Box::pin(std::future::ready(Ok(())));
        };
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.objects_of(&of.agent.to_string(), of.attempt).map(drop)?)
        })
    }

    fn release(&self, of: &WorkspaceId) {
        let (own, dir) = (self.clone(), self.dir(of));
        // An unmount waits for a mount that is being made.
        tokio::task::spawn_blocking(move || own.0.release(&dir));
    }

    fn release_run(&self, run: &RunId) {
        let (own, run) = (self.clone(), run.to_string());
        tokio::task::spawn_blocking(move || own.0.files.release_readers(&run));
    }

    fn shared(&self, run: &RunId, snapshot: ObjectId) -> WorkspaceResult<PathBuf> {
        self.with(run, move |opened| Ok(opened.space.shared_name(&snapshot)?))
    }

    fn snapshot(&self, of: WorkspaceId) -> WorkspaceResult<ObjectId> {
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.snapshot(&of.agent.to_string(), of.attempt)?.commit)
        })
    }

    fn commit_call(&self, of: WorkspaceId) -> WorkspaceResult<Option<FilesCommit>> {
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.commit_call(&of.agent.to_string(), of.attempt)?)
        })
    }

    fn lost_calls(&self, of: WorkspaceId, commits: Vec<FilesCommit>) -> WorkspaceResult<Vec<FilesCommit>> {
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.lost_calls(&of.agent.to_string(), of.attempt, &commits)?)
        })
    }

    fn restore_calls(&self, of: WorkspaceId, lost: Vec<(FilesCommit, Vec<u8>)>) -> WorkspaceResult<()> {
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.restore_calls(&of.agent.to_string(), of.attempt, &lost)?)
        })
    }

    fn salvage(&self, of: WorkspaceId, base: ObjectId) -> WorkspaceResult<Salvage> {
        self.with(&of.agent.run(), move |opened| {
            let space = &opened.space;
            let salvaged = space.salvage(&of.agent.to_string(), of.attempt)?;
            let commit = salvaged.snapshot.commit;
            // A work ref that only moved by merges and back is not a change either.
            let changed = commit != base && !space.same_files(&commit, &base)?;
            let (left_out, left_out_count) = (salvaged.left_out, salvaged.left_out_count);
            Ok(Salvage { commit, changed, left_out, left_out_count })
        })
    }

    fn merge(&self, request: MergeRequest) -> WorkspaceResult<Merge> {
        self.with(&request.child.run(), move |opened| {
            let ProtectedNames { protected, opened: open } = ProtectedNames::of(&request.approvals);
            let merged = opened.space.merge(&TreeMerge {
                ours: request.ours,
                base: request.base,
                theirs: request.theirs,
                owns: request.owns,
                protected,
                opened: open,
                message: format!("posse: {} ({})\n", printable::line(&request.title), request.child),
            })?;
            let (commit, tree) = (request.ours, request.ours);
            Ok(merged.unwrap_or(Merge::Merged { commit, tree, paths: 0 }))
        })
    }

    fn check(&self, request: CheckRequest, stop: StopSignal) -> WorkspaceResult<Vec<CheckRecord>> {
        let own = self.clone();
        let lock = self.0.scratch_lock(&request.parent);
        Box::pin(async move {
            let _held = lock.lock().await;
            let mut results = Vec::with_capacity(request.commands.len());
            let mut commands = request.commands.clone();
            while !commands.is_empty() && results.iter().all(CommandResult::ok) {
                let at = own.begin_check(&request).await?;
                // Without overlays, each check starts in a new directory.
                let rest = commands.split_off(if at.apart.is_some() { commands.len() } else { 1 });
                results.extend(own.0.run_commands(&at, commands, request.network, &stop).await?);
                commands = rest;
            }
            results.extend(commands.into_iter().map(|(command, _)| CommandResult::not_run(command)));
            Ok(results.into_iter().map(CheckRecord::from).collect())
        })
    }

    fn update(&self, of: WorkspaceId, old: ObjectId, new: ObjectId) -> WorkspaceResult<UpdateOutcome> {
        self.with(&of.agent.run(), move |opened| {
            Ok(opened.space.update(&of.agent.to_string(), of.attempt, &old, &new)?)
        })
    }

    fn publish(&self, run: &RunId, approvals: Approvals) -> WorkspaceResult<Option<RunResult>> {
        self.with(run, move |opened| publish(&opened.space, &approvals))
    }
}

fn publish(space: &RunSpace, approvals: &Approvals) -> Result<Option<RunResult>, WorkspaceError> {
    let ProtectedNames { protected, opened } = ProtectedNames::of(approvals);
    let left_out = space.leave_out(&protected, &opened)?;
    let (published, problem) = match space.publish() {
        Ok(published) => (published, None),
        Err(error) if error.is_passing() => return Err(error.into()),
        // The work itself is kept. Its size is known without a branch.
        Err(error) => match space.made() {
            Ok(made) => (made, Some(error.to_string())),
            Err(_) => return Err(error.into()),
        },
    };
    let PublishedResult { commit, branch, files, paths } = published;
    if files == 0 && left_out.is_empty() {
        return Ok(None);
    }
    let mut instructions = paths;
    instructions.retain(|path| instructs(path));
    instructions.truncate(INSTRUCTIONS_NAMED_MAX);
    Ok(Some(RunResult { commit, branch, files: files as u64, problem, left_out, instructions }))
}
