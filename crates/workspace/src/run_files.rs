//! Implements the engine's port to results and storage of runs on this machine.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_engine::ports::{
    AppliedWork, ApplyError, ApplyPlan, ApplySummary, ConflictQuery, DiffEnd, DiffForm, DiffOptions,
    FileConflicts, FileListing, GcOptions, GcSummary, ListedFile, ObjectTransfer, ReportFile, RestoredWork,
    RunFiles, SalvageQuery, SalvageState, WorkspaceError, WorkspaceResult,
};

use super::applying::applied_in;
use super::{
    LocalFiles, RepositoryError, RunSpace, conflict, file_listing, reports, salvage_ref, salvaged_git_ref,
    work_ref,
};

/// Runs a blocking function on a blocking thread.
pub(super) fn blocking<T, E>(
    act: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> BoxFuture<'static, Result<T, E>>
where
    T: Send + 'static,
    E: From<RepositoryError> + Send + 'static,
{
    let task = tokio::task::spawn_blocking(act);
    let broken = |error: tokio::task::JoinError| {
        RepositoryError::Damaged(format!("the operation was interrupted: {error}"))
    };
    Box::pin(async move { task.await.map_err(broken)? })
}

impl LocalFiles {
    /// Calls a function with a run's files on a blocking thread.
    fn with<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnOnce(&RunSpace) -> Result<T, RepositoryError> + Send + 'static,
    ) -> WorkspaceResult<T> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || Ok::<_, WorkspaceError>(act(&files.open(&run)?)?))
    }
}

impl RunFiles for LocalFiles {
    fn folder(&self, run: &RunId) -> WorkspaceResult<PathBuf> {
        self.with(run, |space| Ok(space.folder().to_owned()))
    }

    fn diff(
        &self,
        run: &RunId,
        from: ObjectId,
        to: DiffEnd,
        options: DiffOptions,
    ) -> WorkspaceResult<Vec<u8>> {
        self.with(run, move |space| {
            let to = match to {
                DiffEnd::Commit(commit) => commit,
                DiffEnd::Call { commit, packs } => {
                    return space.diff_of_call(&from, &commit, &packs, options);
                }
                DiffEnd::WorkRef(of) => {
                    space.read_ref(&work_ref(&of.agent.to_string(), of.attempt))?.unwrap_or(from)
                }
            };
            space.diff(&from, &to, options)
        })
    }

    fn apply(&self, run: &RunId, work: AppliedWork) -> BoxFuture<'static, Result<ApplySummary, ApplyError>> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || {
            let space = files.open(&run)?;
            if let AppliedWork::Agent { agent, base, commit, approvals } = work {
                return space.apply_work(agent.as_str(), space.folder(), base, commit, &approvals);
            }
            check_result(&space, &work)?;
            space.apply(space.folder())
        })
    }

    fn check_apply(
        &self,
        run: &RunId,
        work: AppliedWork,
    ) -> BoxFuture<'static, Result<ApplyPlan, ApplyError>> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || {
            let space = files.open(&run)?;
            if let AppliedWork::Agent { agent, base, commit, approvals } = work {
                return space.check_work(agent.as_str(), space.folder(), base, commit, &approvals);
            }
            check_result(&space, &work)?;
            space.check_apply(space.folder())
        })
    }

    fn undo_apply(&self, of: &AgentId) -> BoxFuture<'static, Result<ApplySummary, ApplyError>> {
        let (files, of) = (self.clone(), of.clone());
        blocking(move || {
            let space = files.open(of.run().as_str())?;
            space.undo_apply(of.as_str(), space.folder())
        })
    }

    fn applied(&self, runs: Vec<RunId>) -> WorkspaceResult<Vec<AgentId>> {
        let files = self.clone();
        blocking(move || {
            let mut applied = Vec::new();
            for run in &runs {
                applied.extend(applied_in(&files.run_dir(run.as_str()), run)?);
            }
            applied.sort_by(|(one, _), (other, _)| other.cmp(one));
            Ok::<_, WorkspaceError>(applied.into_iter().map(|(_, agent)| agent).collect())
        })
    }

    fn conflicts(&self, run: &RunId, merge: ConflictQuery) -> WorkspaceResult<FileConflicts> {
        self.with(run, move |space| conflict::of_merge(&space.git(), &merge))
    }

    fn has_branch(&self, run: &RunId, branch: &str) -> WorkspaceResult<bool> {
        let branch = branch.to_owned();
        self.with(run, move |space| space.has_branch(&branch))
    }

    fn salvages(&self, run: &RunId, of: Vec<SalvageQuery>) -> WorkspaceResult<Vec<SalvageState>> {
        self.with(run, move |space| of.iter().map(|query| state_of(space, query)).collect())
    }

    fn restore(&self, agent: &AgentId, attempt: Option<u32>, target: &Path) -> WorkspaceResult<RestoredWork> {
        let (name, target) = (agent.to_string(), target.to_owned());
        self.with(&agent.run(), move |space| {
            let kept = space.salvages()?;
            let last = kept.iter().filter(|kept| kept.agent == name).map(|kept| kept.attempt).max();
            let attempt = attempt.or(last).ok_or_else(|| {
                RepositoryError::Unsupported(format!(
                    "nothing was salvaged of {name}, or it was cleaned away"
                ))
            })?;
            let files = space.restore(&name, attempt, &target)?;
            Ok(RestoredWork { attempt, files: files as u64 })
        })
    }

    fn list_files(&self, run: &RunId, tree: ObjectId) -> WorkspaceResult<FileListing> {
        self.with(run, move |space| file_listing::list(&space.git(), &tree))
    }

    fn read_files(&self, run: &RunId, files: Vec<ListedFile>) -> WorkspaceResult<Vec<Vec<u8>>> {
        self.with(run, move |space| file_listing::contents(&space.git(), &files))
    }

    fn disk_bytes(&self, run: &RunId) -> WorkspaceResult<Option<u64>> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || Ok(files.disk_usage(&run)?))
    }

    fn check_shared(&self, run: Option<&RunId>) -> WorkspaceResult<Vec<String>> {
        let (files, run) = (self.clone(), run.map(ToString::to_string));
        blocking(move || Ok(files.check_bases(run.as_deref())?))
    }

    fn write_reports(&self, run: &RunId, reports: Vec<ReportFile>) -> WorkspaceResult<PathBuf> {
        let dir = self.run_dir(run.as_str()).join("reports");
        blocking(move || reports::write(&dir, &reports).map(|()| dir))
    }

    fn clean(&self, options: GcOptions) -> WorkspaceResult<GcSummary> {
        let files = self.clone();
        blocking(move || Ok(files.gc(&options)?))
    }

    fn remove(&self, run: &RunId, dry_run: bool) -> WorkspaceResult<GcSummary> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || {
            if !dry_run {
                return Ok(files.remove_run(&run)?);
            }
            let freed_bytes = files.check_removable(&run)?;
            Ok(GcSummary { removed: vec![format!("run {run}")], kept: Vec::new(), freed_bytes })
        })
    }

    fn export_objects(
        &self,
        run: &RunId,
        objects: Vec<ObjectId>,
        bases: Vec<ObjectId>,
    ) -> WorkspaceResult<ObjectTransfer> {
        self.with(run, move |space| space.pack_objects(&objects, &bases).map(ObjectTransfer))
    }

    fn import_objects(&self, run: &RunId, transfer: ObjectTransfer) -> WorkspaceResult<()> {
        let (files, run) = (self.clone(), run.to_string());
        blocking(move || Ok(files.take_objects(&run, &transfer.0)?))
    }
}

/// Refuses a result that is not the one that the journal names.
fn check_result(space: &RunSpace, work: &AppliedWork) -> Result<(), RepositoryError> {
    let AppliedWork::Result(Some(expected)) = work else { return Ok(()) };
    if *expected == space.result()? {
        return Ok(());
    }
    let problem = format!("{expected} is not where the run left it in Posse's repository");
    Err(RepositoryError::Damaged(problem))
}

fn state_of(space: &RunSpace, query: &SalvageQuery) -> Result<SalvageState, RepositoryError> {
    let (agent, attempt) = (query.of.agent.to_string(), query.of.attempt);
    let git = space.read_ref(&salvaged_git_ref(&agent, attempt))?;
    let (Some(commit), Some(base)) = (query.commit, query.base) else {
        return Ok(SalvageState { files: None, git });
    };
    if space.read_ref(&salvage_ref(&agent, attempt))?.is_none() {
        return Ok(SalvageState { files: None, git });
    }
    let options = DiffOptions { form: DiffForm::NameStatus, colour: false };
    let lines = space.diff(&base, &commit, options)?;
    let files = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    Ok(SalvageState { files: Some(files as u64), git })
}
