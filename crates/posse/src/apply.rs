//! Brings the changes of a run, or of one of its agents, into the user's folder, and takes them back.

use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{CloseReason, FailKind, RunStatus};
use posse_engine::ports::{
    AppliedWork, ApplyError, ApplyPlan, ApplySummary, ConflictQuery, FileConflicts, RunFiles, WorkspaceError,
};

use crate::remote::ServerError;
use crate::view::AgentCommits;
use crate::work::unusable;
use crate::{Error, Posse, RunOutcome, replayed};

/// Limit of agents whose conflicts are read at once.
const CONFLICTS_MAX: usize = 10;

/// Which work may be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApplyWhich {
    /// Only that of a completed run or agent.
    #[default]
    Completed,
    /// That of any run or agent that has ended. The changes of a failed or cancelled one may be incomplete.
    Ended,
}

/// The result of applying work to the user's folder, or of taking it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRun {
    /// The user's folder.
    pub dir: PathBuf,
    /// The number of files; `None` if the run changed none.
    pub applied: Option<ApplySummary>,
}

/// What an apply would do to the user's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedApply {
    /// The user's folder.
    pub dir: PathBuf,
    /// What would be written; `None` if the run changed no files.
    pub plan: Option<ApplyPlan>,
}

/// Work that may be applied.
struct ApplicableWork {
    port: Arc<dyn RunFiles>,
    /// The user's folder.
    dir: PathBuf,
    /// `None` if no files were changed.
    work: Option<AppliedWork>,
    /// The branch that a result was published to.
    branch: Option<String>,
    /// Whether the work may be incomplete.
    is_unfinished: bool,
}

/// What became of a result that was to be applied when its run had completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppliedAtEnd {
    /// The run did not complete, so nothing was applied.
    NotCompleted,
    /// No agent of the run could change files.
    NoFiles,
    /// The result was applied.
    Applied(AppliedRun),
}

/// The change of a sub-agent that was not merged into the files of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    /// The sub-agent.
    pub agent: AgentId,
    /// Its parent.
    pub parent: AgentId,
    /// The files that both changed; ours are the parent's.
    pub found: FileConflicts,
}

impl Posse {
    /// Applies a run's changes to its original folder: all of them, or none if there is any conflict. A repeat changes
    /// nothing.
    pub async fn apply(&self, run: &RunId, which: ApplyWhich) -> Result<AppliedRun, Error> {
        self.apply_agent(&run.root(), which).await
    }

    /// Applies the changes of one agent, whether or not its parent accepted them. The root stands for the run.
    pub async fn apply_agent(&self, agent: &AgentId, which: ApplyWhich) -> Result<AppliedRun, Error> {
        if let Some(server) = &self.server {
            return match server.apply(agent, which).await {
                Err(error) => Err(self.not_applied_there(agent, error).await),
                done => done,
            };
        }
        let run = agent.run();
        let found = self.applicable(agent, which).await?;
        let Some(work) = found.work else { return Ok(AppliedRun { dir: found.dir, applied: None }) };
        match found.port.apply(&run, work).await {
            Ok(applied) => Ok(AppliedRun { dir: found.dir, applied: Some(applied) }),
            Err(problem) => {
                let branch = existing_branch(&*found.port, &run, found.branch).await;
                Err(not_applied(agent, found.dir, problem, branch, found.is_unfinished))
            }
        }
    }

    /// What [`apply_agent`](Self::apply_agent) would write now. Writes nothing; an error is the one that it would return.
    pub async fn check_apply(&self, agent: &AgentId, which: ApplyWhich) -> Result<CheckedApply, Error> {
        if let Some(server) = &self.server {
            return match server.check_apply(agent, which).await {
                Err(error) => Err(self.not_applied_there(agent, error).await),
                done => done,
            };
        }
        let run = agent.run();
        let found = self.applicable(agent, which).await?;
        let Some(work) = found.work else { return Ok(CheckedApply { dir: found.dir, plan: None }) };
        match found.port.check_apply(&run, work).await {
            Ok(plan) => Ok(CheckedApply { dir: found.dir, plan: Some(plan) }),
            Err(problem) => {
                let branch = existing_branch(&*found.port, &run, found.branch).await;
                Err(not_applied(agent, found.dir, problem, branch, found.is_unfinished))
            }
        }
    }

    /// The error of a server that did not apply work, or did not take that back, as it would be on its machine.
    async fn not_applied_there(&self, agent: &AgentId, error: Error) -> Error {
        let Error::Server(ServerError::Refused { code, status: http_status, .. }) = &error else {
            return error;
        };
        let run = agent.run();
        let summary = match self.summary(&run).await {
            Ok(summary) => summary,
            Err(error) => return error,
        };
        match (code.as_str(), agent.is_root()) {
            ("NOT_COMPLETED", false) => Error::AgentNotCompleted { agent: agent.clone() },
            ("NOT_COMPLETED", true) => Error::NotCompleted { run, status: summary.status },
            // Without files, the status is another one.
            ("NOT_THERE", _) if *http_status == 409 => {
                let problem = ApplyError::NotApplied;
                Error::NotUndone { agent: agent.clone(), dir: summary.dir.into(), problem }
            }
            ("NOT_ENDED", true) => Error::StillRunning(run),
            ("NOT_ENDED", false) => Error::AgentStillRunning(agent.clone()),
            _ => error,
        }
    }

    /// The work that an apply of an agent would bring into the user's folder; an error if it may not be applied.
    async fn applicable(&self, agent: &AgentId, which: ApplyWhich) -> Result<ApplicableWork, Error> {
        if agent.is_root() {
            self.applicable_result(&agent.run(), which).await
        } else {
            self.applicable_work(agent, which).await
        }
    }

    async fn applicable_result(&self, run: &RunId, which: ApplyWhich) -> Result<ApplicableWork, Error> {
        let summary = self.summary(run).await?;
        self.refuse_replay(run).await?;
        let status = summary.status;
        match (status, which) {
            (RunStatus::Completed, _) | (RunStatus::Failed | RunStatus::Cancelled, ApplyWhich::Ended) => {}
            (RunStatus::Running, _) => return Err(Error::StillRunning(run.clone())),
            _ => return Err(Error::NotCompleted { run: run.clone(), status }),
        }
        let port = self.run_files(run).await?;
        let dir = port.folder(run).await.map_err(unusable(run))?;
        let result = self.finished(run).await?.and_then(|finished| finished.result);
        // A result that could not be published is only known by its work ref.
        let work =
            result.as_ref().map(|made| AppliedWork::Result(made.problem.is_none().then_some(made.commit)));
        let branch = result.and_then(|made| made.branch);
        Ok(ApplicableWork { port, dir, work, branch, is_unfinished: status != RunStatus::Completed })
    }

    async fn applicable_work(&self, agent: &AgentId, which: ApplyWhich) -> Result<ApplicableWork, Error> {
        let run = agent.run();
        self.refuse_replay(&run).await?;
        let record = self.agent(agent).await?.agent;
        // A change that its parent did not accept is complete in itself.
        let is_complete = match record.close_reason {
            None => return Err(Error::AgentStillRunning(agent.clone())),
            Some(CloseReason::Failed(kind)) => kind == FailKind::Integration,
            Some(_) => true,
        };
        if !is_complete && which == ApplyWhich::Completed {
            return Err(Error::AgentNotCompleted { agent: agent.clone() });
        }
        let port = self.run_files(&run).await?;
        let dir = port.folder(&run).await.map_err(unusable(&run))?;
        let files = self.fold::<AgentCommits>(&run).await?.of(agent);
        let work = match (files.base, files.last) {
            (Some(base), Some(commit)) => {
                let approvals = self.request_of(&run).await?.terms.approvals;
                Some(AppliedWork::Agent { agent: agent.clone(), base, commit, approvals })
            }
            _ => None,
        };
        Ok(ApplicableWork { port, dir, work, branch: None, is_unfinished: !is_complete })
    }

    /// Takes back what the last apply of an agent's changes wrote: all of it, or nothing if the user changed the same
    /// lines since. The root stands for the run.
    pub async fn undo_apply(&self, agent: &AgentId) -> Result<AppliedRun, Error> {
        if let Some(server) = &self.server {
            return match server.undo_apply(agent).await {
                Err(error) => Err(self.not_applied_there(agent, error).await),
                done => done,
            };
        }
        let run = agent.run();
        self.check_head(&run).await?;
        let port = self.run_files(&run).await?;
        let dir = port.folder(&run).await.map_err(unusable(&run))?;
        match port.undo_apply(agent).await {
            Ok(undone) => Ok(AppliedRun { dir, applied: Some(undone) }),
            Err(ApplyError::Workspace(problem @ WorkspaceError::Damaged(_))) => Err(unusable(&run)(problem)),
            Err(problem) => Err(Error::NotUndone { agent: agent.clone(), dir, problem }),
        }
    }

    /// The agents of these runs whose work is applied, so that [`undo_apply`](Self::undo_apply) has something to take
    /// back; the newest apply is first, and a root stands for the result of its run.
    pub async fn applied(&self, runs: Vec<RunId>) -> Result<Vec<AgentId>, Error> {
        match &self.files {
            Some(files) => Ok(files.applied(runs).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Applies the result of a run that has just ended, if it completed: for a run whose user asked for that when it
    /// started.
    pub async fn apply_at_end(&self, finished: &RunOutcome) -> Result<AppliedAtEnd, Error> {
        if finished.status != RunStatus::Completed {
            return Ok(AppliedAtEnd::NotCompleted);
        }
        match self.apply(&finished.run, ApplyWhich::Completed).await {
            Ok(applied) => Ok(AppliedAtEnd::Applied(applied)),
            Err(Error::NoFiles(_)) => Ok(AppliedAtEnd::NoFiles),
            Err(error) => Err(error),
        }
    }

    /// The conflicts of an agent and of the agents beneath it with the files of their parents, as they were when the
    /// changes were to be merged. At most the first ten agents.
    pub async fn merge_conflicts(&self, top: &AgentId) -> Result<Vec<MergeConflict>, Error> {
        let run = top.run();
        let commits: AgentCommits = self.fold(&run).await?;
        let queries: Vec<_> = commits.conflicted().filter(|(agent, _)| agent.is_within(top)).collect();
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let port = self.run_files(&run).await?;
        let mut conflicts = Vec::new();
        for (agent, files) in queries.into_iter().take(CONFLICTS_MAX) {
            let (Some(ours), Some(base), Some(theirs)) = (files.conflicted_with, files.base, files.last)
            else {
                continue;
            };
            let Some(parent) = agent.parent() else { continue };
            let query = ConflictQuery { ours, base, theirs };
            let found = port.conflicts(&run, query).await.map_err(unusable(&run))?;
            if !found.files.is_empty() {
                conflicts.push(MergeConflict { agent, parent, found });
            }
        }
        Ok(conflicts)
    }

    async fn refuse_replay(&self, run: &RunId) -> Result<(), Error> {
        match replayed(&self.summary(run).await?.model) {
            Some(recorded) => Err(Error::IsReplay { run: run.clone(), recorded: recorded.to_owned() }),
            None => Ok(()),
        }
    }
}

/// The branch of a result, if the user has not removed it. For advice only, so that a problem is no error.
async fn existing_branch(port: &dyn RunFiles, run: &RunId, branch: Option<String>) -> Option<String> {
    let branch = branch?;
    port.has_branch(run, &branch).await.unwrap_or(false).then_some(branch)
}

fn not_applied(
    agent: &AgentId,
    dir: PathBuf,
    problem: ApplyError,
    branch: Option<String>,
    is_unfinished: bool,
) -> Error {
    match problem {
        ApplyError::Workspace(problem @ WorkspaceError::Damaged(_)) => unusable(&agent.run())(problem),
        problem => Error::NotApplied { agent: agent.clone(), dir, problem, branch, is_unfinished },
    }
}
