//! What one call in a sandbox is, as the runtime tells it to the init.

use serde::{Deserialize, Serialize};

use super::command::{CacheShown, Isolation};

/// What keeps the programs of a call in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Namespaces of their own, and the other layers.
    Namespaces,
    /// The other layers alone.
    Landlock,
}

/// One call. All paths are absolute unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallSpec {
    /// What keeps it in.
    pub(super) mode: Mode,
    /// The program and its arguments; empty to make the box, and leave it.
    pub(super) argv: Vec<String>,
    /// The whole environment.
    pub(super) env: Vec<(String, String)>,
    /// The one place on disk that can be written, if any can. No part of it is a link.
    pub(super) workspace: String,
    /// Where programs see it.
    pub(super) shown_as: String,
    /// Where the program starts, as it sees it.
    pub(super) workdir: String,
    /// Whose the workspace is.
    pub(super) isolation: Isolation,
    /// Whether it shares the machine's network.
    pub(super) network: bool,
    /// What is visible and cannot be changed, and where it appears. No part of a source is a link.
    pub(super) read: Vec<(String, String)>,
    /// Sources among these that root sees as anybody else does.
    pub(super) as_others: Vec<String>,
    /// Links of the machine's root directory.
    pub(super) links: Vec<(String, String)>,
    /// What is hidden though it is beneath something visible, by its paths in the box.
    pub(super) hidden: Vec<String>,
    /// Empty directories that can be written and are gone afterwards.
    pub(super) scratch: Vec<String>,
    /// Further files and directories of the machine, read-only, and where they appear. No part of a source is a link.
    pub(super) shown: Vec<(String, String)>,
    /// Names in the workspace that cannot be changed, relative to it.
    pub(super) protected: Vec<String>,
    /// What holds the changes to the workspace, if that itself is to stay as it is.
    pub(super) changes: Option<String>,
    /// Directories that appear in the workspace.
    pub(super) caches: Vec<CacheSpec>,
    /// What it may use.
    pub(super) limits: Limits,
    /// Where the init writes down that it is alive.
    pub(super) record: Option<String>,
    /// Whether the workspace can only be read.
    pub(super) read_only: bool,
    /// The descriptors that follow that of its output.
    pub(super) further: ExtraStreams,
}

/// Streams of a program that it need not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExtraStreams {
    /// Its standard input.
    pub(super) input: bool,
    /// Its standard error, apart from its output.
    pub(super) errors: bool,
}

/// A directory that appears in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CacheSpec {
    /// What it is on the machine. No part of it is a link.
    pub(super) lower: String,
    /// Where it appears, relative to the workspace.
    pub(super) at: String,
    /// A layer with earlier changes to it, which stay as they are.
    pub(super) below: Option<String>,
    /// What holds the changes to it.
    pub(super) layer: Option<String>,
}

/// What one call may use of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: u64,
    /// Memory of all its processes, in bytes.
    pub memory_bytes: u64,
    /// Largest file it may write.
    pub file_bytes: u64,
    /// Files it may have open at once, in each process.
    pub open_files: u64,
    /// Size of its scratch directories together.
    pub scratch_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 1024,
            memory_bytes: 4 << 30,
            file_bytes: 4 << 30,
            open_files: 16 * 1024,
            scratch_bytes: 1 << 30,
        }
    }
}

/// What an init tells about a call, on the call's own socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InitMessage {
    /// The protected names that are not there: for whoever has to look again if the init is lost.
    Missing(Vec<String>),
    /// How the caches appear, in their order.
    Caches(Vec<CacheShown>),
    /// The box stands; the program is about to start.
    Ready(Layers),
    /// The box could not be made.
    Broken(SetupFailure),
    /// The program could not be started.
    NoProgram(String),
    /// The program ended with this code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
}

/// Which step of making the box failed, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetupFailure {
    pub(super) step: String,
    pub(super) errno: Option<i32>,
    pub(super) error: String,
}

/// The layers that a box has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layers {
    /// Whether it has namespaces.
    pub(super) namespaces: bool,
    /// The version of Landlock that was applied; none if the kernel has none.
    pub(super) landlock: Option<u8>,
    /// Whether system calls are filtered.
    pub(super) seccomp: bool,
}

/// What an init tells on its own socket when a call is over: nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallEnded {
    /// Why the call could not even begin.
    pub(super) broken: Option<SetupFailure>,
    /// Protected names that had appeared in the workspace and were put aside.
    pub(super) refused: Vec<ProtectedChange>,
}

/// Something that a call made under a protected name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedChange {
    /// The protected name, relative to the workspace.
    pub name: String,
    /// Where it is now; none if it could not be put aside.
    pub now: Option<String>,
}

/// What the runtime says on a call's socket: end it gracefully.
pub(super) const TERMINATE: u8 = b'T';
/// Pause it, and let it go on.
pub(super) const PAUSE: u8 = b'P';
pub(super) const CONTINUE: u8 = b'C';
