//! Runs Posse's own commands in workspaces: the user's set-up command, and the checks of merged files.
//!
//! Why it is like this: `docs/decisions/checks-state.md`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::id::RunId;
use posse_domain::object_id::ObjectId;
use posse_domain::permission::PROTECTED;
use posse_engine::ports::{
    CheckRequest, RunRecords, StopSignal, WORKSPACE_SHOWN_AT, WorkspaceError, WorkspaceResult,
};
use posse_sandbox::{Cache, DiskLimit, OBJECTS_SHOWN_AT, OverlayMount, SandboxError};

use super::host_commands::{CommandLayers, CommandResult, HostCommand, HostCommands, run_commands};
use super::local_workspaces::{Inner, LocalWorkspaces};

const SETUP_TIMEOUT: Duration = Duration::from_mins(10);
/// Limit of characters that are repeated from a failed set-up's output.
const SETUP_SHOWN_MAX_CHARS: usize = 2_000;

/// Where commands run.
pub(super) struct CommandPlace {
    pub(super) run: RunId,
    pub(super) dir: PathBuf,
    /// The mount with the files of `dir`, if they are an overlay.
    pub(super) mount: Option<Arc<OverlayMount>>,
    /// The layers that each command starts from, if `apart` is set and the files are an overlay.
    pub(super) layers: Option<CommandLayers>,
    pub(super) objects: PathBuf,
    pub(super) caches: Vec<Cache>,
    /// A directory for overlays with each command's changes. With `None`, commands change the directory itself.
    pub(super) apart: Option<PathBuf>,
    pub(super) disk_limit: Arc<DiskLimit>,
    pub(super) record: String,
}

fn sandbox_error(error: &SandboxError) -> WorkspaceError {
    match error {
        SandboxError::BroughtDown => WorkspaceError::Suspect("the command ended its own sandbox".to_owned()),
        SandboxError::Lost | SandboxError::Call(_) => WorkspaceError::Unavailable(error.to_string()),
        SandboxError::Unavailable(_) | SandboxError::NoProgram(_) | SandboxError::Workspace(_) => {
            WorkspaceError::Unsupported(error.to_string())
        }
    }
}

impl LocalWorkspaces {
    /// Cleans up after a set-up: resets files that git does not ignore, because they are not an agent's change, and
    /// discards a workspace whose set-up failed.
    pub(super) fn after_set_up(
        &self,
        run: &RunId,
        agent: &str,
        attempt: u32,
        base: ObjectId,
        done: Result<(), WorkspaceError>,
    ) -> WorkspaceResult<Option<String>> {
        let (agent, setup) = (agent.to_owned(), self.0.setup.clone());
        self.with(run, move |opened| {
            let Some(setup) = setup else { return done.map(|()| None) };
            if let Err(failed) = done {
                opened.space.discard_workspace(&agent, attempt)?;
                return Err(failed);
            }
            let changed = opened.space.put_back(&agent, attempt, &base)?;
            let note = format!("`{setup}` changed files that git does not ignore; they were put back");
            Ok(changed.then_some(note))
        })
    }

    /// Checks out the merged files and runs the set-up. Nothing of an earlier check remains.
    pub(super) async fn begin_check(&self, request: &CheckRequest) -> Result<CommandPlace, WorkspaceError> {
        let run = request.child.run();
        let (parent, commit) = (request.parent.to_string(), request.commit);
        let laid_out = self.with(&run, move |opened| {
            let space = &opened.space;
            let scratch = space.scratch(&parent, &commit)?;
            let layers = space.layers(&scratch.agent, scratch.attempt, &opened.caches);
            let objects = space.objects_of(&scratch.agent, scratch.attempt)?;
            let mount = space.open_files(&scratch.agent, scratch.attempt)?.mount();
            Ok((scratch, mount, layers.unwrap_or_default(), objects, opened.disk_limit.clone()))
        });
        let (scratch, mount, caches, objects, disk_limit) = laid_out.await?;
        let mut at = CommandPlace {
            run: run.clone(),
            dir: scratch.dir,
            mount,
            layers: None,
            objects,
            caches,
            apart: None,
            disk_limit,
            record: format!("{}-checks", request.child),
        };
        let done = self.0.set_up(&at).await;
        self.after_set_up(&run, &scratch.agent, scratch.attempt, commit, done).await?;
        if at.mount.take().is_some() {
            // What the set-up left is a lower layer of every check, so it must not be mounted any more.
            let (name, attempt) = (scratch.agent, scratch.attempt);
            at.layers = self.with(&run, move |opened| Ok(Some(opened.space.freeze(&name, attempt)?))).await?;
            at.apart = Some(scratch.apart);
        } else {
            at.apart = self.0.keeps_apart(&at.dir).await.then_some(scratch.apart);
        }
        Ok(at)
    }
}

impl Inner {
    /// Runs commands in a directory that programs see as a workspace.
    pub(super) async fn run_commands(
        &self,
        at: &CommandPlace,
        commands: Vec<(String, Duration)>,
        network: bool,
        stop: &StopSignal,
    ) -> Result<Vec<CommandResult>, WorkspaceError> {
        let commands =
            commands.into_iter().map(|(command, timeout)| HostCommand { command, timeout }).collect();
        let request = HostCommands {
            dir: at.dir.clone(),
            mount: at.mount.clone(),
            layers: at.layers.clone(),
            shown_as: PathBuf::from(WORKSPACE_SHOWN_AT),
            commands,
            protected: PROTECTED.iter().map(ToString::to_string).collect(),
            caches: at.caches.clone(),
            apart: at.apart.clone(),
            disk_limit: Some(at.disk_limit.clone()),
            network,
            shown: vec![(at.objects.clone(), PathBuf::from(OBJECTS_SHOWN_AT))],
            record: Some(self.records.process_record(&at.run, &at.record)),
        };
        run_commands(request, &self.sandbox, stop).await.map_err(|error| sandbox_error(&error))
    }

    /// Runs the set-up command of new workspaces.
    pub(super) async fn set_up(&self, at: &CommandPlace) -> Result<(), WorkspaceError> {
        let Some(setup) = &self.setup else { return Ok(()) };
        let commands = vec![(setup.clone(), SETUP_TIMEOUT)];
        let ran = self.run_commands(at, commands, false, &StopSignal::never()).await;
        let results = ran.map_err(|error| error.during(&format!("workspace.setup `{setup}`")))?;
        match results.into_iter().find(|result| !result.ok()) {
            None => Ok(()),
            Some(CommandResult { ended, output, .. }) => {
                let output: String = output.chars().take(SETUP_SHOWN_MAX_CHARS).collect();
                Err(WorkspaceError::SetUp(format!("workspace.setup `{setup}` failed ({ended}):\n{output}")))
            }
        }
    }
}
