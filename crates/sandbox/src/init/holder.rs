//! The holder: a small process that mounts the overlays of workspaces and keeps them attached.
//!
//! An ordinary user can mount only in a user namespace, which a process with several threads cannot enter. So the
//! runtime starts this process. It attaches each mount to a directory of its own, because older kernels clone attached
//! mounts only, and passes clones to the runtime: one for the file tools, and one for each sandboxed call. All clones of
//! a mount have the same superblock, so locks and caches agree.
//!
//! Mounts are volatile: a sync through the overlay does nothing, and an unmount does not wait for the disk. The runtime
//! commits the files of workspaces to a repository, which is what a machine crash leaves.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{AtFlags, Mode};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::holder_protocol::{HolderMode, HolderReply, HolderRequest, LayerPaths};
use super::super::spec::SetupFailure;
use super::super::wire;
use super::mounting::{self, OverlayChanges};
use super::{broken, limits, reached};

/// The hidden verb that turns a binary into a holder.
pub(in super::super) const VERB: &str = "__mounts";

/// Size of the directory that mounts are attached to. It has mount points only.
const TOP_SIZE: &str = "16m";

/// A mount and the lock of its upper layer.
struct HeldMount {
    mount: OwnedFd,
    _lock: Option<OwnedFd>,
}

/// The directory that mounts are attached to.
struct Holder {
    top: OwnedFd,
    mode: HolderMode,
    held: HashMap<u64, HeldMount>,
}

/// Serves the runtime until it closes its end.
pub(super) fn serve(socket: &UnixStream) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::thread::set_name(c"posse-mounts")?;
    let Some((HolderRequest::Begin(mode), _)) = wire::receive::<HolderRequest>(socket)? else {
        return Ok(());
    };
    let mut holder = match Holder::begin(mode) {
        Ok(holder) => holder,
        Err(failure) => return wire::send(socket, &HolderReply::Failed(failure), &[]),
    };
    wire::send(socket, &HolderReply::Done, &[])?;
    while let Some((request, fds)) = wire::receive::<HolderRequest>(socket)? {
        if let HolderRequest::Unmount { id } = request {
            holder.unmount(id);
            continue;
        }
        match holder.clone_for(&request, fds) {
            Ok(clone) => wire::send(socket, &HolderReply::Done, &[clone.as_fd()])?,
            Err(failure) => wire::send(socket, &HolderReply::Failed(failure), &[])?,
        }
    }
    Ok(())
}

impl Holder {
    fn begin(mode: HolderMode) -> Result<Self, SetupFailure> {
        let step = |step: &'static str| move |error: io::Error| broken(step, &error);
        let ids = (rustix::process::geteuid(), rustix::process::getegid());
        raise_open_files();
        match mode {
            HolderMode::Root => new_namespaces(libc::CLONE_NEWNS),
            HolderMode::UserNamespace => new_namespaces(libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        }
        .map_err(step("making the namespaces"))?;
        if mode == HolderMode::UserNamespace {
            limits::map_ids(ids.0, ids.1).map_err(step("mapping the user"))?;
        }
        let top = || -> io::Result<OwnedFd> {
            // A filesystem that the user unmounts must not stay busy here; no mount of this process leaves it.
            mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            let top = mounting::memory("0700", TOP_SIZE)?;
            // Paths from the root still lead to the machine's files, because a lookup begins beneath this mount.
            mounting::put(&top, reached::open_dir("/")?)?;
            rustix::process::fchdir(&top)?;
            Ok(top)
        };
        Ok(Self { top: top().map_err(step("making a place for mounts"))?, mode, held: HashMap::new() })
    }

    fn clone_for(&mut self, request: &HolderRequest, fds: Vec<OwnedFd>) -> Result<OwnedFd, SetupFailure> {
        let mut fds = fds.into_iter();
        let id = match request {
            HolderRequest::Mount { id, layers } => {
                let mount = self.overlay(layers)?;
                self.attach(*id, mount, fds.next())?;
                *id
            }
            HolderRequest::Adopt { id } => {
                let missing = || broken("taking over a mount", &io::ErrorKind::InvalidInput.into());
                let mount = fds.next().ok_or_else(missing)?;
                self.attach(*id, mount, fds.next())?;
                *id
            }
            HolderRequest::Clone { id } => *id,
            HolderRequest::Begin(_) | HolderRequest::Unmount { .. } => {
                return Err(broken("receiving a request", &io::ErrorKind::InvalidInput.into()));
            }
        };
        let held = self.held.get(&id);
        let held = held.ok_or_else(|| broken("finding a mount", &io::ErrorKind::NotFound.into()))?;
        mounting::copy_of(&held.mount).map_err(|error| broken("cloning a mount", &error))
    }

    fn overlay(&self, layers: &LayerPaths) -> Result<OwnedFd, SetupFailure> {
        let opened = |path: &String| {
            reached::open_dir(path).map_err(|error| broken(&format!("opening the layer {path}"), &error))
        };
        let lowers: Vec<OwnedFd> = layers.lowers.iter().map(opened).collect::<Result<_, _>>()?;
        let changes = match &layers.changes {
            Some(paths) => {
                if paths.mode == HolderMode::Root && self.mode != HolderMode::Root {
                    let needed = io::Error::from(io::ErrorKind::PermissionDenied);
                    return Err(broken("mounting an overlay that was root's", &needed));
                }
                let (upper, work) = (opened(&paths.upper)?, opened(&paths.work)?);
                Some(OverlayChanges { upper, work, renames: paths.mode == HolderMode::Root })
            }
            None => None,
        };
        mounting::layers(&lowers, changes.as_ref()).map_err(|error| broken("mounting an overlay", &error))
    }

    fn attach(&mut self, id: u64, mount: OwnedFd, lock: Option<OwnedFd>) -> Result<(), SetupFailure> {
        let name = id.to_string();
        let attached = || -> io::Result<()> {
            rustix::fs::mkdirat(&self.top, &*name, Mode::RWXU)?;
            mounting::put(&mount, reached::open_subdir(&self.top, name.as_ref())?)
        };
        if let Err(error) = attached() {
            let _ = rustix::fs::unlinkat(&self.top, &*name, AtFlags::REMOVEDIR);
            return Err(broken("attaching a mount", &error));
        }
        self.held.insert(id, HeldMount { mount, _lock: lock });
        Ok(())
    }

    fn unmount(&mut self, id: u64) {
        let Some(held) = self.held.remove(&id) else { return };
        // The lock is released after the mount is gone.
        let HeldMount { mount, _lock } = held;
        drop(mount);
        let name = id.to_string();
        let _ = unmount(&*name, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        let _ = rustix::fs::unlinkat(&self.top, &*name, AtFlags::REMOVEDIR);
    }
}

/// Allows as many open files as the user may have: each mount is one, and its lock another.
fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
}

#[expect(
    unsafe_code,
    reason = "entering namespaces has no safe form; sound because this process has one thread"
)]
fn new_namespaces(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes an integer only, and no other thread shares what is separated.
    if unsafe { libc::unshare(flags) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
