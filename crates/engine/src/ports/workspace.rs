//! The port to workspaces: the lease holder creates the files that agents work on, and merges their changes, through
//! it.
//!
//! | operation | guarantee |
//! |---|---|
//! | all | a completed operation is durable; repeated after a crash with the same arguments, it ends in the same state |
//! | `begin`, `snapshot`, `salvage` | the commit has the files on disk; nothing in the user's folder changes |
//! | `make`, `shared` | all files of a commit, or none; the layout on disk is up to the implementation |
//! | `merge` | writes commits only; `update` moves one work ref by compare and swap, then updates the files: a merge happens once or not at all |
//! | `commit_call` | the commit has the files on disk; nothing of it is durable before the caller has journalled it |
//! | `restore_calls` | the work ref names the last restored commit, and the repository has all its objects |
//! | `check` | commands see the merged files, and change nothing that another check or agent sees |
//! | `publish` | at most one new ref in the user's repository |

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::event::{BaseSnapshot, CheckRecord, FilesCommit, RunResult};
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::Approvals;
use posse_domain::request::ContinuedFiles;
use thiserror::Error;
use tokio::sync::watch;

use super::{CallContext, StopSignal};

/// Why an operation on files failed. Nothing was lost, and nothing is half done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// The machine failed, not the request: a helper was killed, or memory, processes or descriptors ran out. The same
    /// request may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The machine failed, and the request may be the cause: the sandbox of a command ended, while another sandbox
    /// started well right after it. If every try ends like this, the request is the cause.
    #[error("{0}")]
    Suspect(String),
    /// The disk is full. The same request succeeds when a user has made space.
    #[error("{0}")]
    Full(String),
    /// Another process has held a lock for too long.
    #[error("{0}")]
    Held(String),
    /// The request cannot be served as it is: a project that is too large or of an unsupported kind, a missing program,
    /// a target that is not empty. The text states what to change.
    #[error("{0}")]
    Unsupported(String),
    /// The user's set-up command failed.
    #[error("{0}")]
    SetUp(String),
    /// A file, ref or object differs from what was written.
    #[error("{0}")]
    Damaged(String),
}

impl WorkspaceError {
    /// Whether the same request may succeed when it is repeated at once.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Suspect(_) => true,
            Self::Full(_) | Self::Held(_) | Self::Unsupported(_) | Self::SetUp(_) | Self::Damaged(_) => false,
        }
    }

    /// Whether the machine failed and not the request: the run stops as it is, and a resumed run asks again.
    pub fn is_of_machine(&self) -> bool {
        self.may_pass() || matches!(self, Self::Full(_))
    }

    /// The same error, with the failed operation `what` before its text.
    pub fn during(self, what: &str) -> Self {
        let text = format!("{what}: {self}");
        match self {
            Self::Unavailable(_) => Self::Unavailable(text),
            Self::Suspect(_) => Self::Suspect(text),
            Self::Full(_) => Self::Full(text),
            Self::Held(_) => Self::Held(text),
            Self::Unsupported(_) => Self::Unsupported(text),
            Self::SetUp(_) => Self::SetUp(text),
            Self::Damaged(_) => Self::Damaged(text),
        }
    }
}

/// The future of an operation on workspaces.
pub type WorkspaceResult<T> = BoxFuture<'static, Result<T, WorkspaceError>>;

/// The workspace of one attempt of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkspaceId {
    /// The agent that works in the workspace.
    pub agent: AgentId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// A workspace that is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeWorkspace {
    /// The directory of its files.
    pub dir: PathBuf,
    /// The commit of its files and its work ref, if this call created the workspace.
    pub commit: Option<ObjectId>,
    /// Notes for the agent about the workspace.
    pub notes: Vec<String>,
}

/// The salvage of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// The commit with all files of the workspace.
    pub commit: ObjectId,
    /// Whether its files differ from those of the commit that it was created from.
    pub changed: bool,
    /// Ignored files that are not in the commit, a bounded list.
    pub left_out: Vec<String>,
    /// The number of ignored files that are not in the commit.
    pub left_out_count: u64,
}

/// A child's change that is to be merged into its parent's files.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeRequest {
    /// The child whose change is merged.
    pub child: AgentId,
    /// The child's task, for the commit message.
    pub title: String,
    /// The commit of the parent's current files.
    pub ours: ObjectId,
    /// The snapshot that the child started from.
    pub base: ObjectId,
    /// The commit with the child's changes.
    pub theirs: ObjectId,
    /// The paths that the child may change. Empty means all.
    pub owns: Vec<String>,
    /// The protected names that the user allowed.
    pub approvals: Approvals,
}

/// The result of a merge. The parent's files and its work ref are not changed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// A commit with the changes of both sides. Its files may equal those of the parent.
    Merged {
        /// The merge commit.
        commit: ObjectId,
        /// The tree of the commit.
        tree: ObjectId,
        /// The number of the parent's paths that the merge changes.
        paths: u64,
    },
    /// Both sides changed these files.
    Conflict {
        /// The conflicting paths.
        files: Vec<String>,
    },
    /// The gate refused the change.
    Refused {
        /// The most serious reason.
        code: RefusedCode,
        /// `path: reason`, a bounded list.
        problems: Vec<String>,
    },
}

/// Why the gate refuses a change, most serious reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedCode {
    /// A path that could become `.git` somewhere, or lead out of the tree.
    DotGit,
    /// A new or changed submodule.
    Submodule,
    /// A symbolic link that leaves the tree or leads into `.git`.
    Symlink,
    /// An entry of a kind that git does not write.
    Mode,
    /// A new name with characters that control a terminal or change the direction of text.
    Name,
    /// A protected name that the user did not allow.
    Protected,
    /// A path that the child does not own.
    Ownership,
}

impl RefusedCode {
    /// The name of the reason in events and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DotGit => "GIT_PATH",
            Self::Submodule => "SUBMODULE",
            Self::Symlink => "SYMLINK_ESCAPE",
            Self::Mode => "ENTRY_KIND",
            Self::Name => "UNPRINTABLE_NAME",
            Self::Protected => "PROTECTED_PATH",
            Self::Ownership => "OWNERSHIP_VIOLATION",
        }
    }
}

/// Command criteria to run on a merged tree.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest {
    /// The child whose work is checked.
    pub child: AgentId,
    /// The parent whose files the tree will become. Its checks share a scratch directory, which keeps build caches.
    pub parent: AgentId,
    /// The merge commit.
    pub commit: ObjectId,
    /// The commands, each with its timeout.
    pub commands: Vec<(String, Duration)>,
    /// Whether the commands may use the network.
    pub network: bool,
}

/// The result of an update of a workspace's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateOutcome {
    /// Files whose content was neither the old nor the new one. They were not changed.
    pub conflicts_left: Vec<String>,
    /// The number of files that were written or removed.
    pub written: usize,
}

/// How far a long operation on the files of a run is. Ephemeral, like a delta: nothing may rely on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesProgress {
    /// The run that waits for the operation.
    pub run: String,
    /// The operation.
    pub operation: FilesOperation,
    /// How many files are done.
    pub done: u64,
    /// How many files there are.
    pub total: u64,
    /// How many bytes are done, also of a file that is not.
    pub bytes: u64,
}

/// The operations on files that can take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesOperation {
    /// The files of the user's folder are read for the snapshot that a run begins with.
    Read,
    /// The files of a commit are laid out on disk, once for all workspaces of a project.
    LayOut,
}

/// The newest report of progress; `None` while no operation takes long.
pub type FilesProgressReceiver = watch::Receiver<Option<FilesProgress>>;

/// Creates workspaces, and merges the changes that agents make in them.
pub trait Workspaces: Send + Sync + 'static {
    /// Takes a snapshot of a folder for a new run. Changes nothing in the folder.
    fn begin(&self, run: &RunId, dir: &str) -> WorkspaceResult<BaseSnapshot>;

    /// Begins a new run with files of an earlier one, of the same tenant, instead of those of the user's folder. The new
    /// run keeps them, whatever becomes of the earlier one. An implementation that keeps no files keeps this default.
    fn continue_from(
        &self,
        run: &RunId,
        earlier: &RunId,
        files: ContinuedFiles,
    ) -> WorkspaceResult<BaseSnapshot> {
        let _ = (run, files);
        let problem = format!("the files of run {earlier} are not kept");
        Box::pin(std::future::ready(Err(WorkspaceError::Unsupported(problem))))
    }

    /// Reports of operations that take long, of all runs of this process. An implementation that reports nothing keeps
    /// this default.
    fn progress(&self) -> Option<FilesProgressReceiver> {
        None
    }

    /// The directory of an attempt's workspace, which must have been created.
    fn dir(&self, of: &WorkspaceId) -> PathBuf;

    /// Creates an isolated workspace with the files of `origin`. An incomplete workspace is created again. A complete
    /// one is not changed.
    fn make(&self, of: WorkspaceId, origin: ObjectId) -> WorkspaceResult<MadeWorkspace>;

    /// Provides everything that the programs of a call need beside the files of the workspace. Called before each call
    /// and hook that runs programs. Returns at once if everything exists. An implementation that needs nothing keeps
    /// this default.
    fn ready(&self, call: &CallContext) -> WorkspaceResult<()> {
        let _ = call;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Frees what an agent that has ended occupied beside its files, such as a mount. Its files stay. Returns at once. An
    /// implementation that occupies nothing keeps this default.
    fn release(&self, of: &WorkspaceId) {
        let _ = of;
    }

    /// Frees what the files of a run that this process no longer executes occupy, such as those from
    /// [`Workspaces::shared`]. Returns at once. An implementation that occupies nothing keeps this default.
    fn release_run(&self, run: &RunId) {
        let _ = run;
    }

    /// A directory with the files of a snapshot that no program can change, shared by all agents that only read.
    fn shared(&self, run: &RunId, snapshot: ObjectId) -> WorkspaceResult<PathBuf>;

    /// Commits the files of a workspace to its work ref. If nothing has changed, returns the current commit of the work
    /// ref.
    fn snapshot(&self, of: WorkspaceId) -> WorkspaceResult<ObjectId>;

    /// Commits what a call changed in a workspace, apart from its work ref. Returns `None` if the files equal those of
    /// the last such commit, or of the work ref if that is newer. An implementation that keeps no files of calls keeps
    /// this default.
    fn commit_call(&self, of: WorkspaceId) -> WorkspaceResult<Option<FilesCommit>> {
        let _ = of;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The journalled commits of an attempt's calls, oldest first, of which the machine may have lost files: those that
    /// must be restored before [`Workspaces::make`]. Empty if the workspace is as its process left it.
    fn lost_calls(&self, of: WorkspaceId, commits: Vec<FilesCommit>) -> WorkspaceResult<Vec<FilesCommit>> {
        let _ = (of, commits);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Restores the commits that [`Workspaces::lost_calls`] returned, from the bytes of their packs.
    fn restore_calls(&self, of: WorkspaceId, lost: Vec<(FilesCommit, Vec<u8>)>) -> WorkspaceResult<()> {
        let _ = (of, lost);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Commits the files of a workspace like [`Workspaces::snapshot`], and keeps the commit under a ref as long as
    /// salvage is kept. `base` is the commit that the agent started from.
    fn salvage(&self, of: WorkspaceId, base: ObjectId) -> WorkspaceResult<Salvage>;

    /// Checks a child's change against the gate and merges it. Writes only commits.
    fn merge(&self, request: MergeRequest) -> WorkspaceResult<Merge>;

    /// Runs commands on a merged tree, in a sandbox and in a directory that no agent sees.
    fn check(&self, request: CheckRequest, stop: StopSignal) -> WorkspaceResult<Vec<CheckRecord>>;

    /// Moves the work ref of a workspace from `old` to `new`, then updates its files, if the workspace is on disk. A
    /// second call completes an interrupted update.
    fn update(&self, of: WorkspaceId, old: ObjectId, new: ObjectId) -> WorkspaceResult<UpdateOutcome>;

    /// Publishes the root's work ref as the run's result: a branch in the user's repository, if there is one. Changes
    /// to protected names without an approval are omitted. Returns `None` if the result equals the files that the run
    /// started from.
    fn publish(&self, run: &RunId, approvals: Approvals) -> WorkspaceResult<Option<RunResult>>;
}
