//! Checks that every store applies to a commit before it reads its data.

use posse_engine::ports::{Basis, Commit, StoreError};

/// Finds problems that the commit alone shows.
pub(crate) fn validate(commit: &Commit) -> Result<(), StoreError> {
    let run = commit.key.run.as_str();
    if commit.basis == Basis::New && commit.run.is_none() {
        return refuse(format!("the first commit of run {run} has no row for the run"));
    }
    // All run ids have the same length, so a shared prefix means the same run.
    if let Some(event) = commit.events.iter().find(|event| !event.agent.as_str().starts_with(run)) {
        return refuse(format!("agent {} is not part of run {run}", event.agent));
    }
    if let Some(row) = commit.agents.iter().find(|row| !row.id.as_str().starts_with(run)) {
        return refuse(format!("agent {} is not part of run {run}", row.id));
    }
    Ok(())
}

fn refuse(text: String) -> Result<(), StoreError> {
    Err(StoreError::Failed(text))
}
