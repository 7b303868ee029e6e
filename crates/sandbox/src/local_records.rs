//! Stores outputs and process records in files of this machine, beside the workspaces of their run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use posse_domain::id::{AgentId, RunId};
use posse_engine::ports::{RecordError, RunRecords};

use super::end_recorded;

/// Records beneath the directory of all runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalRecords {
    runs: Arc<Path>,
}

impl LocalRecords {
    /// Records of the runs whose directories are in `runs`.
    pub fn new(runs: &Path) -> Self {
        Self { runs: runs.into() }
    }

    fn processes_of(&self, run: &RunId) -> PathBuf {
        self.runs.join(run.as_str()).join("sandboxes")
    }
}

impl RunRecords for LocalRecords {
    fn output_dir(&self, agent: &AgentId) -> PathBuf {
        self.runs.join(agent.run().as_str()).join("output").join(agent.to_string())
    }

    fn keep_output(&self, _: &AgentId, _: &str) -> BoxFuture<'static, Result<(), RecordError>> {
        // The file is already at its final path.
        Box::pin(std::future::ready(Ok(())))
    }

    fn find_output(
        &self,
        agent: &AgentId,
        name: &str,
    ) -> BoxFuture<'static, Result<Option<PathBuf>, RecordError>> {
        let file = self.output_dir(agent).join(name);
        Box::pin(async move { Ok(file.is_file().then_some(file)) })
    }

    fn process_record(&self, run: &RunId, call: &str) -> PathBuf {
        self.processes_of(run).join(call)
    }

    fn end_processes(&self, run: &RunId) -> BoxFuture<'static, Result<(), RecordError>> {
        let records = self.processes_of(run);
        Box::pin(async move {
            let alive = |error: &dyn std::fmt::Display| RecordError::ProcessesAlive(error.to_string());
            let ended = tokio::task::spawn_blocking(move || end_recorded(&records));
            ended.await.map_err(|error| alive(&error))?.map(drop).map_err(|error| alive(&error))
        })
    }
}
