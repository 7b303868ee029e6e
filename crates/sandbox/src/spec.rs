//! The specification of a call, which the runtime sends to the init, and the init's messages.

use serde::{Deserialize, Serialize};

use super::command::CacheShown;

/// What isolates the programs of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Namespaces, and the other layers.
    Namespaces,
    /// The other layers alone.
    Landlock,
}

/// One call. All paths are absolute unless documented otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallSpec {
    pub(super) mode: Mode,
    /// The program and its arguments. Empty to create the sandbox and leave it.
    pub(super) argv: Vec<String>,
    /// The whole environment.
    pub(super) env: Vec<(String, String)>,
    /// The one writable directory on disk, unless it is read-only. No part of it is a link.
    pub(super) workspace: String,
    /// Where programs see the workspace.
    pub(super) shown_as: String,
    /// The working directory, as the program sees it.
    pub(super) workdir: String,
    /// Whether it shares the machine's network.
    pub(super) network: bool,
    /// Visible, read-only paths with their mount points. No part of a source is a link.
    pub(super) read: Vec<(String, String)>,
    /// Sources among these that root sees like any other user.
    pub(super) as_others: Vec<String>,
    /// Links of the machine's root directory.
    pub(super) links: Vec<(String, String)>,
    /// Hidden paths beneath visible ones, by their paths in the sandbox.
    pub(super) hidden: Vec<String>,
    /// Empty, writable directories that are removed afterwards.
    pub(super) scratch: Vec<String>,
    /// Further files and directories of the machine, read-only, with their mount points. No part of a source is a link.
    pub(super) shown: Vec<(String, String)>,
    /// Names in the workspace that cannot be changed, relative to it.
    pub(super) protected: Vec<String>,
    /// The layer for changes to the workspace, if the workspace itself must stay unchanged.
    pub(super) changes: Option<String>,
    /// Directories that are mounted in the workspace.
    pub(super) caches: Vec<CacheSpec>,
    pub(super) limits: Limits,
    /// The file in which the init records its processes.
    pub(super) record: Option<String>,
    /// Whether the workspace is read-only.
    pub(super) read_only: bool,
    /// Which descriptors follow that of its output.
    pub(super) further: ExtraDescriptors,
}

/// The optional descriptors of a call, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExtraDescriptors {
    /// Its standard input.
    pub(super) input: bool,
    /// Its standard error, separate from its output.
    pub(super) errors: bool,
    /// A mount that is its workspace. It is attached nowhere.
    pub(super) workspace: bool,
}

/// A directory that is mounted in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CacheSpec {
    /// The directory on the machine. No part of it is a link.
    pub(super) lower: String,
    /// The mount point, relative to the workspace.
    pub(super) at: String,
    /// A layer with earlier changes, which stays unchanged.
    pub(super) below: Option<String>,
    /// The layer for changes.
    pub(super) layer: Option<String>,
}

/// The resource limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Concurrent processes and threads.
    pub processes: u64,
    /// Memory of all its processes, in bytes.
    pub memory_bytes: u64,
    /// Largest file it may write.
    pub file_bytes: u64,
    /// Open files of each process.
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

/// What an init reports about a call, on the call's own socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InitMessage {
    /// How the caches were mounted, in order.
    Caches(Vec<CacheShown>),
    /// The sandbox is complete; the program is about to start.
    Ready(Layers),
    /// The sandbox could not be created.
    Broken(SetupFailure),
    /// The program could not be started.
    NoProgram(String),
    /// The program exited with this code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
}

/// The step of creating the sandbox that failed, and its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetupFailure {
    pub(super) step: String,
    pub(super) errno: Option<i32>,
    pub(super) error: String,
}

/// The layers that a sandbox has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layers {
    pub(super) namespaces: bool,
    /// The version of Landlock that was applied; `None` if the kernel does not have it.
    pub(super) landlock: Option<u8>,
    /// Whether system calls are filtered.
    pub(super) seccomp: bool,
}

/// What an init reports on its own socket at the end of a call: none of its processes is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallEnded {
    /// Why the call could not even begin.
    pub(super) broken: Option<SetupFailure>,
}

/// Sent by the runtime on a call's socket: end it gracefully.
pub(super) const TERMINATE: u8 = b'T';
/// Pause it, and let it continue.
pub(super) const PAUSE: u8 = b'P';
pub(super) const CONTINUE: u8 = b'C';
