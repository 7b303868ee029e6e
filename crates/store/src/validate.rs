//! What every store refuses before it looks at its data.

use posse_engine::ports::{Basis, Commit, StoreError};

/// States of an agent, as the lifecycle spells them.
pub(crate) const AGENT_STATES: [&str; 6] =
    ["created", "running", "waiting_for_merge", "completed", "failed", "closed"];
/// How an agent can end.
pub(crate) const FINAL_STATUSES: [&str; 2] = ["completed", "failed"];
/// States of a run.
pub(crate) const RUN_STATUSES: [&str; 4] = ["running", "completed", "failed", "cancelled"];

/// Finds what is wrong with a commit on its own.
pub(crate) fn validate(commit: &Commit) -> Result<(), StoreError> {
    let run = commit.key.run.as_str();
    if commit.basis == Basis::New && commit.run.is_none() {
        return refuse(format!("the first commit of run {run} has no row for the run"));
    }
    if let Some(row) = &commit.run
        && !RUN_STATUSES.contains(&row.status.as_str())
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
        if !AGENT_STATES.contains(&row.state.as_str()) {
            return refuse(format!("`{}` is not a state of agent {}", row.state, row.id));
        }
        if let Some(status) = &row.final_status
            && !FINAL_STATUSES.contains(&status.as_str())
        {
            return refuse(format!("`{status}` is not how agent {} can end", row.id));
        }
    }
    Ok(())
}

fn refuse(text: String) -> Result<(), StoreError> {
    Err(StoreError::Failed(text))
}
