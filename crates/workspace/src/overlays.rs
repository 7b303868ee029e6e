//! Mounts the workspaces of this process as overlays: the shared layers of a commit, and an upper layer of the agent's.
//!
//! Whether the kernel and the filesystem of the state directory can do that is found out by making one. The files of a
//! workspace are then reached through the descriptor of its mount, and not by a path.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use posse_sandbox::{HolderMode, Mounts, OverlayChanges, OverlayLayers, OverlayMount, Sandbox, SandboxError};
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, mknodat, openat, renameat_with,
};
use rustix::io::Errno;

use super::bases::BaseState;
use super::disk::FILE_MODE;
use super::host_commands::CommandLayers;
use super::{LocalFiles, ObjectId, RepositoryError, RunSpace, WorkspaceKind, disk, upper};

/// How many workspaces stay mounted. Those that no call uses are unmounted above this, and mounted again on demand.
const MOUNTED_MAX: usize = 256;
/// How long another process may keep a workspace mounted. A process that was killed releases it at once, so one that
/// does not is stopped, and no longer the lease holder.
const HELD_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);
/// From how many files on a copy costs so much that a run says why its workspaces are no overlays.
const COPIED_FILES_NOTED: usize = 1_000;
/// How many holders are tried for one mount, in case each is killed.
const HOLDERS_TRIED_MAX: usize = 3;
/// The names in the directory of a workspace.
pub(super) const UPPER: &str = "upper";
const WORK: &str = "work.";
const LOCK: &str = "lock";

/// The overlay mounts of this process.
pub(super) struct Overlays {
    mounts: Mounts,
    /// The sandbox of the programs that work in the overlays.
    sandbox: Option<Sandbox>,
    mounted: Mutex<HashMap<PathBuf, MountedWorkspace>>,
    /// Threads mount one after the other, so that none waits for a lock that another one of this process holds.
    mounting: Mutex<()>,
    /// What is known for good. A failure that may pass is not.
    usable: Mutex<Option<Result<HolderMode, String>>>,
    /// The runs that have a note about their copies.
    noted: Mutex<HashSet<String>>,
    /// The state directory, and its path without links.
    state: OnceLock<(PathBuf, PathBuf)>,
}

/// Why no overlay could be mounted to try it.
#[derive(Debug, Clone)]
enum ProbeError {
    /// The machine does not allow it.
    Lasting(String),
    /// A helper was killed, or the machine was short of something.
    Passing(String),
}

impl ProbeError {
    fn text(self) -> String {
        match self {
            Self::Lasting(text) | Self::Passing(text) => text,
        }
    }
}

impl From<SandboxError> for ProbeError {
    fn from(error: SandboxError) -> Self {
        let text = error.to_string();
        match error {
            SandboxError::Lost | SandboxError::BroughtDown | SandboxError::Call(_) => Self::Passing(text),
            SandboxError::Unavailable(_) | SandboxError::NoProgram(_) | SandboxError::Workspace(_) => {
                Self::Lasting(text)
            }
        }
    }
}

struct MountedWorkspace {
    mount: Weak<OverlayMount>,
    /// Keeps it mounted, until it is released.
    held: Option<Arc<OverlayMount>>,
    used: Instant,
}

impl fmt::Debug for Overlays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlays").field("usable", &self.usable).finish_non_exhaustive()
    }
}

impl Overlays {
    pub(super) fn new(mounts: Mounts, sandbox: Option<Sandbox>) -> Self {
        Self {
            mounts,
            sandbox,
            mounted: Mutex::default(),
            mounting: Mutex::default(),
            usable: Mutex::default(),
            noted: Mutex::default(),
            state: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, MountedWorkspace>> {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether workspaces beneath this directory can be overlays: the privileges with which they are mounted, or why
    /// not. The first call makes one to find out.
    pub(super) fn usable(&self, state: &Path) -> Result<HolderMode, String> {
        self.probe(state).map_err(ProbeError::text)
    }

    /// The same, and whether the reason may pass.
    fn probe(&self, state: &Path) -> Result<HolderMode, ProbeError> {
        // Threads that ask at the same time get one answer.
        let mut usable = self.usable.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*usable {
            return known.clone().map_err(ProbeError::Lasting);
        }
        let tried = self.try_one(state);
        if !matches!(tried, Err(ProbeError::Passing(_))) {
            *usable = Some(tried.clone().map_err(ProbeError::text));
        }
        tried
    }

    /// Whether it is known whether they can be overlays.
    fn is_tried(&self) -> bool {
        self.usable.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn try_one(&self, state: &Path) -> Result<HolderMode, ProbeError> {
        // Without namespaces, a sandbox cannot attach a mount.
        if let Some(sandbox) = &self.sandbox
            && !sandbox.has_namespaces()?
        {
            return Err(ProbeError::Lasting("commands run without namespaces".to_owned()));
        }
        let mode = self.mounts.mode()?;
        let passing = |problem: String| ProbeError::Passing(problem);
        disk::make_dirs(state).map_err(|error| passing(error.to_string()))?;
        let real = state.canonicalize().map_err(|error| passing(format!("{}: {error}", state.display())))?;
        let state = &self.state.get_or_init(|| (state.to_owned(), real)).1;
        let probe = disk::temporary(&state.join(".overlay-probe"));
        let tried = self.try_in(&probe, mode);
        drop(disk::remove_tree(&probe));
        tried.map(|()| mode)
    }

    /// Mounts an overlay, changes a file through it, and checks that the lower layer is unchanged.
    fn try_in(&self, probe: &Path, mode: HolderMode) -> Result<(), ProbeError> {
        let at = |name: &str| probe.join(name);
        let prepare = || -> std::io::Result<()> {
            for dir in ["", "lower", "upper", "work"] {
                fs::create_dir(at(dir))?;
            }
            fs::write(at("lower/file"), "lower")
        };
        prepare().map_err(|error| ProbeError::Passing(format!("{}: {error}", probe.display())))?;
        let layers = OverlayLayers {
            lowers: vec![at("lower")],
            changes: Some(OverlayChanges { upper: at("upper"), work: at("work"), mode }),
        };
        let mount = self.mounts.mount(&layers, None, None)?;
        let changed = || -> std::io::Result<bool> {
            let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
            let mut file = File::from(openat(&*mount.root(), "file", flags, Mode::empty())?);
            file.write_all(b"upper")?;
            let (mut lower, mut upper) = (String::new(), String::new());
            File::open(at("lower/file"))?.read_to_string(&mut lower)?;
            File::open(at("upper/file"))?.read_to_string(&mut upper)?;
            Ok(lower == "lower" && upper == "upper")
        };
        match changed() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(ProbeError::Lasting("an overlay did not keep a change in its upper layer".to_owned()))
            }
            Err(error) => {
                Err(ProbeError::Lasting(format!("a file in an overlay could not be changed: {error}")))
            }
        }
    }

    /// A path beneath the state directory without links: the holder follows none.
    fn real(&self, path: &Path) -> PathBuf {
        let Some((state, real)) = self.state.get() else { return path.to_owned() };
        path.strip_prefix(state).map_or_else(|_| path.to_owned(), |beneath| real.join(beneath))
    }

    /// The mount of the workspace in `home`, if it is mounted.
    pub(super) fn get(&self, home: &Path) -> Option<Arc<OverlayMount>> {
        let mut mounted = self.lock();
        let found = mounted.get_mut(home)?;
        // One that was released while a call used it is used further.
        let mount = found.mount.upgrade().filter(|mount| !mount.is_lost())?;
        found.used = Instant::now();
        found.held = Some(mount.clone());
        Some(mount)
    }

    /// Unmounts the workspace in `home`, as soon as no call uses it.
    pub(super) fn release(&self, home: &Path) {
        let mut mounted = self.lock();
        let released = mounted.get_mut(home).and_then(|workspace| workspace.held.take());
        drop(mounted);
        // Unmounting sends a message, which takes a lock of its own.
        drop(released);
    }

    /// Mounts a workspace. Another process that has it mounted is waited for, and if it does not let go, it loses it.
    fn mount(
        &self,
        home: &Path,
        state: &Arc<BaseState>,
        mode: HolderMode,
    ) -> Result<Arc<OverlayMount>, RepositoryError> {
        let _one_by_one = self.mounting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = self.get(home) {
            return Ok(mount);
        }
        let lock = match exclusive(&home.join(LOCK))? {
            Some(lock) => lock,
            None => take_over(home, mode)?,
        };
        let mount = self.mount_locked(home, state, mode, &lock)?;
        Ok(self.insert(home, mount))
    }

    /// Mounts the files of a state for reading. They are reached as `home`.
    pub(super) fn mount_for_readers(
        &self,
        home: &Path,
        state: &Arc<BaseState>,
    ) -> Result<Arc<OverlayMount>, RepositoryError> {
        let _one_by_one = self.mounting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = self.get(home) {
            return Ok(mount);
        }
        let lowers = state.files().iter().map(|lower| self.real(lower)).collect();
        let layers = OverlayLayers { lowers, changes: None };
        for _ in 0..HOLDERS_TRIED_MAX {
            match self.mounts.mount(&layers, None, Some(state.clone())) {
                Err(SandboxError::Lost) => {}
                mounted => {
                    let mount = mounted.map_err(|error| mount_error(home, &error))?;
                    return Ok(self.insert(home, mount));
                }
            }
        }
        Err(RepositoryError::HolderLost)
    }

    /// Mounts a workspace that is being made in `making`. [`Self::keep`] takes it over under its final path.
    pub(super) fn mount_new(
        &self,
        making: &Path,
        state: &Arc<BaseState>,
        mode: HolderMode,
    ) -> Result<OverlayMount, RepositoryError> {
        let path = making.join(LOCK);
        let lock = exclusive(&path)?;
        let lock = lock.ok_or(RepositoryError::Held { path, seconds: HELD_MAX.as_secs() })?;
        self.mount_locked(making, state, mode, &lock)
    }

    /// Keeps the mount of a new workspace.
    pub(super) fn keep(&self, home: &Path, mount: OverlayMount) -> WorkspaceFiles {
        WorkspaceFiles::of(self.insert(home, mount))
    }

    fn mount_locked(
        &self,
        home: &Path,
        state: &Arc<BaseState>,
        mode: HolderMode,
        lock: &OwnedFd,
    ) -> Result<OverlayMount, RepositoryError> {
        let lowers: Vec<PathBuf> = state.layers().iter().map(|lower| self.real(lower)).collect();
        let upper = self.real(&home.join(UPPER));
        for _ in 0..HOLDERS_TRIED_MAX {
            // A holder that was killed may have used the directory.
            let work = self.real(&new_work(home)?);
            let changes = Some(OverlayChanges { upper: upper.clone(), work, mode });
            let layers = OverlayLayers { lowers: lowers.clone(), changes };
            let lock = lock.try_clone().map_err(disk::failed("locking", home))?;
            match self.mounts.mount(&layers, Some(lock), Some(state.clone())) {
                Err(SandboxError::Lost) => {}
                mounted => return mounted.map_err(|error| mount_error(home, &error)),
            }
        }
        Err(RepositoryError::HolderLost)
    }

    fn insert(&self, home: &Path, mount: OverlayMount) -> Arc<OverlayMount> {
        let mount = Arc::new(mount);
        let mut mounted = self.lock();
        let held = |workspace: &&MountedWorkspace| workspace.held.is_some();
        let unmounted = if mounted.values().filter(held).count() >= MOUNTED_MAX {
            least_used(&mounted).and_then(|unused| mounted.remove(&unused))
        } else {
            None
        };
        mounted.retain(|_, workspace| workspace.mount.strong_count() > 0);
        let workspace = MountedWorkspace {
            mount: Arc::downgrade(&mount),
            held: Some(mount.clone()),
            used: Instant::now(),
        };
        mounted.insert(home.to_owned(), workspace);
        drop(mounted);
        drop(unmounted);
        mount
    }
}

impl LocalFiles {
    /// Finds out whether workspaces can be overlays, unless that is known.
    pub(super) fn try_overlays(&self) {
        if let Some(overlays) = self.overlays.as_deref().filter(|_| self.options.kind == WorkspaceKind::Auto)
        {
            // The creation of a workspace gets the result.
            let _ = overlays.usable(&self.state);
        }
    }

    /// Checks the shared files of a run that has begun, in the background: its first workspace needs them, and until then
    /// the run waits for its model. Files that are not laid out yet are left to the workspace that needs them.
    pub fn check_ahead(&self, run: &str, commit: ObjectId) {
        if self.overlays.is_none() || self.options.kind != WorkspaceKind::Auto {
            return;
        }
        let (files, run) = (self.clone(), run.to_owned());
        let work = move || {
            if let Ok(space) = files.open(&run) {
                // What is wrong with them concerns who uses them.
                let _ = space.find_state_or_newest(&commit);
            }
        };
        // Without a thread, the first workspace checks them.
        drop(std::thread::Builder::new().name("posse-base-ahead".to_owned()).spawn(work));
    }
}

/// Whether workspaces beneath this directory can be overlays: the privileges with which they are mounted, or why not.
/// Mounts one to find out.
pub fn try_overlays(sandbox: &Sandbox, dir: &Path) -> Result<HolderMode, String> {
    Overlays::new(sandbox.mounts(), Some(sandbox.clone())).usable(dir)
}

fn least_used(mounted: &HashMap<PathBuf, MountedWorkspace>) -> Option<PathBuf> {
    let is_unused = |workspace: &MountedWorkspace| {
        workspace.held.as_ref().is_some_and(|mount| Arc::strong_count(mount) == 1)
    };
    let unused = mounted.iter().filter(|(_, workspace)| is_unused(workspace));
    unused.min_by_key(|(_, workspace)| workspace.used).map(|(home, _)| home.clone())
}

fn mount_error(home: &Path, error: &SandboxError) -> RepositoryError {
    match error {
        SandboxError::Lost => RepositoryError::HolderLost,
        _ => RepositoryError::NotMounted(format!("{} cannot be mounted: {error}", home.display())),
    }
}

/// Locks the upper layer of a workspace for one mount; `None` if another process keeps it.
fn exclusive(path: &Path) -> Result<Option<OwnedFd>, RepositoryError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path);
    let file = opened.map_err(disk::failed("opening", path))?;
    let began = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file.into())),
            Err(Errno::WOULDBLOCK) if began.elapsed() < HELD_MAX => std::thread::park_timeout(PAUSE),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(RepositoryError::io("locking", path, &errno.into())),
        }
    }
}

/// Takes a workspace from a process that was stopped while it had it mounted: the files become a copy of the upper layer,
/// and what the other process may still write when it wakes goes to the old one.
fn take_over(home: &Path, mode: HolderMode) -> Result<OwnedFd, RepositoryError> {
    let (upper, lock) = (home.join(UPPER), home.join(LOCK));
    let copy = disk::temporary(&upper);
    copy_layer(mode, &upper, &copy).map_err(disk::failed("copying", &upper))?;
    // At once, so that there is an upper layer at every moment.
    renameat_with(CWD, &copy, CWD, &upper, RenameFlags::EXCHANGE)
        .map_err(|errno| RepositoryError::io("renaming", &copy, &errno.into()))?;
    let works = works_of(home)?.into_iter().map(|(_, work)| work);
    // The lock comes last: until it is gone, a crash here leads to another take-over, and never to a second mount of
    // the layer that the stopped process has mounted.
    for path in std::iter::once(copy).chain(works).chain([lock.clone()]) {
        let away = disk::temporary(&home.join("stopped"));
        fs::rename(&path, &away).map_err(disk::failed("renaming", &path))?;
    }
    exclusive(&lock)?.ok_or(RepositoryError::Held { path: lock, seconds: HELD_MAX.as_secs() })
}

/// Copies an upper layer with its whiteouts and the kernel's attributes.
fn copy_layer(mode: HolderMode, from: &Path, to: &Path) -> io::Result<()> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    let mut dirs = Vec::new();
    while let Some((from, to)) = waiting.pop() {
        let metadata = fs::symlink_metadata(&from)?;
        let kind = metadata.file_type();
        let needed = if kind.is_dir() { 0o700 } else { 0o400 };
        if (kind.is_dir() || kind.is_file()) && metadata.permissions().mode() & needed != needed {
            fs::set_permissions(&from, fs::Permissions::from_mode(metadata.permissions().mode() | needed))?;
        }
        if kind.is_dir() {
            fs::create_dir(&to)?;
            for entry in fs::read_dir(&from)? {
                let name = entry?.file_name();
                waiting.push((from.join(&name), to.join(&name)));
            }
            upper::copy_attributes(mode, &from, &to)?;
            dirs.push((to, metadata.permissions()));
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
            fs::set_permissions(&to, metadata.permissions())?;
        } else if kind.is_char_device() {
            mknodat(CWD, &to, FileType::CharacterDevice, Mode::empty(), 0)?;
        }
        // Sockets and pipes belong to processes that have ended.
    }
    // Last, because some forbid new entries.
    dirs.into_iter().try_for_each(|(dir, permissions)| fs::set_permissions(dir, permissions))
}

/// A new work directory for the kernel. Those of earlier mounts are removed: the lock shows that none uses them.
fn new_work(home: &Path) -> Result<PathBuf, RepositoryError> {
    let mut last = 0;
    for (number, work) in works_of(home)? {
        last = last.max(number);
        disk::remove_tree(&work)?;
    }
    let work = home.join(format!("{WORK}{}", last + 1));
    fs::create_dir(&work).map_err(disk::failed("making", &work))?;
    Ok(work)
}

/// The work directories of earlier mounts, with their numbers.
fn works_of(home: &Path) -> Result<Vec<(u64, PathBuf)>, RepositoryError> {
    let entries = fs::read_dir(home).map_err(disk::failed("listing", home))?.flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix(WORK)?.parse().ok()?;
        Some((number, entry.path()))
    });
    Ok(numbered.collect())
}

/// Creates the empty upper layer of a new workspace.
pub(super) fn make_upper(home: &Path) -> Result<PathBuf, RepositoryError> {
    let upper = home.join(UPPER);
    let made = fs::create_dir(&upper)
        // Programs see its mode, which must not depend on the umask.
        .and_then(|()| fs::set_permissions(&upper, fs::Permissions::from_mode(0o755)));
    made.map_err(disk::failed("making", &upper))?;
    Ok(upper)
}

/// The files of a workspace.
#[derive(Debug, Clone)]
pub(super) enum WorkspaceFiles {
    Directory(PathBuf),
    /// The mount, and the descriptor of its root, which stays open if a new holder replaces that of the mount.
    Mount(Arc<OverlayMount>, Arc<OwnedFd>),
}

impl WorkspaceFiles {
    pub(super) fn of(mount: Arc<OverlayMount>) -> Self {
        let root = mount.root();
        Self::Mount(mount, root)
    }

    /// A path that leads to the files as long as this value lives.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Directory(dir) => dir.clone(),
            Self::Mount(_, root) => PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())),
        }
    }
}

impl WorkspaceFiles {
    /// The mount, if the files are not in a directory.
    pub(super) fn mount(self) -> Option<Arc<OverlayMount>> {
        match self {
            Self::Directory(_) => None,
            Self::Mount(mount, _) => Some(mount),
        }
    }
}

impl RunSpace {
    /// The overlays, if new workspaces are to be overlays.
    pub(super) fn usable_overlays(&self) -> Option<(&Overlays, HolderMode)> {
        let overlays = self.requested_overlays()?;
        overlays.usable(&self.spaces.state).ok().map(|mode| (overlays, mode))
    }

    /// The same for a workspace of a commit. At the first use in a process, its shared files are checked while an overlay
    /// is tried: most of the latter are waits for the holder to start.
    pub(super) fn usable_overlays_of(&self, commit: &ObjectId) -> Option<(&Overlays, HolderMode)> {
        let overlays = self.requested_overlays()?;
        if overlays.is_tried() {
            return self.usable_overlays();
        }
        std::thread::scope(|scope| {
            let tried = std::thread::Builder::new().spawn_scoped(scope, || self.usable_overlays());
            // Without a thread, one comes after the other.
            let Ok(tried) = tried else { return self.usable_overlays() };
            // A state that is as it was laid out is kept in memory. What is wrong with it concerns who uses it.
            drop(self.find_state(commit));
            tried.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The note of a run with a large project whose workspaces are copies although overlays were requested: once in a
    /// process.
    pub(super) fn note_about_copies(&self, files: usize) -> Option<String> {
        let overlays = self.requested_overlays().filter(|_| files >= COPIED_FILES_NOTED)?;
        let why = overlays.usable(&self.spaces.state).err()?;
        let mut noted = overlays.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(self.run.clone()).then(|| {
            format!(
                "each workspace of this run is a copy of all {files} files, because no overlay can be mounted: {why}; the \
                 setting `workspace.kind: copies` turns this note off"
            )
        })
    }

    fn requested_overlays(&self) -> Option<&Overlays> {
        self.spaces.overlays.as_deref().filter(|_| self.spaces.options.kind == WorkspaceKind::Auto)
    }

    /// The files of a complete workspace. An overlay is mounted, if it is not.
    pub(super) fn open_files(&self, agent: &str, attempt: u32) -> Result<WorkspaceFiles, RepositoryError> {
        let home = self.attempt_dir(agent, attempt);
        let overlays = self.spaces.overlays.as_deref();
        if let Some(mount) = overlays.and_then(|overlays| overlays.get(&home)) {
            return Ok(WorkspaceFiles::of(mount));
        }
        let mark = self.mark(agent, attempt)?.ok_or_else(|| {
            RepositoryError::Damaged(format!("there is no complete workspace in {}", home.display()))
        })?;
        let Some(mode) = mark.overlay else {
            return Ok(WorkspaceFiles::Directory(self.dir_of(agent, attempt)));
        };
        let overlays = overlays.ok_or_else(|| {
            RepositoryError::Unsupported(format!(
                "{} is an overlay, which this process cannot mount",
                home.display()
            ))
        })?;
        self.mount_files(overlays, &home, &mark.base()?, mode).map(WorkspaceFiles::of)
    }

    fn mount_files(
        &self,
        overlays: &Overlays,
        home: &Path,
        base: &ObjectId,
        mode: HolderMode,
    ) -> Result<Arc<OverlayMount>, RepositoryError> {
        // An overlay that exists is mounted whatever the settings say by now.
        overlays.probe(&self.spaces.state).map_err(|error| match error {
            ProbeError::Lasting(why) => RepositoryError::NotMounted(why),
            // The same request may succeed later.
            ProbeError::Passing(_) => RepositoryError::HolderLost,
        })?;
        let state = self.base_state(base, None)?;
        overlays.mount(home, &state, mode)
    }

    /// The mount of a complete workspace, for programs; `None` if its files are in a directory.
    pub fn mount(&self, agent: &str, attempt: u32) -> Result<Option<Arc<OverlayMount>>, RepositoryError> {
        self.open_files(agent, attempt).map(WorkspaceFiles::mount)
    }

    /// Unmounts an overlay, and returns its layers with the upper one as the topmost.
    pub(super) fn freeze(&self, agent: &str, attempt: u32) -> Result<CommandLayers, RepositoryError> {
        let home = self.attempt_dir(agent, attempt);
        let no_overlay = || RepositoryError::Damaged(format!("{} is no overlay", home.display()));
        let overlays = self.spaces.overlays.as_deref().ok_or_else(no_overlay)?;
        let mark = self.mark(agent, attempt)?.ok_or_else(no_overlay)?;
        let mode = mark.overlay.ok_or_else(no_overlay)?;
        overlays.release(&home);
        let state = self.base_state(&mark.base()?, None)?;
        let lowers = std::iter::once(home.join(UPPER)).chain(state.layers());
        let lowers = lowers.map(|lower| overlays.real(&lower)).collect();
        Ok(CommandLayers { mounts: overlays.mounts.clone(), lowers, mode, state })
    }

    /// Unmounts a workspace whose agent has ended.
    pub fn release(&self, agent: &str, attempt: u32) {
        self.spaces.calls.forget(&self.attempt_dir(agent, attempt));
        if let Some(overlays) = &self.spaces.overlays {
            overlays.release(&self.attempt_dir(agent, attempt));
        }
    }
}
