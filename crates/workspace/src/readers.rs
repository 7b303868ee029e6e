//! The files of a commit that agents which only read share.
//!
//! Where overlays can be mounted, they are the layers that workspaces share too: the directory of a base itself, or a
//! read-only mount of several layers. Else they are a read-only checkout.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bases::BaseState;
use super::overlays::WorkspaceFiles;
use super::refs::check_id;
use super::run::forget_others;
use super::sync::{self, UNKNOWN_BOOT};
use super::{LocalFiles, ObjectId, RepositoryError, RunSpace, disk};

/// The directory beneath that of a run with the files for readers.
const SHARED: &str = "shared";
/// The last part of the path by which calls name a workspace.
const FILES: &str = "files";

/// The states that the readers of each run use. They stay laid out until the run is released.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<HashMap<PathBuf, Arc<BaseState>>>);

impl Readers {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<BaseState>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the states of all readers beneath a directory, and returns where they were.
    fn take(&self, dir: &Path) -> Vec<PathBuf> {
        let mut states = self.lock();
        let homes: Vec<PathBuf> = states.keys().filter(|home| home.starts_with(dir)).cloned().collect();
        states.retain(|home, _| !home.starts_with(dir));
        homes
    }
}

impl LocalFiles {
    /// Unmounts the files that readers of a run shared, as soon as no call uses them.
    pub fn release_readers(&self, run: &str) {
        for home in self.readers.take(&self.run_dir(run).join(SHARED)) {
            if let Some(overlays) = &self.overlays {
                overlays.release(&home);
            }
        }
    }
}

impl RunSpace {
    /// A path in this process to the files of a commit that readers share. Through a mount it leads as long as the run is
    /// not released.
    pub fn shared(&self, base: &ObjectId) -> Result<PathBuf, RepositoryError> {
        self.open_shared(base).map(|files| files.path())
    }

    /// The path by which calls of readers name the files of a commit. Those of a mount are not at that path.
    pub(super) fn shared_name(&self, base: &ObjectId) -> Result<PathBuf, RepositoryError> {
        Ok(match self.open_shared(base)? {
            WorkspaceFiles::Directory(dir) => dir,
            WorkspaceFiles::Mount(..) => self.readers_home(base).join(FILES),
        })
    }

    /// The files of a commit that readers share. Layers and checkouts are created once in each boot, because they are
    /// never synced.
    pub(super) fn open_shared(&self, base: &ObjectId) -> Result<WorkspaceFiles, RepositoryError> {
        let Some((overlays, _)) = self.usable_overlays() else {
            return self.shared_checkout(base).map(WorkspaceFiles::Directory);
        };
        let home = self.readers_home(base);
        if let Some(mount) = overlays.get(&home) {
            return Ok(WorkspaceFiles::of(mount));
        }
        // A path that was given to calls stays that of a mount.
        let kept = self.spaces.readers.lock().get(&home).filter(|state| state.whole().is_none()).cloned();
        let state = kept.map_or_else(|| self.base_state(base, None), Ok)?;
        self.spaces.readers.lock().insert(home.clone(), state.clone());
        if let Some(dir) = state.whole() {
            return Ok(WorkspaceFiles::Directory(dir));
        }
        match overlays.mount_for_readers(&home, &state) {
            // For example because there are too many mounts.
            Err(RepositoryError::NotMounted(_)) => {
                self.spaces.readers.lock().remove(&home);
                self.shared_checkout(base).map(WorkspaceFiles::Directory)
            }
            mounted => mounted.map(WorkspaceFiles::of),
        }
    }

    fn readers_home(&self, base: &ObjectId) -> PathBuf {
        self.dir().join(SHARED).join(base.to_string())
    }

    fn shared_checkout(&self, base: &ObjectId) -> Result<PathBuf, RepositoryError> {
        let all = self.dir().join(SHARED);
        let boot = self.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok());
        let dir = all.join(boot.unwrap_or(UNKNOWN_BOOT)).join(base.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        forget_others(&all, boot.unwrap_or(UNKNOWN_BOOT))?;
        let making = disk::temporary(&dir);
        disk::make_dirs(&making)?;
        self.checkout(base, &making, true)?;
        if boot.is_none() {
            sync::now(&making)?;
        }
        match fs::rename(&making, &dir) {
            Ok(()) => Ok(dir),
            // Another process created it meanwhile.
            Err(_) if dir.is_dir() => disk::remove_tree(&making).map(|()| dir),
            Err(error) => Err(RepositoryError::io("making", &dir, &error)),
        }
    }
}
