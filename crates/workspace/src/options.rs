//! The options and limits of workspaces, set by the settings.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::sync;

/// Limit of files in a project, unless settings change it.
pub const DEFAULT_MAX_FILES: u64 = 300_000;
/// Largest file of a project, unless settings change it.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;
/// Limit of bytes that a run may add, unless settings change it.
pub const DEFAULT_MAX_RUN_BYTES: u64 = 20 * 1024 * 1024 * 1024;

/// Every point at which [`WorkspaceOptions::faults`] is called.
pub const FAULT_POINTS: &[&str] = &[
    "workspace.begin.between_objects",
    "workspace.begin.before_pack",
    "workspace.begin.after_pack",
    "workspace.begin.after_ref",
    "workspace.base.before_files",
    "workspace.base.before_rename",
    "workspace.fold.ended",
    "workspace.base_check.ended",
    "workspace.make.before_files",
    "workspace.make.after_files",
    "workspace.make.after_ref",
    "workspace.torn.before_rename",
    "workspace.snapshot.before_pack",
    "workspace.snapshot.after_pack",
    "workspace.salvage.before_ref",
    "workspace.remove.after_rename",
    "workspace.merge.after_objects",
    "workspace.update.after_ref",
    "workspace.update.after_staging",
    "workspace.update.between_paths",
    "workspace.publish.before_ref",
    "workspace.apply.after_intent",
    "workspace.apply.after_staging",
    "workspace.apply.between_paths",
    "workspace.gc.after_rename",
    "workspace.remove_run.after_refs",
    "workspace.import.before_pack",
    "workspace.restore.before_pack",
];

/// The beginning of the names of those points that only overlays pass.
pub const OVERLAY_POINTS: &str = "workspace.base";

/// Called at named points, where tests can kill the process.
pub type Faults = Arc<dyn Fn(&'static str) + Send + Sync>;

/// What a workspace consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkspaceKind {
    /// An overlay over shared layers, where the kernel and the filesystem of the state directory can mount one, else a
    /// copy.
    #[default]
    Auto,
    /// A copy of all files.
    Copies,
}

/// How workspaces are created.
#[derive(Clone)]
pub struct WorkspaceOptions {
    /// What they consist of.
    pub kind: WorkspaceKind,
    /// The git program: an absolute path, or a plain name.
    pub git: PathBuf,
    /// The user's home, with their git settings (global ignores, line endings). `None`: only the repository's settings
    /// apply.
    pub home: Option<PathBuf>,
    /// Globs of ignored files that are copied into workspaces.
    pub copy: Vec<String>,
    /// Limit of files in a project.
    pub max_files: u64,
    /// Largest file of a project.
    pub max_file_bytes: u64,
    /// Limit of bytes that a run may add: all its workspaces, and the new content of one snapshot.
    pub max_run_bytes: u64,
    /// Overrides the kernel's boot id: tests simulate a reboot with it.
    pub boot: Option<String>,
    /// Called at the [`FAULT_POINTS`].
    pub faults: Option<Faults>,
}

impl WorkspaceOptions {
    /// The id of this boot; `None` if the kernel does not report it.
    pub(crate) fn boot(&self) -> Option<String> {
        self.boot.clone().or_else(sync::boot_id)
    }

    pub(crate) fn hit(&self, point: &'static str) {
        if let Some(faults) = &self.faults {
            faults(point);
        }
    }
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            kind: WorkspaceKind::Auto,
            git: PathBuf::from("git"),
            home: None,
            copy: Vec::new(),
            max_files: DEFAULT_MAX_FILES,
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            max_run_bytes: DEFAULT_MAX_RUN_BYTES,
            boot: None,
            faults: None,
        }
    }
}

impl fmt::Debug for WorkspaceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, git, home, copy, max_files, max_file_bytes, max_run_bytes, boot, faults } = self;
        f.debug_struct("WorkspaceOptions")
            .field("kind", kind)
            .field("git", git)
            .field("home", home)
            .field("copy", copy)
            .field("max_files", max_files)
            .field("max_file_bytes", max_file_bytes)
            .field("max_run_bytes", max_run_bytes)
            .field("boot", boot)
            .field("faults", &faults.is_some())
            .finish()
    }
}
