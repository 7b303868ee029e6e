//! Commits the files of a workspace after each call that may have changed them.
//!
//! The commit is journalled with the call's result, so that after any crash the files of every finished call are known.
//!
//! Why it is like this: `docs/decisions/workspace-commit-per-call.md`.

use posse_domain::event::FilesCommit;

use crate::driver::workspace_retry::retry;
use crate::ports::{CallFiles, Workspaces};

/// The files after a call.
#[derive(Debug, Default)]
pub(crate) struct CommittedFiles {
    /// `None` if the call changed nothing, or if they could not be committed.
    pub(crate) commit: Option<FilesCommit>,
    /// Why they could not be committed. The call keeps its result: the next commit, or the salvage, has its files or
    /// reports the same problem.
    pub(crate) problem: Option<String>,
}

impl CommittedFiles {
    pub(super) async fn after_call(workspaces: Option<&dyn Workspaces>, files: &CallFiles) -> Self {
        let (Some(workspaces), CallFiles::Workspace(of)) = (workspaces, files) else {
            return Self::default();
        };
        match retry(|| workspaces.commit_call(of.clone())).await {
            Ok(commit) => Self { commit, problem: None },
            Err(problem) => {
                tracing::warn!(agent_id = %of.agent, %problem, "the files after a call were not committed");
                Self { commit: None, problem: Some(problem.to_string()) }
            }
        }
    }
}
