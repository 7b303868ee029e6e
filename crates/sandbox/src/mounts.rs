//! The overlay mounts of a runtime: a directory that consists of layers, as an open descriptor.
//!
//! A process of its own, the holder, creates the mounts (`init/holder.rs`). The runtime keeps a detached clone of each:
//! the file tools work beneath it, and a new holder takes it over if the old one was killed. Dropping the last handle of
//! a mount unmounts it, without waiting.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::holder_protocol::{ChangesPaths, HolderMode, HolderReply, HolderRequest, LayerPaths};
use super::init::holder;
use super::{InitBinary, SandboxError, Unavailable, wire};

/// How long a holder may take for a reply. Mounting takes less than a millisecond.
const REPLY_MAX: Duration = Duration::from_secs(20);
/// How many holders are tried for one request, in case each is killed.
const HOLDERS_TRIED_MAX: usize = 3;

/// The directories of an overlay. No part of a path is a link, because the holder follows none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverlayLayers {
    /// The lower layers, the topmost first. No file in them may change while the overlay is mounted.
    pub lowers: Vec<PathBuf>,
    /// The directories for changes. Without them, the overlay is read-only.
    pub changes: Option<OverlayChanges>,
}

/// The directories for changes to an overlay. Both are on one filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayChanges {
    /// The upper layer. Only one mount may have it.
    pub upper: PathBuf,
    /// An empty directory that no other mount has used.
    pub work: PathBuf,
    /// The privileges with which the upper layer is mounted, the same each time.
    pub mode: HolderMode,
}

/// The overlay mounts of this process. Cheap to clone.
#[derive(Clone)]
pub struct Mounts(Arc<Inner>);

struct Inner {
    program: InitBinary,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    last_id: u64,
    /// The live mounts, which a new holder takes over.
    live: HashMap<u64, Weak<MountedRoot>>,
}

/// The process, and its lifeline.
struct Holder {
    child: Child,
    socket: UnixStream,
    mode: HolderMode,
}

/// The part of a mount that a new holder replaces.
struct MountedRoot {
    /// A clone that is attached nowhere.
    root: RwLock<Arc<OwnedFd>>,
    /// Held by the holder too, so that the upper layer stays locked as long as either lives.
    lock: Option<OwnedFd>,
    /// Whether no sandbox can get a clone of it any more.
    is_lost: AtomicBool,
    /// What must live as long as the mount.
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// Which directories that a workspace began with programs can rename. For the others the kernel's error is `EXDEV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenamedDirs {
    /// All of them.
    All,
    /// Those whose path from the top is no longer than [`REDIRECT_MAX_BYTES`], and those that stay in their directory:
    /// an overlay of root records the old path in an attribute.
    ShortPaths,
    /// None: an overlay of an ordinary user.
    None,
}

/// The longest path that the kernel records for a renamed directory, unless its parameter
/// `redirect_max` was changed.
pub const REDIRECT_MAX_BYTES: usize = 256;

/// A mounted overlay. Dropping it unmounts it, when no sandbox uses it any more.
pub struct OverlayMount {
    id: u64,
    mounted: Arc<MountedRoot>,
    mounts: Mounts,
    renamed_dirs: RenamedDirs,
}

impl fmt::Debug for Mounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounts").field("program", &self.0.program).finish_non_exhaustive()
    }
}

impl fmt::Debug for OverlayMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlayMount").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Mounts {
    /// Starts nothing before the first mount.
    pub fn new(program: InitBinary) -> Self {
        Self(Arc::new(Inner { program, state: Mutex::default() }))
    }

    /// The privileges of the holder, which is started if it is not running.
    pub fn mode(&self) -> Result<HolderMode, SandboxError> {
        let mut state = self.0.lock();
        self.0.holder(&mut state).map(|holder| holder.mode)
    }

    /// The process id of the holder, if one is running.
    pub fn holder_id(&self) -> Option<u32> {
        self.0.lock().holder.as_ref().map(|holder| holder.child.id())
    }

    /// Mounts an overlay. `lock` is the lock of its upper layer: as long as the mount exists, the lock is held. So is
    /// `kept`, which keeps the lower layers from being removed. If the holder is killed meanwhile, the error is
    /// [`SandboxError::Lost`], and the work directory may be used up.
    pub fn mount(
        &self,
        layers: &OverlayLayers,
        lock: Option<OwnedFd>,
        kept: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<OverlayMount, SandboxError> {
        let paths = layers.paths()?;
        let mut state = self.0.lock();
        state.last_id += 1;
        let id = state.last_id;
        let request = HolderRequest::Mount { id, layers: paths };
        let root = self.0.request(&mut state, &request, lock.as_ref(), 1)?;
        let root = RwLock::new(Arc::new(root));
        let mounted = Arc::new(MountedRoot { root, lock, is_lost: AtomicBool::new(false), _kept: kept });
        state.live.insert(id, Arc::downgrade(&mounted));
        Ok(OverlayMount { id, mounted, mounts: self.clone(), renamed_dirs: layers.renamed_dirs() })
    }
}

impl OverlayMount {
    /// The root of the mount. A new holder may replace the descriptor; the files are the same.
    pub fn root(&self) -> Arc<OwnedFd> {
        self.mounted.root()
    }

    /// Which directories of the lower layers can be renamed.
    pub fn renamed_dirs(&self) -> RenamedDirs {
        self.renamed_dirs
    }

    /// Whether it has to be mounted again, because a holder was killed while it took the mount over.
    pub fn is_lost(&self) -> bool {
        self.mounted.is_lost.load(Ordering::Relaxed)
    }

    /// A clone for one sandbox, which attaches it.
    pub fn clone_for_call(&self) -> Result<OwnedFd, SandboxError> {
        let mut state = self.mounts.0.lock();
        self.mounts.0.request(&mut state, &HolderRequest::Clone { id: self.id }, None, HOLDERS_TRIED_MAX)
    }
}

impl Drop for OverlayMount {
    fn drop(&mut self) {
        let mut state = self.mounts.0.lock();
        state.live.remove(&self.id);
        if let Some(holder) = &state.holder {
            // Without a reply, so that nothing here waits. A holder that is gone has unmounted everything.
            let _ = wire::send(&holder.socket, &HolderRequest::Unmount { id: self.id }, &[]);
        }
    }
}

impl MountedRoot {
    fn root(&self) -> Arc<OwnedFd> {
        self.root.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl OverlayLayers {
    fn renamed_dirs(&self) -> RenamedDirs {
        let is_root = self.changes.as_ref().is_some_and(|changes| changes.mode == HolderMode::Root);
        if is_root { RenamedDirs::ShortPaths } else { RenamedDirs::None }
    }

    fn paths(&self) -> Result<LayerPaths, SandboxError> {
        let changes = match &self.changes {
            Some(OverlayChanges { upper, work, mode }) => {
                Some(ChangesPaths { upper: text(upper)?, work: text(work)?, mode: *mode })
            }
            None => None,
        };
        Ok(LayerPaths {
            lowers: self.lowers.iter().map(|lower| text(lower)).collect::<Result<_, _>>()?,
            changes,
        })
    }
}

fn text(path: &Path) -> Result<String, SandboxError> {
    let not_text = || {
        let problem = format!("the path {} is not UTF-8 text", path.display());
        SandboxError::Call(io::Error::new(io::ErrorKind::InvalidInput, problem))
    };
    path.to_str().map(str::to_owned).ok_or_else(not_text)
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request and returns the clone of the mount. If the holder was killed, a new one takes over all mounts
    /// and the request is repeated.
    fn request(
        &self,
        state: &mut State,
        request: &HolderRequest,
        lock: Option<&OwnedFd>,
        tries: usize,
    ) -> Result<OwnedFd, SandboxError> {
        for _ in 0..tries {
            let holder = match self.holder(state) {
                // It was killed while it started.
                Err(SandboxError::Call(_) | SandboxError::Lost) => continue,
                holder => holder?,
            };
            let fds: Vec<BorrowedFd<'_>> = lock.into_iter().map(AsFd::as_fd).collect();
            match holder.ask(request, &fds) {
                Ok(reply) => return reply.map_err(Into::into),
                Err(_) => state.holder = None,
            }
        }
        Err(SandboxError::Lost)
    }

    /// The running holder. A new one takes over the mounts of the one that ended.
    fn holder<'a>(&self, state: &'a mut State) -> Result<&'a Holder, SandboxError> {
        if state.holder.is_none() {
            let holder = Holder::start(&self.program)?;
            state.live.retain(|_, mounted| mounted.strong_count() > 0);
            for (id, mounted) in &state.live {
                let Some(mounted) = mounted.upgrade() else { continue };
                let root = mounted.root();
                let fds: Vec<BorrowedFd<'_>> =
                    std::iter::once(root.as_fd()).chain(mounted.lock.iter().map(AsFd::as_fd)).collect();
                match holder.ask(&HolderRequest::Adopt { id: *id }, &fds)? {
                    Ok(clone) => {
                        *mounted.root.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(clone);
                    }
                    // Its holder was killed while it took the mount over. The files are intact.
                    Err(_) => mounted.is_lost.store(true, Ordering::Relaxed),
                }
            }
            state.holder = Some(holder);
        }
        state.holder.as_ref().ok_or(SandboxError::Lost)
    }
}

impl Holder {
    fn start(program: &InitBinary) -> Result<Self, SandboxError> {
        let mut refused = SandboxError::Lost;
        for mode in HolderMode::possible() {
            let holder = Self::spawn(program, *mode)?;
            wire::send(&holder.socket, &HolderRequest::Begin(*mode), &[])?;
            match holder.receive()?.0 {
                HolderReply::Done => return Ok(holder),
                HolderReply::Failed(failure) => refused = Unavailable::from_broken(&failure).into(),
            }
        }
        Err(refused)
    }

    fn spawn(program: &InitBinary, mode: HolderMode) -> Result<Self, SandboxError> {
        let program = program.program()?;
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(REPLY_MAX))?;
        socket.set_write_timeout(Some(REPLY_MAX))?;
        let child = Command::new(&program)
            .arg(holder::VERB)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Unavailable::no_init(&program.display().to_string(), &error))?;
        Ok(Self { child, socket, mode })
    }

    /// An error means that the holder is gone.
    fn ask(
        &self,
        request: &HolderRequest,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Result<OwnedFd, Unavailable>> {
        wire::send(&self.socket, request, fds)?;
        let (reply, fds) = self.receive()?;
        match (reply, fds.into_iter().next()) {
            (HolderReply::Done, Some(clone)) => Ok(Ok(clone)),
            (HolderReply::Failed(failure), _) => Ok(Err(Unavailable::from_broken(&failure))),
            // The kernel drops a descriptor for which this process has no room.
            (HolderReply::Done, None) => Ok(Err(Unavailable::broken("receiving a mount", "no room for it"))),
        }
    }

    fn receive(&self) -> io::Result<(HolderReply, Vec<OwnedFd>)> {
        wire::receive::<HolderReply>(&self.socket)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It unmounts everything when its end of the socket closes.
        let _ = self.socket.shutdown(Shutdown::Both);
        // It may be stopped, and has nothing to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
