//! The kernel-enforced box that a tool's programs run in.
//!
//! The runtime never forks: it starts an [`init`] by `posix_spawn`, which costs the same however large the runtime
//! is. The init makes user, mount, pid, ipc, uts, cgroup and, unless the network is granted, net namespaces, with a
//! process of ours as the first in them. Programs see a read-only root without the home directory and without
//! sockets, and can write the workspace and scratch directories that are gone afterwards. Landlock, a filter of
//! system calls, dropped privileges and limits are further layers.
//!
//! A call is over when nothing of it is alive, and only then is there a result. If the runtime dies, its lifelines
//! close and every box ends.
//!
//! Why it is like this: `docs/decisions/sandbox-without-namespaces.md`.

mod cgroup;
mod command;
mod disk_limit;
mod error;
mod exclusive;
mod init;
mod machine;
pub mod memory;
mod probe;
pub mod process;
mod process_record;
mod project;
mod slot;
mod spec;
mod unlinked;
mod view;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

pub use command::{BoxedCommand, Cache, CacheShown, Isolation, OBJECTS_SHOWN_AT, WORKSPACE_SHOWN_AT};
pub use disk_limit::{DiskLimit, OVERSHOOT_MAX_BYTES};
pub use error::{SandboxError, Unavailable};
pub use init::init;
pub use machine::{Machine, Offer};
pub use process_record::end_recorded;
pub use slot::{CallEnd, Exit, RunningCall};
pub use spec::{Limits, ProtectedChange};
pub use view::{Environment, PASSED_VARIABLES};

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
    /// Another one that does.
    At(PathBuf),
}

/// What a box must at least be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequiredIsolation {
    /// Namespaces; without them there is no box.
    #[default]
    Namespaces,
    /// Landlock and a filter of system calls, where there are no namespaces. Not all promises hold then: see
    /// [`Level::unkept`].
    Landlock,
}

/// How boxes are made.
#[derive(Debug, Clone, Default)]
pub struct SandboxOptions {
    /// What they must at least be made of.
    pub required: RequiredIsolation,
    /// The binary that makes them.
    pub init: InitBinary,
    /// The person's home directory, which programs see empty but for toolchains.
    pub home: Option<PathBuf>,
    /// What programs find in their environment.
    pub environment: Environment,
    /// Further files and directories that programs may read.
    pub read: Vec<PathBuf>,
    /// Files and directories that they may not, wherever they are.
    pub hidden: Vec<PathBuf>,
    /// What one call may use.
    pub limits: Limits,
    /// How many calls may run at once; none is one for each core.
    pub concurrent: Option<usize>,
}

/// What a box is made of on this machine, proven by making one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Whether it has namespaces of its own.
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
            "only root can give up for good the privileges of set-user-id programs; the kernel gives nobody new ones",
            "protected names that exist in the workspace can be changed",
            "as root, files of the system that come to be for root alone while Posse runs can be read",
            "a program's lock on a file that it can read is seen by all programs of the machine, until its call ends",
            "/tmp cannot be used: only $TMPDIR and $HOME, which are private",
            "programs see a workspace where it is on the machine, without the project's caches",
            "what a program started is found by its parents, not kept by the kernel: killed together with its init, \
             something may go on",
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

/// Makes boxes. Cheap to clone; clones share their inits and their limit of calls at once.
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
}

/// A call's turn: it may run now.
#[derive(Debug)]
pub struct ExecPermit {
    /// Given back when the call is over.
    #[expect(dead_code, reason = "holding it is all it is for")]
    permit: OwnedSemaphorePermit,
    /// The layers of caches that are this call's alone.
    #[expect(dead_code, reason = "holding them is all they are for")]
    layers: Vec<OwnedMutexGuard<()>>,
}

impl Sandbox {
    /// Nothing is started before the first call.
    pub fn new(options: SandboxOptions) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let concurrent = options.concurrent.unwrap_or_else(cores).clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Inner {
            options,
            turns: Arc::new(Semaphore::new(concurrent)),
            idle: Mutex::default(),
            view: OnceLock::new(),
            places: OnceLock::new(),
            proven: OnceLock::new(),
            layers: Exclusive::default(),
        }))
    }

    /// What boxes are made of here. The first time one is made to find out; a failure is tried again.
    pub async fn level(&self) -> Result<Level, Unavailable> {
        let layers = if let Some(layers) = self.0.proven.get() {
            *layers
        } else {
            let inner = self.0.clone();
            let proven = tokio::task::spawn_blocking(move || inner.prove()).await;
            proven.unwrap_or_else(|error| Err(Unavailable::broken("making a sandbox", &error.to_string())))?
        };
        let cgroups = self.0.places.get().map(CgroupDirs::controllers).unwrap_or_default();
        Ok(Level {
            namespaces: layers.namespaces,
            landlock: layers.landlock,
            seccomp: layers.seccomp,
            cgroups,
        })
    }

    /// Waits for a turn.
    pub async fn turn(&self) -> ExecPermit {
        self.acquire(&[]).await
    }

    /// Waits for a turn of a call that has these caches. Two calls never change one layer at once: each would miss
    /// what the other does, locks of programs included.
    pub async fn acquire(&self, caches: &[Cache]) -> ExecPermit {
        let wanted = caches.iter().filter_map(|cache| cache.layer.as_deref());
        // A call that waits for another one's layers takes nobody's place.
        let layers = self.0.layers.all(wanted).await;
        let permit = self.0.turns.clone().acquire_owned().await;
        permit.map_or_else(
            |_| unreachable!("the semaphore of turns is never closed"),
            |permit| ExecPermit { permit, layers },
        )
    }

    /// How a cache appears here whose layer is beneath this directory: not every filesystem can carry one. Makes one
    /// to find out, in a directory of its own that is gone afterwards.
    pub async fn cache_in(&self, dir: &Path) -> Result<CacheShown, SandboxError> {
        let probe = probe::Probe::make(dir)?;
        let command = probe.command();
        let turn = self.turn().await;
        let ended = self.start(turn, command)?.ended().await?;
        ended.caches.into_iter().next().ok_or(SandboxError::Lost)
    }

    /// Starts a call. Dropping what is returned ends it at once.
    pub fn start(&self, turn: ExecPermit, command: BoxedCommand) -> Result<RunningCall, SandboxError> {
        RunningCall::start(self.0.clone(), turn, command)
    }
}

impl Inner {
    fn prove(&self) -> Result<Layers, Unavailable> {
        if let Some(layers) = self.proven.get() {
            return Ok(*layers);
        }
        let layers = match (slot::prove(self, Mode::Namespaces), self.options.required) {
            (Ok(layers), _) => layers,
            (Err(_), RequiredIsolation::Landlock) => slot::prove(self, Mode::Landlock)?,
            (Err(unavailable), RequiredIsolation::Namespaces) => return Err(unavailable),
        };
        Ok(*self.proven.get_or_init(|| layers))
    }

    fn view(&self) -> &View {
        self.view.get_or_init(|| View::of(&self.options))
    }

    fn places(&self) -> &CgroupDirs {
        self.places.get_or_init(CgroupDirs::find)
    }

    /// An init that waits for a call, if there is one.
    fn waiting(&self) -> Option<Slot> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, slot: Slot) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    fn program(&self) -> Result<PathBuf, Unavailable> {
        match &self.options.init {
            InitBinary::At(path) => Ok(path.clone()),
            InitBinary::ThisProgram if init::is_wired() => Ok(PathBuf::from("/proc/self/exe")),
            InitBinary::ThisProgram => Err(Unavailable::not_wired()),
        }
    }

    fn spec(&self, command: &BoxedCommand) -> Result<CallSpec, SandboxError> {
        let mode = if self.prove()?.namespaces { Mode::Namespaces } else { Mode::Landlock };
        command.spec(self.view(), mode, self.options.limits)
    }
}
