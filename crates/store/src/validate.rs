//! What every store refuses before it looks at its data.

use posse_domain::event::FinalStatus;
use posse_domain::lifecycle::{AgentState, RunStatus};
use posse_engine::ports::{Basis, Commit, StoreError};

/// Finds what is wrong with a commit on its own.
pub(crate) fn validate(commit: &Commit) -> Result<(), StoreError> {
    let run = commit.key.run.as_str();
    if commit.basis == Basis::New && commit.run.is_none() {
        return refuse(format!("the first commit of run {run} has no row for the run"));
    }
    if let Some(row) = &commit.run
        && RunStatus::parse(&row.status).is_none()
    {
        return refuse(format!("`{}` is not a status of a run", row.status));
    }
    // Run ids have one length, so that a shared prefix means the same run.
    if let Some(event) = commit.events.iter().find(|event| !event.agent.as_str().starts_with(run)) {
        return refuse(format!("agent {} is not part of run {run}", event.agent));
    }
    for row in &commit.agents {
        if !row.id.as_str().starts_with(run) {
            return refuse(format!("agent {} is not part of run {run}", row.id));
        }
        if AgentState::parse(&row.state).is_none() {
            return refuse(format!("`{}` is not a state of agent {}", row.state, row.id));
        }
        if let Some(status) = &row.final_status
            && FinalStatus::parse(status).is_none()
        {
            return refuse(format!("`{status}` is not how agent {} can end", row.id));
        }
    }
    Ok(())
}

fn refuse(text: String) -> Result<(), StoreError> {
    Err(StoreError::Failed(text))
}
