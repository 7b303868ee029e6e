//! How the programs that an agent starts see its workspace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use posse_engine::ports::CallContext;
use posse_sandbox::{BoxedCommand, Cache, DiskLimit, Isolation, OBJECTS_SHOWN_AT, WORKSPACE_SHOWN_AT};

/// Says how programs see workspaces.
pub trait WorkspaceViews: fmt::Debug + Send + Sync {
    /// Whose the workspaces are: all agents are told the same about their commands.
    fn isolation(&self) -> Isolation;
    /// How the programs of a call see its workspace. Asked once for each call, before it waits for its turn.
    fn view(&self, call: &CallContext) -> ViewFuture;
    /// How programs see a workspace that is another agent's, or shared: without anything that is kept for its owner.
    fn bare(&self, call: &CallContext) -> ViewFuture;
}

/// What is awaited of a look: how programs see a workspace, or why they cannot.
pub type ViewFuture = BoxFuture<'static, Result<WorkspaceView, String>>;

/// How the programs of a call see its workspace.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceView {
    /// Whose the workspace is. An agent's own is always at the same path.
    pub isolation: Isolation,
    /// The objects that the git repository of the workspace borrows.
    pub objects: Option<PathBuf>,
    /// Directories that appear in it.
    pub caches: Vec<Cache>,
    /// What the files of the run may take on disk.
    pub disk_limit: Option<Arc<DiskLimit>>,
}

impl WorkspaceView {
    /// Where programs see the workspace.
    pub(crate) fn shown_as<'a>(&self, call: &'a CallContext) -> &'a Path {
        match self.isolation {
            Isolation::Own => Path::new(WORKSPACE_SHOWN_AT),
            Isolation::InPlace => &call.workspace,
        }
    }

    /// A command there.
    pub(crate) fn command(self, argv: Vec<String>, call: &CallContext) -> BoxedCommand {
        let workspace = call.workspace.as_path();
        let command = match self.isolation {
            Isolation::Own => BoxedCommand::isolated(argv, workspace),
            Isolation::InPlace => BoxedCommand::in_place(argv, workspace),
        };
        let shown = self.objects.map(|objects| (objects, PathBuf::from(OBJECTS_SHOWN_AT)));
        let shown = shown.into_iter().collect();
        BoxedCommand { caches: self.caches, disk_limit: self.disk_limit, shown, ..command }
    }
}

/// Every agent works in the person's folder, and programs see it where it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct InPlace;

impl WorkspaceViews for InPlace {
    fn isolation(&self) -> Isolation {
        Isolation::InPlace
    }

    fn view(&self, _: &CallContext) -> ViewFuture {
        Box::pin(std::future::ready(Ok(WorkspaceView::default())))
    }

    fn bare(&self, call: &CallContext) -> ViewFuture {
        self.view(call)
    }
}
