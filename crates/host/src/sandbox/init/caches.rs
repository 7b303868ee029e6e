//! Directories that appear in the workspace and are not in it: as an overlay, read-only, or not at all.
//!
//! A program of an earlier call may have put anything at their places, and one of another call may be doing so now.
//! So each place is gone to part by part, without following a link, and what is mounted is mounted on the directory
//! that was reached, not on a path. Nothing that goes wrong here fails the call: its result says what is missing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::super::command::CacheShown;
use super::super::spec::CacheSpec;
use super::mounts::{Attributes, old, set_attributes_of};

/// What is in a layer: the changes, and what the kernel needs beside them.
const UPPER: &str = "upper";
const WORK: &str = "work";
/// The mode of a directory that is made to be mounted on.
const PLACE_MODE: u32 = 0o755;

/// How the caches of a call appear.
#[derive(Default)]
pub(super) struct Caches {
    /// In the order of the call's.
    pub(super) shown: Vec<CacheShown>,
    /// The layers, locked as long as the call lasts.
    locked: Vec<OwnedFd>,
}

impl Caches {
    /// Mounts each one. `/proc` and the machine's root are there.
    pub(super) fn mount(workspace: &Path, caches: &[CacheSpec]) -> Self {
        let mut all = Self::default();
        for cache in caches {
            let shown = all.show(workspace, cache).unwrap_or_else(CacheShown::Absent);
            all.shown.push(shown);
        }
        all
    }

    /// None of them, where nothing can be mounted.
    pub(super) fn none(caches: &[CacheSpec]) -> Self {
        let absent = CacheShown::Absent("nothing can be mounted without namespaces".to_owned());
        Self { shown: vec![absent; caches.len()], locked: Vec::new() }
    }

    fn show(&mut self, workspace: &Path, cache: &CacheSpec) -> Result<CacheShown, String> {
        let lower = open_dir(rustix::fs::CWD, &old(&cache.lower))
            .map_err(|error| format!("the directory it would show cannot be opened: {error}"))?;
        let place = place(workspace, Path::new(&cache.at))?;
        let why = match &cache.layer {
            None => "changes to it are not kept".to_owned(),
            Some(layer) => match self.overlay(&lower, &old(layer), &place) {
                Ok(()) => return Ok(CacheShown::Overlay),
                Err(why) => why,
            },
        };
        bind(&lower, &place).map_err(|error| format!("it cannot be mounted: {error}"))?;
        Ok(CacheShown::ReadOnly(why))
    }

    fn overlay(&mut self, lower: &OwnedFd, layer: &Path, place: &OwnedFd) -> Result<(), String> {
        let opened = || -> io::Result<_> {
            let layer = OwnedFd::from(File::open(layer)?);
            let upper = open_dir(&layer, Path::new(UPPER))?;
            let work = open_dir(&layer, Path::new(WORK))?;
            Ok((layer, upper, work))
        };
        let (layer, upper, work) =
            opened().map_err(|error| format!("what holds its changes cannot be opened: {error}"))?;
        rustix::fs::flock(&layer, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another command is changing it".to_owned())?;
        mount_overlay(lower, &upper, &work, place)
            .map_err(|error| format!("the kernel gives no overlay there: {error}"))?;
        self.locked.push(layer);
        Ok(())
    }
}

/// Goes to where a cache appears; what is not there is made.
fn place(workspace: &Path, at: &Path) -> Result<OwnedFd, String> {
    let failed = |error: io::Error| format!("its place in the workspace cannot be reached: {error}");
    let mut dir = open_dir(rustix::fs::CWD, workspace).map_err(failed)?;
    let mut parts = 0;
    for part in at.components() {
        let Component::Normal(name) = part else { return Err("its path leaves the workspace".to_owned()) };
        let name = Path::new(name);
        match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(PLACE_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        dir = open_dir(&dir, name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOTDIR | libc::ELOOP) => {
                format!("something that is no directory is in its place: `{}`", name.display())
            }
            _ => failed(error),
        })?;
        parts += 1;
    }
    if parts == 0 { Err("it would hide the workspace".to_owned()) } else { Ok(dir) }
}

/// A directory, and no link to one.
fn open_dir(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, path, flags, Mode::empty())?)
}

fn mount_overlay(lower: &OwnedFd, upper: &OwnedFd, work: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let filesystem = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: no name has to be escaped, and none can be swapped.
    fsconfig_set_string(&filesystem, "lowerdir", descriptor(lower))?;
    fsconfig_set_string(&filesystem, "upperdir", descriptor(upper))?;
    fsconfig_set_string(&filesystem, "workdir", descriptor(work))?;
    // Its notes are those that a user without privileges may write; the kernel then follows none of those that lead
    // elsewhere.
    fsconfig_set_flag(&filesystem, "userxattr")?;
    fsconfig_create(&filesystem)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mounted = fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    put(mounted.as_fd(), place)
}

fn bind(lower: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(lower, "", flags)?;
    set_attributes_of(tree.as_fd(), Attributes::READ_ONLY)?;
    put(tree.as_fd(), place)
}

fn put(mounted: BorrowedFd<'_>, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mounted, "", place, "", flags)?)
}

fn descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
