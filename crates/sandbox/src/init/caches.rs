//! Mounts caches in the workspace: as an overlay, read-only, or not at all.
//!
//! A program of an earlier call may have created anything at the mount points, and one of a concurrent call may be
//! doing so now. So each mount point is opened part by part, without following a link, and mounts use the opened
//! directory, not a path. No failure here fails the call: its result says what is missing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::super::command::CacheShown;
use super::super::spec::CacheSpec;
use super::mounting::{self, Attributes};
use super::reached;

/// The subdirectories of a layer: the changes, and the kernel's work directory.
const UPPER: &str = "upper";
const WORK: &str = "work";

/// The mounted caches of a call.
#[derive(Default)]
pub(super) struct Caches {
    /// In the order of the call's caches.
    pub(super) shown: Vec<CacheShown>,
    /// The writable ones.
    pub(super) overlays: Vec<OwnedFd>,
    /// The layers, locked until the call ends.
    _locked: Vec<OwnedFd>,
}

impl Caches {
    /// No cache, where nothing can be mounted.
    pub(super) fn none(caches: &[CacheSpec]) -> Self {
        let absent = CacheShown::Absent("nothing can be mounted without namespaces".to_owned());
        Self { shown: vec![absent; caches.len()], ..Self::default() }
    }
}

/// The caches of a call, not yet mounted.
pub(super) struct TakenCaches {
    all: Vec<Result<CacheMount, String>>,
    locked: Vec<OwnedFd>,
}

struct CacheMount {
    tree: OwnedFd,
    /// The mount point, relative to the workspace.
    at: String,
    shown: CacheShown,
}

impl TakenCaches {
    pub(super) fn of(caches: &[CacheSpec]) -> Self {
        let mut taken = Self { all: Vec::with_capacity(caches.len()), locked: Vec::new() };
        for cache in caches {
            let one = taken.take(cache);
            taken.all.push(one);
        }
        taken
    }

    fn take(&mut self, cache: &CacheSpec) -> Result<CacheMount, String> {
        let lower = reached::open_dir(&cache.lower)
            .map_err(|error| format!("the directory it would show cannot be opened: {error}"))?;
        let at = cache.at.clone();
        let why = match &cache.layer {
            None => "changes to it are not kept".to_owned(),
            Some(layer) => match self.overlay(&lower, cache.below.as_deref(), layer) {
                Ok(tree) => return Ok(CacheMount { tree, at, shown: CacheShown::Overlay }),
                Err(why) => why,
            },
        };
        let tree = || -> io::Result<OwnedFd> {
            let tree = mounting::copy_of(&lower)?;
            mounting::set(&tree, Attributes::ReadOnly)?;
            Ok(tree)
        };
        let tree = tree().map_err(|error| format!("it cannot be mounted: {error}"))?;
        Ok(CacheMount { tree, at, shown: CacheShown::ReadOnly(why) })
    }

    fn overlay(&mut self, lower: &OwnedFd, below: Option<&str>, layer: &str) -> Result<OwnedFd, String> {
        let opened = || -> io::Result<_> {
            let below = below.map(|below| reached::open_dir(Path::new(below).join(UPPER))).transpose()?;
            Ok((below, Layer::open(layer)?))
        };
        let (below, layer) =
            opened().map_err(|error| format!("what holds its changes cannot be opened: {error}"))?;
        rustix::fs::flock(&layer.dir, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another command is changing it".to_owned())?;
        let lowers: Vec<&OwnedFd> = below.iter().chain([lower]).collect();
        let mounted = layer
            .over(&lowers)
            .map_err(|error| format!("the kernel cannot mount an overlay there: {error}"))?;
        self.locked.push(layer.dir);
        Ok(mounted)
    }

    /// Mounts each cache.
    pub(super) fn put(self, workspace: &OwnedFd) -> Caches {
        let mut caches = Caches { _locked: self.locked, ..Caches::default() };
        for taken in self.all {
            let put = taken.and_then(|CacheMount { tree, at, shown }| {
                let place = place(workspace, Path::new(&at))?;
                mounting::put(&tree, place).map_err(|error| format!("it cannot be mounted: {error}"))?;
                caches.overlays.extend(Some(tree).filter(|_| shown == CacheShown::Overlay));
                Ok(shown)
            });
            caches.shown.push(put.unwrap_or_else(CacheShown::Absent));
        }
        caches
    }
}

/// A layer for changes.
pub(super) struct Layer {
    dir: OwnedFd,
    upper: OwnedFd,
    work: OwnedFd,
}

impl Layer {
    pub(super) fn open(path: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(reached::open_dir(path)?, ".", flags, Mode::empty())?;
        let upper = reached::open_subdir(&dir, UPPER.as_ref())?;
        let work = reached::open_subdir(&dir, WORK.as_ref())?;
        Ok(Self { dir, upper, work })
    }

    /// An overlay of directories, the topmost first, with this layer for changes; not yet mounted.
    pub(super) fn over(&self, lowers: &[&OwnedFd]) -> io::Result<OwnedFd> {
        mounting::overlay(lowers, &self.upper, &self.work)
    }
}

/// Opens the mount point of a cache and creates missing directories.
fn place(workspace: &OwnedFd, at: &Path) -> Result<OwnedFd, String> {
    if at.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err("its path leaves the workspace".to_owned());
    }
    if at.as_os_str().is_empty() {
        return Err("it would hide the workspace".to_owned());
    }
    let mut reached = workspace.try_clone().map_err(|error| error.to_string())?;
    for name in at {
        reached = reached::make_dir(&reached, name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOTDIR | libc::ELOOP) => {
                format!("something that is no directory is in its place: `{}`", Path::new(name).display())
            }
            _ => format!("its place in the workspace cannot be reached: {error}"),
        })?;
    }
    Ok(reached)
}
