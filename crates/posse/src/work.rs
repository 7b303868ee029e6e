//! Access to a run's files for front ends: diff, salvage.

use std::path::Path;
use std::sync::Arc;

use posse_domain::event::FilesCommit;
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_engine::ports::{
    DiffEnd, DiffOptions, RestoredWork, RunFiles, SalvageQuery, SalvageState, WorkspaceError, WorkspaceId,
};

use crate::view::{AgentCommits, FileHistory, FilesAt, started_from};
use crate::{Error, Posse};

/// Work of one attempt of an agent that was kept when its workspace was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedWork {
    /// The agent that did the work.
    pub agent: AgentId,
    /// The number of its attempt.
    pub attempt: u32,
    /// When it was kept, in milliseconds since 1970.
    pub at_ms: i64,
    /// The commit with the work; `None` if the workspace could not be read, and is kept unchanged.
    pub commit: Option<ObjectId>,
    /// How many files differ from the agent's base; `None` if the work is no longer kept.
    pub files: Option<u64>,
    /// The commit with the workspace's `.git` as plain files; `None` if the agent changed nothing there.
    pub git: Option<ObjectId>,
    /// What is not included: files that cannot be kept, each with the reason, then ignored files; a bounded list.
    pub left_out: Vec<String>,
    /// The total number of omitted files.
    pub left_out_count: u64,
    /// Why the workspace could not be read.
    pub problem: Option<String>,
}

impl Posse {
    /// The changes of a run, or of one of its agents, to the files it began with; the root represents the run. While
    /// the run is open these are the changes of all calls that have ended.
    pub async fn diff(&self, agent: &AgentId, options: DiffOptions) -> Result<Vec<u8>, Error> {
        let run = agent.run();
        self.agent(agent).await?;
        if let Some(server) = &self.server {
            return Self::remote_diff(server, agent, None, options).await;
        }
        let port = self.run_files(&run).await?;
        let history: FileHistory = self.fold(&run).await?;
        // The result of an ended run omits what no agent may change.
        let result = if agent.is_root() { self.finished(&run).await? } else { None };
        let result = result.and_then(|finished| finished.result).filter(|result| result.problem.is_none());
        if let (Some(base), Some(result)) = (history.base_of(agent), result) {
            let to = DiffEnd::Commit(result.commit);
            return port.diff(&run, base, to, options).await.map_err(unusable(&run));
        }
        if let (Some(base), Some(FilesAt::Call(calls))) = (history.base_of(agent), history.newest_of(agent)) {
            let to = self.packed(calls).await?;
            return port.diff(&run, base, to, options).await.map_err(unusable(&run));
        }
        let files = self.fold::<AgentCommits>(&run).await?.of(agent);
        let Some(base) = files.base else { return Ok(Vec::new()) };
        // Children are merged into a root's files after its own work was last salvaged.
        let last = files.last.filter(|_| agent.number().is_some());
        let of = WorkspaceId { agent: agent.clone(), attempt: files.attempt.max(1) };
        let last = last.map_or(DiffEnd::WorkRef(of), DiffEnd::Commit);
        port.diff(&run, base, last, options).await.map_err(unusable(&run))
    }

    /// The changes of an agent to the files it began with, as they were when the journal got this event: those of all
    /// calls of the agent, and of all merges into its files, up to there.
    pub async fn diff_at(&self, agent: &AgentId, event: u64, options: DiffOptions) -> Result<Vec<u8>, Error> {
        let run = agent.run();
        self.agent(agent).await?;
        if let Some(server) = &self.server {
            return Self::remote_diff(server, agent, Some(event), options).await;
        }
        let port = self.run_files(&run).await?;
        let last = self.store.head(&self.key(&run)).await?.seq;
        if event == 0 || event > last {
            return Err(Error::NoEvent { run, event, last });
        }
        let history: FileHistory = self.fold_up_to(&run, event).await?;
        let (Some(base), Some(newest)) = (history.base_of(agent), history.newest_of(agent)) else {
            return Ok(Vec::new());
        };
        let to = match newest {
            FilesAt::Commit(commit) => DiffEnd::Commit(commit),
            FilesAt::Call(calls) => self.packed(calls).await?,
        };
        port.diff(&run, base, to, options).await.map_err(unusable(&run))
    }

    /// The last of these commits of calls, with the packs of all of them.
    async fn packed(&self, calls: Vec<FilesCommit>) -> Result<DiffEnd, Error> {
        let mut packs = Vec::with_capacity(calls.len());
        for pack in calls.iter().filter_map(|call| call.pack.as_ref()) {
            packs.push(self.store.get_blob(&self.tenant, &pack.at().blob).await?);
        }
        let commit = calls.last().map_or(ObjectId::ZERO, |last| last.commit);
        Ok(DiffEnd::Call { commit, packs })
    }

    /// The salvage of a run's workspaces, oldest first.
    pub async fn salvages(&self, run: &RunId) -> Result<Vec<SalvagedWork>, Error> {
        if let Some(server) = &self.server {
            return if self.has_files(run).await? {
                server.salvages(run).await
            } else {
                Err(Error::NoFiles(run.clone()))
            };
        }
        let port = self.run_files(run).await?;
        let files: AgentCommits = self.fold(run).await?;
        let mut found = files.salvages().to_vec();
        let query = |work: &SalvagedWork| SalvageQuery {
            of: WorkspaceId { agent: work.agent.clone(), attempt: work.attempt },
            base: files.of(&work.agent).base,
            commit: work.commit,
        };
        let queries = found.iter().map(query).collect();
        let states = port.salvages(run, queries).await.map_err(unusable(run))?;
        for (work, SalvageState { files, git }) in found.iter_mut().zip(states) {
            (work.files, work.git) = (files, git);
        }
        Ok(found)
    }

    /// Writes the salvage of an agent into `target`, a new or empty directory: of this attempt, or of its last.
    pub async fn restore(
        &self,
        agent: &AgentId,
        attempt: Option<u32>,
        target: &Path,
    ) -> Result<RestoredWork, Error> {
        self.agent(agent).await?;
        let run = agent.run();
        let port = self.run_files(&run).await?;
        port.restore(agent, attempt, target).await.map_err(unusable(&run))
    }

    /// The disk usage of a run beside the journal: workspaces, checkouts, records; `None` if it has no files.
    pub async fn disk_bytes(&self, run: &RunId) -> Result<Option<u64>, Error> {
        if let Some(server) = &self.server {
            return Self::remote_disk_bytes(server, run).await;
        }
        let Some(files) = &self.files else { return Ok(None) };
        files.disk_bytes(run).await.map_err(unusable(run))
    }

    /// The port to the files of a run; an error if no agent of it could change files.
    pub(crate) async fn run_files(&self, run: &RunId) -> Result<Arc<dyn RunFiles>, Error> {
        let has_files = self.has_files(run).await?;
        self.files.clone().filter(|_| has_files).ok_or_else(|| Error::NoFiles(run.clone()))
    }

    /// Whether agents of a run could change files.
    async fn has_files(&self, run: &RunId) -> Result<bool, Error> {
        let key = self.key(run);
        let first = self.store.read(&key, 0, 1).await?.into_iter().next();
        let first = first.map(|stored| posse_engine::decode(&key, &stored)).transpose()?;
        Ok(first.is_some_and(|event| started_from(&event.body).is_some()))
    }
}

/// The error for a run's files that could not be used.
pub(crate) fn unusable(run: &RunId) -> impl Fn(WorkspaceError) -> Error + '_ {
    |problem| Error::Files { run: run.clone(), problem }
}
