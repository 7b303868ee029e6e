//! Computes how programs in the sandbox see the workspaces of this machine, and opens them for file tools.

use std::io;
use std::path::Path;
use std::sync::Arc;

use posse_engine::ports::{CallContext, CallFiles, WorkspaceResult};
use posse_files::{DirHandle, FileError, WorkspaceDirs};
use posse_sandbox::{OverlayMount, WorkspaceView, WorkspaceViews};

use super::local_workspaces::LocalWorkspaces;
use super::run_files::blocking;

impl WorkspaceViews for LocalWorkspaces {
    fn view(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        let CallFiles::Workspace(of) = call.files.clone() else { return self.bare(call) };
        self.with(&of.agent.run(), move |opened| {
            let agent = of.agent.to_string();
            let layers = opened.space.layers(&agent, of.attempt, &opened.caches);
            Ok(WorkspaceView {
                in_folder: false,
                read_only: false,
                mount: opened.space.open_files(&agent, of.attempt)?.mount(),
                objects: Some(opened.space.objects_of(&agent, of.attempt)?),
                caches: layers.unwrap_or_default(),
                disk_limit: Some(opened.disk_limit.clone()),
            })
        })
    }

    fn bare(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        if let CallFiles::Workspace(of) = call.files.clone() {
            return self.with(&of.agent.run(), move |opened| {
                let agent = of.agent.to_string();
                let mount = opened.space.open_files(&agent, of.attempt)?.mount();
                let objects = Some(opened.space.objects_of(&agent, of.attempt)?);
                let disk_limit = Some(opened.disk_limit.clone());
                Ok(WorkspaceView { mount, objects, disk_limit, ..WorkspaceView::default() })
            });
        }
        // Shared files have no repository. The folder of a replay is beneath the state directory, which the sandbox
        // hides.
        let isolated = call.files.is_isolated();
        if !isolated {
            let in_folder = !self.0.is_hidden(&call.workspace);
            return Box::pin(std::future::ready(Ok(WorkspaceView { in_folder, ..WorkspaceView::default() })));
        }
        let (own, workspace, run) = (self.clone(), call.workspace.clone(), call.agent.run());
        blocking(move || {
            let opened = own.0.open_run(run.as_str()).ok();
            let disk_limit = opened.map(|opened| opened.disk_limit.clone());
            let mount = own.0.mount_at(&workspace)?;
            Ok(WorkspaceView { read_only: true, mount, disk_limit, ..WorkspaceView::default() })
        })
    }
}

impl WorkspaceDirs for LocalWorkspaces {
    fn open(&self, workspace: &Path) -> Result<DirHandle, FileError> {
        match DirHandle::open(workspace) {
            Err(FileError::Workspace { source }) if source.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        // The files of an overlay are not at its path.
        let mount = self.0.mount_at(workspace).map_err(|error| broken(&error.to_string()))?;
        let mount = mount.ok_or_else(|| FileError::Workspace { source: io::ErrorKind::NotFound.into() })?;
        at(mount)
    }

    fn open_cached(&self, workspace: &Path) -> Result<Option<DirHandle>, FileError> {
        if let Some(mount) = self.0.mounted(workspace) {
            return at(mount).map(Some);
        }
        match DirHandle::open_cached(workspace) {
            Err(FileError::Workspace { source }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened,
        }
    }
}

fn at(mount: Arc<OverlayMount>) -> Result<DirHandle, FileError> {
    let root = mount.root().try_clone().map_err(|source| FileError::Workspace { source })?;
    Ok(DirHandle::at(root, mount))
}

fn broken(problem: &str) -> FileError {
    FileError::Workspace { source: io::Error::other(problem.to_owned()) }
}
