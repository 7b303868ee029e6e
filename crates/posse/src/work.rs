//! What became of a run's files: as a diff, in the person's checkout, salvaged, as a report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{FailureReason, RunStatus};
use posse_domain::object_id::ObjectId;
use posse_workspace::{
    ApplySummary, DiffForm, DiffOptions, Oid, RunSpace, WorkspaceError, Workspaces, work_ref,
};

use crate::info::AgentInfo;
use crate::view::{RunFiles, started_from};
use crate::{Error, Posse};

/// Which runs may be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApplyWhich {
    /// Only one that completed.
    #[default]
    Completed,
    /// Any that has ended: what a failed or cancelled run made may be half of something.
    Ended,
}

/// What was brought into the person's checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRun {
    /// The checkout.
    pub dir: PathBuf,
    /// How many files; none if the run changed nothing.
    pub applied: Option<ApplySummary>,
}

/// Work of one attempt of an agent that was kept when its workspace was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedWork {
    /// Whose it is.
    pub agent: AgentId,
    /// Of which attempt.
    pub attempt: u32,
    /// When it was kept, in milliseconds since 1970.
    pub at_ms: i64,
    /// The commit that holds it; none if the workspace could not be looked at, and is kept as it is.
    pub commit: Option<ObjectId>,
    /// How many files differ from what the agent began with; none if it is not kept any more.
    pub files: Option<u64>,
    /// The commit that holds the workspace's `.git` as plain files; none if the agent did nothing there.
    pub git: Option<ObjectId>,
    /// What is not in it: what cannot be kept, each with why, then ignored files; a bounded list.
    pub left_out: Vec<String>,
    /// How many there are.
    pub left_out_count: u64,
    /// Why the workspace could not be looked at.
    pub problem: Option<String>,
}

/// Salvaged work that was written into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredWork {
    /// Of which attempt it is.
    pub attempt: u32,
    /// How many files there are.
    pub files: u64,
}

impl Posse {
    /// What a run made of the files it began with, or what one of its agents did; the root stands for the run. While
    /// it goes on this is what has been committed so far.
    pub async fn diff(&self, agent: &AgentId, options: DiffOptions) -> Result<Vec<u8>, Error> {
        let run = agent.run();
        self.agent_of(agent).await?;
        let space = self.space(&run).await?;
        let files = self.fold::<RunFiles>(&run).await?.of(agent);
        let (agent, is_root) = (agent.to_string(), agent.number().is_none());
        looking(run, move || {
            let Some(base) = files.base else { return Ok(Vec::new()) };
            // Children are merged into a root's line after its own work was last salvaged.
            let last = files.last.filter(|_| !is_root);
            let last = match last {
                Some(last) => oid(&last),
                None => {
                    space.read_ref(&work_ref(&agent, files.attempt.max(1)))?.unwrap_or_else(|| oid(&base))
                }
            };
            space.diff(&oid(&base), &last, options)
        })
        .await
    }

    /// Brings what a run made into the checkout it came from: all of it, or nothing if anything is in conflict. To
    /// do it again changes nothing.
    pub async fn apply(&self, run: &RunId, which: ApplyWhich) -> Result<AppliedRun, Error> {
        let info = self.get(run).await?;
        match (info.status, which) {
            (RunStatus::Completed, _) | (RunStatus::Failed | RunStatus::Cancelled, ApplyWhich::Ended) => {}
            (RunStatus::Running, _) => return Err(Error::StillRunning(run.clone())),
            _ => return Err(Error::NotCompleted { run: run.clone(), status: info.status }),
        }
        let space = self.space(run).await?;
        let dir = space.folder().to_owned();
        let Some(made) = self.finished(run).await?.and_then(|finished| finished.result) else {
            return Ok(AppliedRun { dir, applied: None });
        };
        blocking(run, move |run| {
            let failed = |problem| Error::Files { run: run.clone(), problem };
            let found = space.result().map_err(failed)?;
            // What could not be delivered is only known by its line.
            if made.problem.is_none() && found != oid(&made.commit) {
                let problem = format!("{} is not where the run left it in Posse's repository", made.commit);
                return Err(failed(WorkspaceError::Damaged(problem)));
            }
            let applied = space.apply(&dir).map_err(|problem| Error::NotApplied {
                run: run.clone(),
                dir: dir.clone(),
                problem,
            })?;
            Ok(AppliedRun { dir, applied: Some(applied) })
        })
        .await
    }

    /// What was kept of the workspaces of a run, oldest first.
    pub async fn salvages(&self, run: &RunId) -> Result<Vec<SalvagedWork>, Error> {
        let space = self.space(run).await?;
        let files: RunFiles = self.fold(run).await?;
        let mut found = files.salvages().to_vec();
        looking(run.clone(), move || {
            for work in &mut found {
                let git = posse_workspace::salvaged_git_ref(&work.agent.to_string(), work.attempt);
                work.git = space.read_ref(&git)?.map(|commit| ObjectId::from_bytes(*commit.as_bytes()));
                let (Some(commit), Some(base)) = (work.commit, files.of(&work.agent).base) else { continue };
                let name = posse_workspace::salvage_ref(&work.agent.to_string(), work.attempt);
                if space.read_ref(&name)?.is_some() {
                    let options = DiffOptions { form: DiffForm::NameStatus, colour: false };
                    let lines = space.diff(&oid(&base), &oid(&commit), options)?;
                    work.files = Some(
                        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64,
                    );
                }
            }
            Ok(found)
        })
        .await
    }

    /// Writes what was kept of an agent into `target`, a directory that is new or empty: of this attempt, or of its
    /// last.
    pub async fn restore(
        &self,
        agent: &AgentId,
        attempt: Option<u32>,
        target: &Path,
    ) -> Result<RestoredWork, Error> {
        self.agent_of(agent).await?;
        let run = agent.run();
        let space = self.space(&run).await?;
        let (name, target) = (agent.to_string(), target.to_owned());
        looking(run, move || {
            let kept = space.salvages()?;
            let attempts = kept.iter().filter(|kept| kept.agent == name).map(|kept| kept.attempt);
            let attempt = match attempt {
                Some(attempt) => attempt,
                None => attempts.max().ok_or_else(|| {
                    WorkspaceError::Unsupported(format!(
                        "nothing was salvaged of {name}, or it was cleaned away"
                    ))
                })?,
            };
            let files = space.restore(&name, attempt, &target)?;
            Ok(RestoredWork { attempt, files: files as u64 })
        })
        .await
    }

    /// What an agent reported, as Markdown; of one that failed why, and what it still said. None if it has not ended.
    pub async fn report(&self, agent: &AgentId) -> Result<Option<String>, Error> {
        let agent = self.agent_of(agent).await?;
        Ok(match (agent.failure, agent.result) {
            (None, report) => report.filter(|_| agent.final_status.is_some() || agent.depth == 0),
            (Some(FailureReason { code, reason }), report) => {
                let failed = match code {
                    Code::Cancelled => format!("Cancelled: {reason}"),
                    code => format!("Failed ({code}): {reason}"),
                };
                Some(match report {
                    Some(report) => format!("{failed}\n\nIts report:\n\n{report}"),
                    None => failed,
                })
            }
        })
    }

    /// What a run takes on disk beside the journal: workspaces, checkouts, records; none if it has nothing there.
    pub async fn disk_bytes(&self, run: &RunId) -> Result<Option<u64>, Error> {
        let Some(files) = self.files.clone() else { return Ok(None) };
        let name = run.to_string();
        looking(run.clone(), move || files.disk_bytes(&name)).await
    }

    async fn agent_of(&self, agent: &AgentId) -> Result<AgentInfo, Error> {
        let info = self.get(&agent.run()).await?;
        let found = info.agents.into_iter().find(|known| known.id == *agent);
        found.ok_or_else(|| Error::NoAgent(agent.clone()))
    }

    /// The workspaces of a run; an error if it worked in place.
    async fn space(&self, run: &RunId) -> Result<RunSpace, Error> {
        let key = self.key(run);
        let first = self.store.read(&key, 0, 1).await?.into_iter().next();
        let first = first.map(|stored| posse_engine::decode(&key, &stored)).transpose()?;
        let isolated = first.is_some_and(|event| started_from(&event.body).is_some());
        let files: Option<Workspaces> = self.files.clone().filter(|_| isolated);
        let files = files.ok_or_else(|| Error::InPlace(run.clone()))?;
        let name = run.to_string();
        looking(run.clone(), move || files.open(&name)).await
    }
}

fn oid(id: &ObjectId) -> Oid {
    Oid::from_bytes(*id.as_bytes())
}

/// Does something with a run's files on a thread that may block.
async fn looking<T: Send + 'static>(
    run: RunId,
    act: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, Error> {
    blocking(&run, move |run| act().map_err(|problem| Error::Files { run: run.clone(), problem })).await
}

/// The same for what fails in ways of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    run: &RunId,
    act: impl FnOnce(&RunId) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let run = Arc::new(run.clone());
    let own = run.clone();
    let task = tokio::task::spawn_blocking(move || act(&own));
    let broken = |error: tokio::task::JoinError| Error::Files {
        run: (*run).clone(),
        problem: WorkspaceError::Damaged(format!("the work broke off: {error}")),
    };
    task.await.map_err(broken)?
}
