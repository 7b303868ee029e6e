//! The port to the files of runs for front ends: their results, their salvage, and their storage.
//!
//! [`Workspaces`](super::Workspaces) serves the lease holder while it executes a run. This port serves every other
//! process, and the time after the end of the run. An embedder implements both over the same storage.
//!
//! | operation | guarantee |
//! |---|---|
//! | `diff`, `conflicts`, `has_branch`, `salvages`, `list_files`, `read_files`, `disk_bytes`, `export_objects` | read only: no file, ref or object changes |
//! | `apply` | writes the whole change or nothing; a second call completes an interrupted one, and then changes nothing |
//! | `undo_apply` | takes back what the last `apply` wrote, or nothing; a second call completes an interrupted one |
//! | `restore` | writes into a directory that is new or empty, never over a file |
//! | `write_reports` | every report is in its file when it returns; a file that has it already is not written again |
//! | `check_shared` | reads every file that workspaces share; changes no file of a run |
//! | `clean`, `remove` | remove only files of ended runs that are reachable elsewhere; files that cannot be inspected stay, with a reason; with `dry_run` nothing changes |
//! | `import_objects` | all objects of the transfer are durable and reachable when it returns, or none is used; importing the same transfer again changes nothing |
//!
//! The transfer from `export_objects` contains every object that an event refers to (a base, a snapshot, a merge, a
//! salvage). A store that keeps these bytes can therefore move a run to another machine, which imports them and creates
//! workspaces from them.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::Approvals;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{WorkspaceError, WorkspaceId, WorkspaceResult};

/// The format of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffOptions {
    /// Unified, line counts, or names only.
    pub form: DiffForm,
    /// Whether the text has terminal colours.
    pub colour: bool,
}

/// The formats of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiffForm {
    /// Unified. Binary files are only named.
    #[default]
    Patch,
    /// The changed files with the number of changed lines.
    Stat,
    /// The changed files, each with a letter for the kind of change.
    NameStatus,
}

/// The newer side of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffEnd {
    /// This commit.
    Commit(ObjectId),
    /// The commit of a call, whose objects are in these packs of the journal.
    Call {
        /// The commit.
        commit: ObjectId,
        /// Its pack and those that it needs, oldest first.
        packs: Vec<Vec<u8>>,
    },
    /// The commit that the work ref of a workspace names now, or the older side if there is no work ref.
    WorkRef(WorkspaceId),
}

/// The result of applying a run to the user's folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// The number of files that were written or removed.
    pub files: usize,
    /// The number of those files that contain both the run's change and the user's.
    pub merged: usize,
    /// The number of files that equalled the result already.
    pub already: usize,
}

/// Limit of files that a plan of an apply names.
pub const PLANNED_FILES_MAX: usize = 10_000;

/// What an apply would do to a file of the user's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedWrite {
    /// The file does not exist yet.
    Add,
    /// The file is replaced by the run's.
    Change,
    /// The file gets the run's change beside the user's.
    Merge,
    /// The file is removed.
    Remove,
}

/// A file that an apply would write or remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path in the user's folder, in one line.
    pub path: String,
    /// What would be done to it.
    pub write: PlannedWrite,
}

/// What an apply would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyPlan {
    /// The files that it would write or remove, at most [`PLANNED_FILES_MAX`].
    pub files: Vec<PlannedFile>,
    /// The numbers of files, as the apply would return them.
    pub summary: ApplySummary,
}

/// The change of a run that is applied to the user's folder.
#[derive(Debug, Clone, PartialEq)]
pub enum AppliedWork {
    /// The result of the run. The journal names this commit; if another one is stored, that is damage. `None` if the
    /// result is only known by its work ref.
    Result(Option<ObjectId>),
    /// The work of one agent, whether or not it is part of the result. It must pass the gate, except that the user, who
    /// chooses it, is not bound by what the agent owns.
    Agent {
        /// The agent.
        agent: AgentId,
        /// The commit that it started from.
        base: ObjectId,
        /// The commit that contains its files.
        commit: ObjectId,
        /// The protected names that the user allowed.
        approvals: Approvals,
    },
}

/// Three commits of a merge that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictQuery {
    /// The parent's files.
    pub ours: ObjectId,
    /// The files that the child started from.
    pub base: ObjectId,
    /// The child's files.
    pub theirs: ObjectId,
}

/// A file that two sides changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileConflict {
    /// The path of the file.
    pub path: String,
    /// What keeps the two changes from being merged.
    pub kind: ConflictKind,
    /// The lines that both sides changed, a bounded list.
    pub hunks: Vec<ConflictHunk>,
    /// The number of further hunks.
    pub more_hunks: usize,
}

/// What keeps two changes of one path from being merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both sides changed the same lines.
    Lines,
    /// Our side does not have the file any more, and theirs changed it.
    OursDeleted,
    /// Our side changed the file, and theirs deleted it.
    TheirsDeleted,
    /// Binary, too large, a link or a submodule: something that is not merged by lines.
    NotText,
    /// Our side has something else at this path or above it.
    InTheWay,
}

/// Lines that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictHunk {
    /// The number of the first line in our file, from 1.
    pub line: usize,
    /// Our lines.
    pub ours: ConflictLines,
    /// Their lines.
    pub theirs: ConflictLines,
}

/// The lines of one side of a hunk, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConflictLines {
    /// The first lines, without line ends.
    pub lines: Vec<String>,
    /// The number of further lines.
    pub more: usize,
}

/// Files in conflict, a bounded list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileConflicts {
    /// The first files.
    pub files: Vec<FileConflict>,
    /// The number of further files.
    pub more: usize,
}

impl fmt::Display for FileConflicts {
    /// The names of the files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        f.write_str(&names.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// Why a change was not applied, or not taken back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The user changed these files too. Nothing was written.
    #[error("these files were changed since the run began, and nothing was written: {0}")]
    Conflict(FileConflicts),
    /// The user changed these files after they were applied. Nothing was written.
    #[error("these files were changed since they were applied, and nothing was written: {0}")]
    ChangedSince(FileConflicts),
    /// The gate refuses the work of an agent. Nothing was written.
    #[error("an agent may not change this, and nothing was written: {}", .problems.join("; "))]
    Refused {
        /// `path: reason`, a bounded list.
        problems: Vec<String>,
    },
    /// There is no apply that could be taken back: it never was, or was taken back already.
    #[error("it is not applied")]
    NotApplied,
    /// A file changed while the result was being written. A second call of `apply` continues.
    #[error("{file} changed while the result was being written, after {written} other files")]
    Moved {
        /// The path of the file that changed.
        file: String,
        /// The number of files that were written before it.
        written: usize,
    },
    /// The run's files could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// A salvage that the journal refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageQuery {
    /// The workspace that was salvaged.
    pub of: WorkspaceId,
    /// The commit that its agent started from.
    pub base: Option<ObjectId>,
    /// The commit that contains its files.
    pub commit: Option<ObjectId>,
}

/// The part of a salvage that is still stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SalvageState {
    /// The number of files that differ from the files that the agent started from. `None` if the salvage was removed.
    pub files: Option<u64>,
    /// The commit that contains the workspace's `.git` as plain files. `None` if the agent did not change it.
    pub git: Option<ObjectId>,
}

/// Salvaged work that was written into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredWork {
    /// The attempt whose work was restored.
    pub attempt: u32,
    /// The number of restored files.
    pub files: u64,
}

/// The kinds of files in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file without the executable bit.
    Plain,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link. Its content is the target.
    Symlink,
}

/// A file of a tree, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The path within the tree.
    pub path: PathBuf,
    /// Plain, executable or symbolic link.
    pub kind: FileKind,
    /// The object that contains its content.
    pub object: ObjectId,
    /// The size of its content.
    pub bytes: u64,
}

/// The files of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// All files of the tree.
    pub files: Vec<ListedFile>,
    /// Entries that are not files, each with the reason.
    pub omitted: Vec<String>,
}

/// Whether a run that the store knows may still change its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPhase {
    /// It has not ended, or a process still holds its lease.
    Open,
    /// No process will write its files again.
    Ended,
}

/// What `clean` may remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcOptions {
    /// Only report what would be removed.
    pub dry_run: bool,
    /// Minimum age of the workspaces of an ended run.
    pub workspaces_older_than: Duration,
    /// Minimum age of salvaged work.
    pub salvage_older_than: Duration,
    /// The runs of the store, by id. The files of every other run are kept: its store may be another one.
    pub runs: HashMap<String, RunPhase>,
    /// The time from which ages are counted.
    pub now: SystemTime,
}

/// Something that a cleaning kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptItem {
    /// The run, if all of its files were kept.
    pub whole_run: Option<String>,
    /// A description of what was kept.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl KeptItem {
    /// All files of a run.
    pub fn whole_run(run: &str, why: impl Into<String>) -> Self {
        Self { whole_run: Some(run.to_owned()), what: format!("run {run}"), why: why.into() }
    }

    /// A part of the files of a run or of a project.
    pub fn part(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { whole_run: None, what: what.into(), why: why.into() }
    }
}

/// The result of a cleaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcSummary {
    /// The paths and refs that were removed, or would be removed.
    pub removed: Vec<String>,
    /// What was kept, and why.
    pub kept: Vec<KeptItem>,
    /// The bytes on disk that were freed, or would be freed.
    pub freed_bytes: u64,
}

impl GcSummary {
    /// Adds the result of another cleaning.
    pub fn add(&mut self, other: Self) {
        self.removed.extend(other.removed);
        self.kept.extend(other.kept);
        self.freed_bytes += other.freed_bytes;
    }
}

/// Objects of a run as bytes that another machine can import. The format belongs to the implementation and has a
/// version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectTransfer(pub Vec<u8>);

/// The report of a sub-agent as a file for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// The parent of the sub-agent. Each parent has a folder of its own.
    pub parent: AgentId,
    /// The path beneath this folder, from the contract.
    pub path: String,
    /// The report, or why there is none.
    pub text: String,
}

/// Results and storage of the files of runs.
pub trait RunFiles: Send + Sync + 'static {
    /// The folder from which the run's files came, and to which its result is applied.
    fn folder(&self, run: &RunId) -> WorkspaceResult<PathBuf>;

    /// The difference between two states of the run's files, as text.
    fn diff(
        &self,
        run: &RunId,
        from: ObjectId,
        to: DiffEnd,
        options: DiffOptions,
    ) -> WorkspaceResult<Vec<u8>>;

    /// Applies a change of the run to the folder from which its files came.
    fn apply(&self, run: &RunId, work: AppliedWork) -> BoxFuture<'static, Result<ApplySummary, ApplyError>>;

    /// What `apply` would write now. An error is the one that `apply` would return.
    fn check_apply(
        &self,
        run: &RunId,
        work: AppliedWork,
    ) -> BoxFuture<'static, Result<ApplyPlan, ApplyError>>;

    /// Takes back what the last `apply` of an agent's work wrote; the root stands for the result of the run.
    fn undo_apply(&self, of: &AgentId) -> BoxFuture<'static, Result<ApplySummary, ApplyError>>;

    /// The agents of these runs whose work is applied, so that an undo has something to take back; the newest apply is
    /// first, and a root stands for the result of its run.
    fn applied(&self, runs: Vec<RunId>) -> WorkspaceResult<Vec<AgentId>>;

    /// The files that a merge of these commits does not merge, with the lines of both sides.
    fn conflicts(&self, run: &RunId, merge: ConflictQuery) -> WorkspaceResult<FileConflicts>;

    /// Whether the user's repository has this branch.
    fn has_branch(&self, run: &RunId, branch: &str) -> WorkspaceResult<bool>;

    /// The stored part of each of these salvages, in their order.
    fn salvages(&self, run: &RunId, of: Vec<SalvageQuery>) -> WorkspaceResult<Vec<SalvageState>>;

    /// Writes salvaged files of an agent into a directory that is new or empty: of this attempt, or of its last.
    fn restore(&self, agent: &AgentId, attempt: Option<u32>, target: &Path) -> WorkspaceResult<RestoredWork>;

    /// The files of a commit or tree of the run.
    fn list_files(&self, run: &RunId, tree: ObjectId) -> WorkspaceResult<FileListing>;

    /// The contents of these files, in their order.
    fn read_files(&self, run: &RunId, files: Vec<ListedFile>) -> WorkspaceResult<Vec<Vec<u8>>>;

    /// The disk usage of the run beside the journal. `None` if it has no files.
    fn disk_bytes(&self, run: &RunId) -> WorkspaceResult<Option<u64>>;

    /// Compares the files that workspaces share with the commits that they belong to, by content: those of the run's
    /// project, or of all projects. Returns what differs. A shared state that differs is not used again; no work is in
    /// it, because agents cannot change it.
    fn check_shared(&self, run: Option<&RunId>) -> WorkspaceResult<Vec<String>>;

    /// Writes reports of the run to files beneath its state directory, where users open them with any program, and
    /// returns their folder. The journal has their texts, so no file is needed by Posse.
    fn write_reports(&self, run: &RunId, reports: Vec<ReportFile>) -> WorkspaceResult<PathBuf>;

    /// Removes the files of ended runs that are old enough and that are reachable elsewhere or not needed any more.
    fn clean(&self, options: GcOptions) -> WorkspaceResult<GcSummary>;

    /// Removes all files of one run, or with `dry_run` reports what that would free. Fails if the run has work that is
    /// kept nowhere else.
    fn remove(&self, run: &RunId, dry_run: bool) -> WorkspaceResult<GcSummary>;

    /// Exports everything that these objects of the run reach and `bases` do not, with the data that another machine
    /// needs to create workspaces from them.
    fn export_objects(
        &self,
        run: &RunId,
        objects: Vec<ObjectId>,
        bases: Vec<ObjectId>,
    ) -> WorkspaceResult<ObjectTransfer>;

    /// Imports a transfer that another machine exported. The bases of the transfer must be present already.
    fn import_objects(&self, run: &RunId, transfer: ObjectTransfer) -> WorkspaceResult<()>;
}
