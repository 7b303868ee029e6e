//! Opens the workspaces of calls for tools.

use std::fmt;
use std::path::Path;

use super::{DirHandle, FileError};

/// Opens workspaces by the path that their calls name. The files of a workspace need not be at that path: they may be a
/// mount that only this process has open.
pub trait WorkspaceDirs: fmt::Debug + Send + Sync {
    /// Opens a workspace. May block.
    fn open(&self, workspace: &Path) -> Result<DirHandle, FileError>;
    /// Opens a workspace from memory. None if that would block.
    fn open_cached(&self, workspace: &Path) -> Result<Option<DirHandle>, FileError>;
}

/// Workspaces whose files are at their paths.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainDirs;

impl WorkspaceDirs for PlainDirs {
    fn open(&self, workspace: &Path) -> Result<DirHandle, FileError> {
        DirHandle::open(workspace)
    }

    fn open_cached(&self, workspace: &Path) -> Result<Option<DirHandle>, FileError> {
        DirHandle::open_cached(workspace)
    }
}
