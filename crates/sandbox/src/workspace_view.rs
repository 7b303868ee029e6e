//! How the programs of an agent see its workspace: the implementation of workspaces states it, and the sandbox mounts
//! it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_engine::ports::{CallContext, WORKSPACE_SHOWN_AT, WorkspaceResult};

use super::{BoxedCommand, Cache, DiskLimit, OBJECTS_SHOWN_AT, OverlayMount, RenamedDirs};

/// States how programs see workspaces. An implementation of the port to workspaces implements this too.
pub trait WorkspaceViews: fmt::Debug + Send + Sync {
    /// How the programs of a call see its workspace. Called once per call, before it waits for its permit.
    fn view(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView>;
    /// How programs see another agent's or a shared workspace: without anything that belongs to one agent alone.
    fn bare(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView>;
}

/// How the programs of a call see its workspace.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceView {
    /// Whether it is the user's folder, which programs see at its real path, read-only.
    pub in_folder: bool,
    /// Whether other agents share its files, so that programs can only read them.
    pub read_only: bool,
    /// The mount with the files of the workspace; `None` if they are in the directory itself.
    pub mount: Option<Arc<OverlayMount>>,
    /// The objects that the git repository of the workspace borrows.
    pub objects: Option<PathBuf>,
    /// Directories that are mounted in it.
    pub caches: Vec<Cache>,
    /// The disk limit of the run.
    pub disk_limit: Option<Arc<DiskLimit>>,
}

impl WorkspaceView {
    /// The workspace's path in the sandbox.
    pub fn shown_as<'a>(&self, call: &'a CallContext) -> &'a Path {
        if self.in_folder { &call.workspace } else { Path::new(WORKSPACE_SHOWN_AT) }
    }

    /// Which of the directories that it began with programs can rename.
    pub fn renamed_dirs(&self) -> RenamedDirs {
        self.mount.as_ref().map_or(RenamedDirs::All, |mount| mount.renamed_dirs())
    }

    /// A command in this workspace.
    pub fn command(self, argv: Vec<String>, call: &CallContext) -> BoxedCommand {
        let workspace = call.workspace.as_path();
        let command = if self.in_folder {
            BoxedCommand::in_folder(argv, workspace)
        } else {
            BoxedCommand::isolated(argv, workspace)
        };
        let read_only = command.read_only || self.read_only;
        let shown = self.objects.map(|objects| (objects, PathBuf::from(OBJECTS_SHOWN_AT)));
        let shown = shown.into_iter().collect();
        BoxedCommand {
            mount: self.mount,
            caches: self.caches,
            disk_limit: self.disk_limit,
            shown,
            read_only,
            ..command
        }
    }
}

/// Workspaces without caches, borrowed objects and disk limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainViews;

impl WorkspaceViews for PlainViews {
    fn view(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        let in_folder = !call.files.is_isolated();
        Box::pin(std::future::ready(Ok(WorkspaceView { in_folder, ..WorkspaceView::default() })))
    }

    fn bare(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        self.view(call)
    }
}
