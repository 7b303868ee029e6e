//! Recovers the files of open agents when a run is resumed.
//!
//! A crash of the process leaves the files as they were. A crash of the machine may lose any file that was not synced:
//! the commits of finished calls are then restored from the journal, and the workspace is created again from the last
//! one. What a call left that was cut off is committed and journalled with its interruption, so that it is never taken
//! for the work of a finished call.
//!
//! Why it is like this: `docs/decisions/workspace-commit-per-call.md`.

use std::collections::{BTreeSet, HashMap};

use posse_domain::event::{EffectClass, Event, EventBody, FilesCommit};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::OpenState;
use posse_domain::object_id::ObjectId;
use thiserror::Error;

use super::Driver;
use super::recover::OpenEvents;
use super::workspace_retry::retry;
use crate::ports::{RunKey, Store, WorkspaceError, WorkspaceId, Workspaces};

/// The files that cut-off calls left, by agent.
pub(super) type LeftFiles = HashMap<AgentId, FilesCommit>;

/// A workspace that the journal names and that cannot be created again.
#[derive(Debug, Error)]
#[error("the workspace of {} is missing: {problem}", agent.relative())]
pub(super) struct MissingWorkspace {
    agent: AgentId,
    problem: WorkspaceError,
}

/// A workspace that the journal names, and what the journal says about its files.
struct KnownWorkspace {
    of: WorkspaceId,
    origin: ObjectId,
    commits: Vec<FilesCommit>,
    /// Whether a program was running in it when the process ended.
    cut_off: bool,
}

impl Driver {
    /// Restores what the machine lost of the workspaces that the journal names, and creates incomplete ones again.
    pub(super) fn recover_files(
        &self,
        order: &[AgentId],
        events: &OpenEvents,
    ) -> impl Future<Output = Result<LeftFiles, MissingWorkspace>> + use<> {
        let workspaces = self.core.rt.parts.workspaces.clone().filter(|_| self.core.run.is_isolated());
        let (store, key) = (self.core.rt.parts.store.clone(), self.core.key.clone());
        let known = |id: &AgentId| {
            let agent = self.core.run.open(id).filter(|agent| agent.files.made)?;
            let (OpenState::Running { attempt }, origin) = (&agent.state, agent.files.origin()?) else {
                return None;
            };
            let events = events.get(id).map(Vec::as_slice).unwrap_or_default();
            let (commits, cut_off) = files_of_attempt(events);
            Some(KnownWorkspace {
                of: WorkspaceId { agent: id.clone(), attempt: *attempt },
                origin,
                commits,
                cut_off,
            })
        };
        let known: Vec<_> = order.iter().filter_map(known).collect();
        async move {
            let mut left = LeftFiles::default();
            let Some(workspaces) = workspaces else { return Ok(left) };
            for known in known {
                let agent = known.of.agent.clone();
                match recover_one(&*workspaces, &*store, &key, known).await {
                    Ok(commit) => left.extend(commit.map(|commit| (agent, commit))),
                    Err(problem) => return Err(MissingWorkspace { agent, problem }),
                }
            }
            Ok(left)
        }
    }
}

/// The commits of the calls of an agent's last attempt, oldest first, and whether a program was running at the end.
fn files_of_attempt(events: &[Event]) -> (Vec<FilesCommit>, bool) {
    let mut commits = Vec::new();
    let mut running = BTreeSet::new();
    for event in events {
        match &event.body {
            EventBody::SubagentAttempt(_) => {
                commits.clear();
                running.clear();
            }
            EventBody::ToolIntended(intended) if intended.class == EffectClass::Exec => {
                running.insert(intended.call_id.as_str());
            }
            EventBody::ToolFinished(finished) => {
                running.remove(finished.call_id.as_str());
            }
            EventBody::ToolInterrupted(interrupted) => {
                running.remove(interrupted.call_id.as_str());
            }
            _ => {}
        }
        commits.extend(event.body.files().cloned());
    }
    (commits, !running.is_empty())
}

/// Recovers one workspace. Returns the files that a cut-off call left.
async fn recover_one(
    workspaces: &dyn Workspaces,
    store: &dyn Store,
    key: &RunKey,
    known: KnownWorkspace,
) -> Result<Option<FilesCommit>, WorkspaceError> {
    let KnownWorkspace { of, origin, commits, cut_off } = known;
    let lost = retry(|| workspaces.lost_calls(of.clone(), commits.clone())).await?;
    if !lost.is_empty() {
        let mut restored = Vec::with_capacity(lost.len());
        for commit in lost {
            let bytes = match &commit.pack {
                Some(pack) => store
                    .get_blob(&key.tenant, &pack.at().blob)
                    .await
                    .map_err(|error| WorkspaceError::Damaged(error.to_string()))?,
                None => Vec::new(),
            };
            restored.push((commit, bytes));
        }
        retry(|| workspaces.restore_calls(of.clone(), restored.clone())).await?;
    }
    retry(|| workspaces.make(of.clone(), origin)).await?;
    if !cut_off {
        return Ok(None);
    }
    // Without this commit, the next call's would have the files: nothing is lost.
    Ok(retry(|| workspaces.commit_call(of.clone())).await.unwrap_or_else(|problem| {
        tracing::warn!(agent_id = %of.agent, %problem, "the files that a cut-off call left were not committed");
        None
    }))
}

#[cfg(test)]
mod tests {
    use posse_domain::event::{SubagentAttempt, ToolFinished, ToolIntended, ToolInterrupted};
    use posse_domain::id::RunId;
    use posse_domain::lifecycle::FailKind;

    use super::*;

    fn commit(byte: u8) -> FilesCommit {
        let id = |byte| ObjectId::from_bytes([byte; 20]);
        FilesCommit { commit: id(byte), follows: id(0), onto: None, pack: None }
    }

    fn intended(call_id: &str, class: EffectClass) -> EventBody {
        let (call_id, tool) = (call_id.to_owned(), "bash".to_owned());
        ToolIntended { call_id, tool, class, specifier: None, write: None, sandbox: None }.into()
    }

    fn finished(call_id: &str, files: Option<FilesCommit>) -> EventBody {
        ToolFinished {
            call_id: call_id.to_owned(),
            tool: "bash".to_owned(),
            ok: true,
            code: None,
            output: "".into(),
            images: Vec::new(),
            child: None,
            seen: Vec::new(),
            files,
            files_problem: None,
            elapsed_ms: 1,
        }
        .into()
    }

    fn of(bodies: Vec<EventBody>) -> (Vec<FilesCommit>, bool) {
        let agent = RunId::from_random(1).root();
        let events: Vec<Event> =
            bodies.into_iter().map(|body| Event { agent: agent.clone(), at_ms: 1, body }).collect();
        files_of_attempt(&events)
    }

    #[test]
    fn the_commits_of_the_last_attempt_count() {
        let again = SubagentAttempt {
            n: 2,
            kind: FailKind::Execution,
            code: FailKind::Execution.code(),
            reason: "again".to_owned(),
            in_place: false,
        };
        let known = of(vec![
            intended("a", EffectClass::Exec),
            finished("a", Some(commit(1))),
            again.into(),
            intended("b", EffectClass::Write),
            finished("b", Some(commit(2))),
            intended("c", EffectClass::Exec),
            finished("c", None),
        ]);
        assert_eq!(known, (vec![commit(2)], false));
    }

    #[test]
    fn a_program_without_a_result_was_cut_off() {
        let cut = vec![intended("a", EffectClass::Exec), intended("b", EffectClass::Write)];
        assert_eq!(of(cut.clone()), (Vec::new(), true));
        let text = "unknown".into();
        let (call_id, tool, files) = ("a".to_owned(), "bash".to_owned(), Some(commit(3)));
        let told = ToolInterrupted { call_id, tool, output: text, files, elapsed_ms: 0 };
        assert_eq!(of([cut, vec![told.into()]].concat()), (vec![commit(3)], false));
        assert_eq!(of(vec![intended("b", EffectClass::Write)]), (Vec::new(), false), "a write is inspected");
    }
}
