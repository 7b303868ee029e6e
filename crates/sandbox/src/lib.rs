//! The kernel-enforced sandbox that a tool's programs run in, for tools and for the host's own commands.
//!
//! The runtime never forks: it starts an [`init`] by `posix_spawn`, whose cost does not depend on the size of the
//! runtime. The init creates user, mount, pid, ipc, uts, cgroup and, unless the network is granted, net namespaces,
//! with a process of Posse as the first in them. Programs see a read-only root without the home directory and without
//! sockets. They can write the workspace and scratch directories, which are removed afterwards. Landlock, a system call
//! filter, dropped privileges and limits are further layers.
//!
//! A call ends, and has a result, only when none of its processes is alive. If the runtime dies, its lifelines close
//! and every sandbox ends.
//!
//! Why it is like this: `docs/decisions/sandbox-without-namespaces.md`.

mod cgroup;
mod command;
mod disk_limit;
mod error;
mod exclusive;
mod holder_protocol;
mod init;
mod local_records;
mod machine;
pub mod memory;
mod mounts;
mod probe;
pub mod process;
mod process_record;
mod project;
mod run_to_end;
mod slot;
mod spec;
mod unlinked;
mod view;
mod wire;
mod workspace_view;

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

pub use command::{BoxedCommand, Cache, CacheShown, OBJECTS_SHOWN_AT};
pub use disk_limit::{DiskLimit, OVERSHOOT_MAX_BYTES};
pub use error::{SandboxError, Unavailable};
pub use holder_protocol::HolderMode;
pub use init::init;
pub use local_records::LocalRecords;
pub use machine::{Machine, Offer};
pub use mounts::{Mounts, OverlayChanges, OverlayLayers, OverlayMount, REDIRECT_MAX_BYTES, RenamedDirs};
pub use process_record::end_recorded;
pub use run_to_end::{EndReason, SHELL, TimeLimits};
pub use slot::{CallEnd, Exit, RunningCall};
pub use spec::Limits;
pub use view::{Environment, PASSED_VARIABLES};
pub use workspace_view::{PlainViews, WorkspaceView, WorkspaceViews};

use cgroup::CgroupDirs;
use exclusive::Exclusive;
use slot::Slot;
use spec::{CallSpec, Layers, Mode};
use view::View;

/// Which binary is started as an init.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InitBinary {
    /// This program. Its `main` has to call [`init`] first.
    #[default]
    ThisProgram,
    /// Another binary that calls [`init`].
    At(PathBuf),
}

impl InitBinary {
    fn program(&self) -> Result<PathBuf, Unavailable> {
        match self {
            Self::At(path) => Ok(path.clone()),
            Self::ThisProgram if init::is_wired() => Ok(PathBuf::from("/proc/self/exe")),
            Self::ThisProgram => Err(Unavailable::not_wired()),
        }
    }
}

/// The minimum isolation of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequiredIsolation {
    /// Namespaces. Without them, no sandbox is created.
    #[default]
    Namespaces,
    /// Landlock and a system call filter, where there are no namespaces. Some promises do not hold then: see
    /// [`Level::unkept`].
    Landlock,
}

/// How sandboxes are created.
#[derive(Debug, Clone, Default)]
pub struct SandboxOptions {
    /// The minimum isolation. Weaker sandboxes are refused.
    pub required: RequiredIsolation,
    /// The binary that creates them.
    pub init: InitBinary,
    /// The user's home directory. Programs see it empty except for toolchains.
    pub home: Option<PathBuf>,
    /// The environment variables of programs.
    pub environment: Environment,
    /// Further files and directories that programs may read.
    pub read: Vec<PathBuf>,
    /// Files and directories that programs may not see, wherever they are.
    pub hidden: Vec<PathBuf>,
    /// The limits of one call.
    pub limits: Limits,
    /// How many calls may run at once; `None` means one per core.
    pub concurrent: Option<usize>,
}

/// The isolation of a sandbox on this machine, proven by creating one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Whether the sandbox has its own namespaces.
    pub namespaces: bool,
    /// The version of Landlock that is applied.
    pub landlock: Option<u8>,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// The cgroup controllers that limit a call as a whole.
    pub cgroups: Vec<&'static str>,
}

impl Level {
    /// The promises that do not hold at this level.
    pub fn unkept(&self) -> &'static [&'static str] {
        if self.namespaces {
            return &[];
        }
        &[
            "no program can use the network, also if it is granted, nor talk to itself over loopback",
            "programs see the machine's processes with their command lines, and can signal yours if the kernel's \
             Landlock is older than 6",
            "programs can change the modes, times and attributes of your files whose paths they know, though they can \
             neither read nor write them: Landlock has no rule for that",
            "programs see that a path exists, with its size and times, and the machine's network in /proc/net",
            "shared memory of System V, its semaphores and queues, and those of POSIX cannot be used",
            "only root can give up for good the privileges of set-user-id programs; the kernel grants no new ones",
            "protected names that exist in the workspace can be changed",
            "as root, files of the system that come to be for root alone while Posse runs can be read",
            "a program's locks of files that it can read are visible to all programs of the machine until its call ends",
            "/tmp cannot be used: only $TMPDIR and $HOME, which are private",
            "programs see a workspace where it is on the machine, without the project's caches",
            "processes that a program started are found by their parents, not held by the kernel: if a program is \
             killed together with its init, some of them may continue",
        ]
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.namespaces { "namespaces" } else { "no-namespaces" })?;
        if let Some(version) = self.landlock {
            write!(f, " landlock-{version}")?;
        }
        if self.seccomp {
            f.write_str(" seccomp")?;
        }
        self.cgroups.iter().try_for_each(|controller| write!(f, " cgroup-{controller}"))
    }
}

/// Creates sandboxes. Cheap to clone; clones share their inits and their limit of concurrent calls.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: SandboxOptions,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Slot>>,
    view: OnceLock<View>,
    places: OnceLock<CgroupDirs>,
    proven: OnceLock<Layers>,
    layers: Exclusive,
    mounts: Mounts,
}

/// The permit of a call to run now.
#[derive(Debug)]
pub struct ExecPermit {
    /// Released when the call ends.
    #[expect(dead_code, reason = "holding it is all it is for")]
    permit: OwnedSemaphorePermit,
    /// Locks on the cache layers that this call uses exclusively.
    #[expect(dead_code, reason = "holding them is all they are for")]
    layers: Vec<OwnedMutexGuard<()>>,
}

impl Sandbox {
    /// Starts no process before the first call.
    pub fn new(options: SandboxOptions) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let concurrent = options.concurrent.unwrap_or_else(cores).clamp(1, Semaphore::MAX_PERMITS);
        let mounts = Mounts::new(options.init.clone());
        Self(Arc::new(Inner {
            options,
            turns: Arc::new(Semaphore::new(concurrent)),
            idle: Mutex::default(),
            view: OnceLock::new(),
            places: OnceLock::new(),
            proven: OnceLock::new(),
            layers: Exclusive::default(),
            mounts,
        }))
    }

    /// The isolation level of this machine. The first call creates a sandbox to find out; a failure is tried again.
    pub async fn level(&self) -> Result<Level, Unavailable> {
        let layers = if let Some(layers) = self.0.proven.get() {
            *layers
        } else {
            let inner = self.0.clone();
            let proven = tokio::task::spawn_blocking(move || inner.prove()).await;
            let failed = |error: &dyn Display| Unavailable::broken("making a sandbox", &error.to_string());
            proven.map_err(|error| failed(&error))?.map_err(|error| match error {
                SandboxError::Unavailable(unavailable) => unavailable,
                error => failed(&error),
            })?
        };
        let cgroups = self.0.places.get().map(CgroupDirs::controllers).unwrap_or_default();
        Ok(Level {
            namespaces: layers.namespaces,
            landlock: layers.landlock,
            seccomp: layers.seccomp,
            cgroups,
        })
    }

    /// Whether sandboxes have namespaces. Blocks: the first call creates one to find out.
    pub fn has_namespaces(&self) -> Result<bool, SandboxError> {
        self.0.prove().map(|layers| layers.namespaces)
    }

    /// Waits for a permit.
    pub async fn turn(&self) -> ExecPermit {
        self.acquire(&[]).await
    }

    /// Waits for a permit of a call with these caches. Two calls never change one layer at once: neither would see the
    /// other's changes, including locks of programs.
    pub async fn acquire(&self, caches: &[Cache]) -> ExecPermit {
        let wanted = caches.iter().filter_map(|cache| cache.layer.as_deref());
        // A call that waits for layers must not occupy a permit.
        let layers = self.0.layers.all(wanted).await;
        let permit = self.0.turns.clone().acquire_owned().await;
        permit.map_or_else(
            |_| unreachable!("the semaphore of turns is never closed"),
            |permit| ExecPermit { permit, layers },
        )
    }

    /// How a cache with its layer beneath this directory is mounted: not every filesystem supports layers. Mounts one
    /// to find out, in a temporary directory.
    pub async fn cache_in(&self, dir: &Path) -> Result<CacheShown, SandboxError> {
        let probe = probe::Probe::make(dir)?;
        let command = probe.command();
        let turn = self.turn().await;
        let ended = self.start(turn, command)?.ended().await?;
        ended.caches.into_iter().next().ok_or(SandboxError::Lost)
    }

    /// The overlay mounts of this process. Their holder is the same program as the inits.
    pub fn mounts(&self) -> Mounts {
        self.0.mounts.clone()
    }

    /// Starts a call. Dropping the returned value ends it at once.
    pub fn start(&self, turn: ExecPermit, command: BoxedCommand) -> Result<RunningCall, SandboxError> {
        RunningCall::start(self.0.clone(), turn, command)
    }
}

impl Inner {
    fn prove(&self) -> Result<Layers, SandboxError> {
        if let Some(layers) = self.proven.get() {
            return Ok(*layers);
        }
        let layers = match (slot::prove(self, Mode::Namespaces), self.options.required) {
            (Ok(layers), _) => layers,
            (Err(SandboxError::Unavailable(_)), RequiredIsolation::Landlock) => {
                slot::prove(self, Mode::Landlock)?
            }
            // A sandbox that was lost shows nothing about the machine, so it must not lead to a weaker one.
            (Err(error), _) => return Err(error),
        };
        Ok(*self.proven.get_or_init(|| layers))
    }

    fn view(&self) -> &View {
        self.view.get_or_init(|| View::of(&self.options))
    }

    fn places(&self) -> &CgroupDirs {
        self.places.get_or_init(CgroupDirs::find)
    }

    /// An idle init, if there is one.
    fn waiting(&self) -> Option<Slot> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, slot: Slot) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    fn program(&self) -> Result<PathBuf, Unavailable> {
        self.options.init.program()
    }

    fn spec(&self, command: &BoxedCommand) -> Result<CallSpec, SandboxError> {
        let mode = if self.prove()?.namespaces { Mode::Namespaces } else { Mode::Landlock };
        command.spec(self.view(), mode, self.options.limits)
    }
}
