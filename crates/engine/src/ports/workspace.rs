//! The port to workspaces: where agents work, and how their work comes together.
//!
//! Everything an implementation says it has done is durable before it says so. Everything may be asked for again
//! after a crash, with the same arguments, and ends in the same state: a merge happens once or not at all.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use posse_domain::event::{BaseSnapshot, CheckRecord, RunResult};
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::Approvals;

use super::{CallContext, StopSignal};

/// Why something was not done, for people and models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceProblem {
    /// In words.
    pub text: String,
    /// Whether the machine failed and not what was asked for: a helper was killed, or memory, processes or descriptors ran
    /// out. Asked again, it may be done.
    pub passing: bool,
    /// Whether what was asked for may be what made the machine fail: a command whose sandbox ended, while another sandbox
    /// started well right after. If it is so each time it is asked for, it is.
    pub suspect: bool,
}

impl WorkspaceProblem {
    /// One that may be gone when the same is asked for again.
    pub fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), passing: true, suspect: false }
    }

    /// One that may be gone when the same is asked for again; if it never is, what was asked for is its cause.
    pub fn suspect(text: impl Into<String>) -> Self {
        Self { suspect: true, ..Self::passing(text) }
    }
}

impl From<String> for WorkspaceProblem {
    fn from(text: String) -> Self {
        Self { text, passing: false, suspect: false }
    }
}

impl From<&str> for WorkspaceProblem {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for WorkspaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is awaited of a port to workspaces.
pub type WorkspaceResult<T> = BoxFuture<'static, Result<T, WorkspaceProblem>>;

/// The workspace of one attempt of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkspaceId {
    /// The agent.
    pub agent: AgentId,
    /// The attempt.
    pub attempt: u32,
}

/// A workspace that is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeWorkspace {
    /// Where.
    pub dir: PathBuf,
    /// The commit that its files are, if it was made now: where its line stands.
    pub commit: Option<ObjectId>,
    /// What the agent should know about it.
    pub notes: Vec<String>,
}

/// A workspace whose files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// The commit with everything in it.
    pub commit: ObjectId,
    /// Whether its files differ from those of the commit it was made from.
    pub changed: bool,
    /// Ignored files that are not in it; a bounded list.
    pub left_out: Vec<String>,
    /// How many there are.
    pub left_out_count: u64,
}

/// A child's change, to be merged into its parent's files.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeRequest {
    /// The child.
    pub child: AgentId,
    /// What the child was asked to do, for the commit's message.
    pub title: String,
    /// The parent's files now.
    pub ours: ObjectId,
    /// The snapshot that the child started from.
    pub base: ObjectId,
    /// The child's commit.
    pub theirs: ObjectId,
    /// The paths that the child may change; empty for all.
    pub owns: Vec<String>,
    /// What a person allowed by name: opens protected names.
    pub approvals: Approvals,
}

/// What came of a merge. Nothing of the parent was touched yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// A commit holds both sides. It may have the same files as the parent's.
    Merged {
        /// The commit.
        commit: ObjectId,
        /// Its tree.
        tree: ObjectId,
        /// How many paths of the parent it changes.
        paths: u64,
    },
    /// Both sides changed these files.
    Conflict {
        /// The files.
        files: Vec<String>,
    },
    /// The gate refused the change.
    Refused {
        /// Whether it is outside what the child owns; otherwise it is something nobody may change.
        ownership: bool,
        /// Each path with why.
        problems: Vec<String>,
    },
}

/// Command criteria to run on a merged tree.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest {
    /// The child.
    pub child: AgentId,
    /// Whose files the tree is about to become; its scratch directory is kept warm.
    pub parent: AgentId,
    /// The merged commit.
    pub commit: ObjectId,
    /// The commands, each with its time limit.
    pub commands: Vec<(String, Duration)>,
    /// Whether they may use the network.
    pub network: bool,
}

/// What bringing files up to date came upon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateOutcome {
    /// Files found with a content of neither side; they were kept as they are.
    pub kept: Vec<String>,
}

/// Makes workspaces, and merges what was done in them.
pub trait Workspaces: Send + Sync + 'static {
    /// Takes a snapshot of a folder for a new run. Touches nothing in it.
    fn begin(&self, run: &RunId, dir: &str) -> WorkspaceResult<BaseSnapshot>;

    /// Where the workspace of an attempt is, once it was made.
    fn dir(&self, of: &WorkspaceId) -> PathBuf;

    /// Makes an isolated workspace with the files of `origin`. One that was made only in part is made anew; one that
    /// is complete stays as it is.
    fn make(&self, of: WorkspaceId, origin: ObjectId) -> WorkspaceResult<MadeWorkspace>;

    /// Makes ready what the programs of a call need beside the files of its workspace. Asked for before each call and hook
    /// that runs programs, and at once done if it is there. Nothing is needed where this is not implemented.
    fn ready(&self, call: &CallContext) -> WorkspaceResult<()> {
        let _ = call;
        Box::pin(std::future::ready(Ok(())))
    }

    /// A directory with the files of a snapshot that nobody can change, shared by all who only read.
    fn shared(&self, run: &RunId, snapshot: ObjectId) -> WorkspaceResult<PathBuf>;

    /// Commits the files of a workspace onto its line; the line's end, if nothing has changed.
    fn snapshot(&self, of: WorkspaceId) -> WorkspaceResult<ObjectId>;

    /// The same, and keeps it under a ref for as long as salvage is kept. `base` is what the agent started from.
    fn salvage(&self, of: WorkspaceId, base: ObjectId) -> WorkspaceResult<Salvage>;

    /// Gates a child's change and merges it. Writes commits only.
    fn merge(&self, request: MergeRequest) -> WorkspaceResult<Merge>;

    /// Runs commands on a merged tree, in a sandbox and in a directory that nobody else sees.
    fn check(&self, request: CheckRequest, stop: StopSignal) -> WorkspaceResult<Vec<CheckRecord>>;

    /// Moves the line of a workspace from one commit to the next, and then its files, if it is on disk. Asked for
    /// again it finishes what it had begun.
    fn update(&self, of: WorkspaceId, old: ObjectId, new: ObjectId) -> WorkspaceResult<UpdateOutcome>;

    /// Makes the root's line the run's result: a branch in the person's repository, if there is one. What no agent may
    /// change, and no approval opens, is left out of it. None if it has the files that the run started from.
    fn publish(&self, run: &RunId, approvals: Approvals) -> WorkspaceResult<Option<RunResult>>;

    /// Writes a report where people find it, for `posse report` and for whoever looks into the state directory.
    fn report(&self, parent: &AgentId, path: String, text: Arc<str>) -> WorkspaceResult<()>;
}
